-- include: ending
-- A worker takes the first generation in line that it may run: lease, fencing token, in_progress event.
--
-- ARGV[1] model   ARGV[2] owner (worker process)   ARGV[3] instance   ARGV[4] lease ms   ARGV[5] task id
-- ARGV[6] the breaker's policy (see lib/breaker.lua), or nothing: this run is not counted
-- Keys: ph:line:<model>*, ph:gen:<id>*, ph:running zset generation -> lease end, ph:instance:<id>,
--       ph:task:<task> string generation (an hour; lets a revoke find what the task runs), ph:ring:<model>,
--       ph:breaker:<instance>
-- Returns {} when there is nothing to do, {slot} when there is but another instance has to do it, else
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
local function elsewhere()
  local slot = next_slot(model, '', instance, now)
  return slot ~= '' and { slot } or {}
end
if places == 0 then return redis.call('EXISTS', line_key(model)) == 1 and elsewhere() or {} end

-- A failed instance is passed over for a retry, unless it is the only one there is.
local function may_run(g)
  return g.excluded ~= instance or redis.call('LLEN', ring_key(model)) < 2
end

local passed_over = false
for _, member in ipairs(redis.call('ZRANGE', line_key(model), 0, 31)) do
  local gen_id = member:sub(18)
  local g = read_generation(gen_id)
  if not g then
    drop_from_line(model, member)
  elseif not may_run(g) then
    passed_over = true
  elseif tonumber(g.deadline_at) > now then
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
    redis.call('HSET', key, 'status', 'in_progress', 'fence', int(fence), 'claimed_at', int(now), 'owner', owner, 'instance', instance, 'task', ARGV[5],
      'breaker', ARGV[6] or '', 'probe', places and '1' or '', 'pid', redis.call('HGET', instance_key(instance), 'pid') or '')
    if places then take_probe(instance, gen_id, int(fence)) end
    redis.call('ZADD', 'ph:running', int(now + tonumber(ARGV[4])), gen_id)
    if redis.call('EXISTS', instance_key(instance)) == 1 then
      redis.call('HINCRBY', instance_key(instance), 'in_flight', 1)
    end
    redis.call('SET', 'ph:task:' .. ARGV[5], gen_id, 'PX', 3600000)
    return claimed(gen_id, fence, attempts, seq, g.deadline_at, g.tenant, g.status == 'queued' and 0 or 1, g.continuable)
  end
end
return passed_over and elsewhere() or {}
