-- include: nobody
-- include: queues
-- One tick of the reaper, idempotent, run by every worker: take back expired leases, end what is past its deadline,
-- forget dead instances, say which lines need hints and whether webhooks wait.
--
-- ARGV[1] tick ms   ARGV[2] lease ms   ARGV[3] max attempts   ARGV[4] instance silence ms
-- ARGV[5] how much one tick may end, take back or hand out: each costs Redis up to 0.1 ms
-- Keys: ph:reaper hash {tick, hold_until}, ph:running, ph:deadlines, ph:models, ph:instances:<model>,
--       ph:ring:<model>, ph:line:<model>*, ph:gen:<id>*, ph:job:<id>, ph:breaker:<instance>, ph:busy, ph:outbox, ph:deliveries:due, ph:deliveries:hinted,
--       gpu.<model>, gpu.<model>.<slot> lists (kombu's queues)
-- Returns {'skipped'} when another reaper has just run, else
--         {'held' | 'reaped' | 'more', taken back, failed, past deadline, webhooks waiting 0|1, model, hints, model, hints, ...}
-- 'more': as much was done as one tick may do, and the next one may come at once
local now = now_ms()
although_full()
local tick, lease, left = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5])
local state = redis.call('HMGET', 'ph:reaper', 'tick', 'hold_until')
local last, hold_until = tonumber(state[1] or '0'), tonumber(state[2] or '0')
if now >= last and now - last < tick / 2 then return { 'skipped' } end
redis.call('HSET', 'ph:reaper', 'tick', int(now))

-- A gap in the ticks means that Redis was away (or that no worker lived): leases could not be renewed, so nothing is
-- taken back for one lease.
if last > 0 and now - last > math.max(4 * tick, 2000) then
  hold_until = now + lease
  redis.call('HSET', 'ph:reaper', 'hold_until', int(hold_until))
end
local held = now < hold_until
local taken, failed, past = 0, 0, 0
local returned = {} -- model -> generations that went back to its line, or came from one whose model is away

-- A lease runs out long after its process died: the one that has replaced it is not to blame.
local function same_process(g)
  local pid = redis.call('HGET', instance_key(g.instance), 'pid')
  return not pid or pid == g.pid
end

if not held then
  for _, gen_id in ipairs(redis.call('ZRANGEBYSCORE', 'ph:running', '-inf', int(now), 'LIMIT', 0, left)) do
    left = left - 1
    local g = read_generation(gen_id)
    if not g or g.owner == '' then
      redis.call('ZREM', 'ph:running', gen_id)
    else
      -- A lease that ran out before the hold ended was lost to Redis' absence: no attempt.
      local ran_out = tonumber(redis.call('ZSCORE', 'ph:running', gen_id))
      local outcome = hand_back(gen_id, g, { counted = ran_out > hold_until, max_attempts = tonumber(ARGV[3]),
        code = 'worker_lost', message = 'the worker of this job died or stalled', exclude = '',
        fault = ran_out > hold_until and same_process(g) }, now)
      if outcome == 'failed' then
        failed = failed + 1
      else
        taken = taken + 1
        returned[g.model] = (returned[g.model] or 0) + 1
      end
    end
  end
end

-- Where many have shared a generation that has ended, their deadlines are still there. Each is a look only, and 10,000 may
-- be due at once: they must not hold up those of work that waits.
local LOOKS = 8 -- cost as much as ending one
local over = {} -- generation -> whether it has ended
local function has_ended(job_id)
  local j = redis.call('HMGET', job_key(job_id), 'gen', 'status')
  if not j[1] or (j[2] and j[2] ~= '') then return true end
  if over[j[1]] == nil then
    local status = redis.call('HGET', gen_key(j[1]), 'status')
    over[j[1]] = not status or is_terminal(status)
  end
  return over[j[1]]
end

local idle = {}
for _, job_id in ipairs(redis.call('ZRANGEBYSCORE', 'ph:deadlines', '-inf', int(now), 'LIMIT', 0, math.floor(left) * LOOKS)) do
  if left <= 0 then break end
  if has_ended(job_id) then
    idle[#idle + 1] = job_id
    left = left - 1 / LOOKS
  else
    left = left - 1
    local code, message = lateness(job_id, now)
    if leave_generation(job_id, 'failed', code, message, now) == 'ended' then past = past + 1 end
  end
end
if #idle > 0 then redis.call('ZREM', 'ph:deadlines', unpack(idle)) end

-- Webhook workers need a hint when something is due; one a second is plenty, as a run drains all that is due.
local function webhooks_wait()
  local waiting = redis.call('EXISTS', 'ph:outbox') == 1 or redis.call('ZCOUNT', 'ph:deliveries:due', '-inf', int(now)) > 0
  return waiting and redis.call('SET', 'ph:deliveries:hinted', '1', 'NX', 'PX', 1000) and 1 or 0
end

local reply = { held and 'held' or 'reaped', taken, failed, past, webhooks_wait() }

-- A worker that lives takes a hint from its own queue within milliseconds while it has free places. One that does not is
-- dead or paused, and what was meant for it is for all.
local function share_what_lies(model)
  for _, id in ipairs(redis.call('LRANGE', ring_key(model), 0, MOST_LOOKED_AT - 1)) do
    local free, slot = places_of(id, now)
    if free and free > 0 then share_hints(model, slot) end
  end
end

-- Hints are published again for a line that does not move although places are free: at once when nothing was claimed
-- for a second, and for a head that waits long even though others are claimed.
local function hints_for(model)
  local waiting = redis.call('ZCARD', line_key(model))
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', instances_key(model), '-inf', int(now - tonumber(ARGV[4])))) do
    redis.call('ZREM', instances_key(model), id)
    redis.call('LREM', ring_key(model), 0, id)
    share_hints(model, id:sub(#model + 2))
  end
  if waiting == 0 then return 0 end
  -- Where all places are taken the hint lies ready for the first that falls free; where nobody is there, whoever comes looks.
  if returned[model] then return redis.call('EXISTS', ring_key(model)) * returned[model] end
  local free = free_places(model, now)
  if free == 0 then return 0 end
  local clock = line_part(model, 'clock')
  local times = redis.call('HMGET', clock, 'moved', 'rehinted')
  local rehinted = tonumber(times[2] or '0')
  local head = redis.call('ZRANGE', line_key(model), 0, 0)[1]
  local lined_at = tonumber(redis.call('HGET', gen_key(head:sub(18)), 'lined_at') or '0')
  if now - lined_at > 1000 then share_what_lies(model) end
  local still = now - math.max(tonumber(times[1] or '0'), lined_at, rehinted) > 1000
  local overdue = now - math.max(lined_at, rehinted) > 5000
  if not (still or overdue) then return 0 end
  redis.call('HSET', clock, 'rehinted', int(now))
  local few = math.min(waiting, free)
  if not still then return few end
  -- Nothing moves: every hint that is not lying in the shared queue may have been lost.
  return math.max(few, waiting - redis.call('LLEN', shared_queue(model)))
end

local models = redis.call('SMEMBERS', 'ph:models')
for _, model in ipairs(models) do left = left - relieve(model, math.ceil(left), returned, now) end
left = left - say_busy_to_all(math.ceil(left), now)
if left < 1 then -- the next tick may come at once, whosever it is
  redis.call('HSET', 'ph:reaper', 'tick', int(now - tick / 2))
  reply[1] = 'more'
end
for _, model in ipairs(models) do
  local hints = hints_for(model)
  if hints > 0 then
    reply[#reply + 1] = model
    reply[#reply + 1] = hints
  end
end
return reply
