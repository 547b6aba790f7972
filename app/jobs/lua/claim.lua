-- include: nobody
-- A worker takes the first generation in line that it may run: lease, fencing token, in_progress event.
--
-- ARGV[1] model   ARGV[2] owner (worker process)   ARGV[3] instance   ARGV[4] lease ms   ARGV[5] task id
-- ARGV[6] the breaker's policy (see lib/breaker.lua), or nothing: this run is not counted
-- Keys: ph:line:<model>*, ph:gen:<id>*, ph:running zset generation -> lease end, ph:instance:<id>,
--       ph:task:<task> string generation (an hour; lets a revoke find what the task runs), ph:ring:<model>,
--       ph:breaker:<instance>
-- Returns {} when there is nothing to do, {slot} when there is but another instance has to do it ('': claim again, this look
--   has ended as much late work as one step may), else
--   {gen_id, fence, attempts, seq, now, deadline_at, request, tenant, prompt_ids or '', started_before 0|1, continuable, cache,
--    budget of tokens where this model stands in for another, or ''}
local model, owner, instance = ARGV[1], ARGV[2], ARGV[3]
local now = now_ms()

local function claimed(gen_id, fence, attempts, seq, deadline_at, tenant, resumed, continuable)
  local rest = redis.call('HMGET', gen_key(gen_id), 'request', 'prompt_ids', 'cache', 'budget')
  return { gen_id, fence, attempts, seq, now, deadline_at, rest[1], tenant, rest[2] or '', resumed, continuable, rest[3] or '',
    rest[4] or '' }
end

-- The same task asks again because it never heard the reply: the claim stands.
local before = redis.call('GET', 'ph:task:' .. ARGV[5])
if before then
  local held = redis.call('HMGET', gen_key(before), 'owner', 'task', 'fence', 'attempts', 'seq', 'deadline_at', 'tenant',
    'continuable')
  if held[1] == owner and held[2] == ARGV[5] then
    return claimed(before, tonumber(held[3]), tonumber(held[4]), tonumber(held[5]), held[6], held[7], 1, held[8])
  end
end

-- An open breaker lets nothing pass, a half-open one its probes.
local places = probe_places(instance, now)
if places == 0 then
  local slot = redis.call('EXISTS', line_key(model)) == 1 and next_slot(model, '', instance, now) or ''
  return slot ~= '' and { slot } or {}
end

-- A failed instance is passed over for a retry, unless it is the only one there is.
local function may_run(g)
  return g.excluded ~= instance or redis.call('LLEN', ring_key(model)) < 2
end

local function take(gen_id, g, member)
  local key = gen_key(gen_id)
  leave_line(model, member, g.tenant)
  advance_line(model, g.tag, now)
  -- By the clock, so that a token given out by a master that is gone is never given again by the next one.
  local fence = math.max(tonumber(g.fence) + 1, now)
  local attempts = redis.call('HINCRBY', key, 'attempts', 1)
  local seq = tonumber(g.seq)
  if g.status == 'queued' then
    seq = append_events(gen_id, seq, { '{"k":"in_progress"}' })
    redis.call('HSET', key, 'started_at', int(now))
  end
  redis.call('HSET', key, 'status', 'in_progress', 'fence', int(fence), 'claimed_at', int(now), 'owner', owner, 'instance', instance,
    'task', ARGV[5], 'breaker', ARGV[6] or '', 'probe', places and '1' or '',
    'pid', redis.call('HGET', instance_key(instance), 'pid') or '')
  if places then take_probe(instance, gen_id, int(fence)) end
  redis.call('ZADD', 'ph:running', int(now + tonumber(ARGV[4])), gen_id)
  if redis.call('EXISTS', instance_key(instance)) == 1 then
    redis.call('HINCRBY', instance_key(instance), 'in_flight', 1)
  end
  redis.call('SET', 'ph:task:' .. ARGV[5], gen_id, 'PX', 3600000)
  return claimed(gen_id, fence, attempts, seq, g.deadline_at, g.tenant, g.status == 'queued' and 0 or 1, g.continuable)
end

-- What is past its deadline ends here, as far as this can be done in one step. Returns whether it is out of the line.
local function end_late(gen_id, g)
  if tonumber(g.jobs) > MOST_AT_ONCE then return false end -- the reaper ends them one by one
  for _, job_id in ipairs(redis.call('SMEMBERS', gen_jobs_key(gen_id))) do
    local code, message = lateness(job_id, now)
    leave_generation(job_id, 'failed', code, message, now)
  end
  return redis.call('ZSCORE', line_key(model), g.member) == false
end

-- Work that this instance may not take does not hide what stands behind it. Both bounds keep the step within a few ms; the
-- jobs count, as ending them is most of the work.
local PAGE, MOST_PASSED, MOST_ENDED = 32, 256, 32
local passed, ended, passed_over = 0, 0, false
while passed < MOST_PASSED and ended < MOST_ENDED do
  local page = redis.call('ZRANGE', line_key(model), passed, passed + PAGE - 1)
  if #page == 0 then break end
  for _, member in ipairs(page) do
    local gen_id = member:sub(18)
    local g = read_generation(gen_id)
    if not g then
      drop_from_line(model, member)
      ended = ended + 1
    elseif tonumber(g.deadline_at) <= now then
      if end_late(gen_id, g) then ended = ended + math.max(1, tonumber(g.jobs)) else passed = passed + 1 end
    elseif may_run(g) then
      return take(gen_id, g, member)
    else
      passed, passed_over = passed + 1, true
    end
  end
end
if ended >= MOST_ENDED and redis.call('EXISTS', line_key(model)) == 1 then return { '' } end
if not passed_over then return {} end
-- Where nobody else has a free place either, the hint waits on another one's queue: here it would come back at once.
local slot = next_slot(model, '', instance, now)
if slot == '' then slot = next_full_slot(model, instance) end
return slot ~= '' and { slot } or {}
