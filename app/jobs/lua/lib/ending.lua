-- include: keys
-- include: events
-- include: line
-- include: ring
-- The ways in which generations and jobs end. Everything that must happen together happens here, in one step:
-- terminal state, final event, outbox entry, the places in line and among the running given up.

-- At its end a generation can be joined no more, but for a few seconds after a good one.
local JOINABLE_MS = 5000
local function close_joining(gen_id, g, good)
  if g.join == '' or redis.call('GET', join_key(g.join)) ~= gen_id then return end
  if good then redis.call('PEXPIRE', join_key(g.join), JOINABLE_MS) else redis.call('DEL', join_key(g.join)) end
end

-- Nothing is left to be done at the deadlines of its jobs; those of many go when they are due.
local MOST_AT_ONCE = 100
local function forget_deadlines(gen_id, g)
  if tonumber(g.jobs) > MOST_AT_ONCE then return end
  for _, job_id in ipairs(redis.call('SMEMBERS', gen_jobs_key(gen_id))) do redis.call('ZREM', 'ph:deadlines', job_id) end
end

-- End a generation. `events` (JSON texts) are appended after what is already logged.
-- fields: extra hash fields as a flat list. good: the answer may be given to others for some seconds more.
local function end_generation(gen_id, g, status, events, fields, now, good)
  close_joining(gen_id, g, good)
  forget_deadlines(gen_id, g)
  append_events(gen_id, tonumber(g.seq), events)
  if g.owner ~= '' then
    redis.call('ZREM', 'ph:running', gen_id)
    if g.instance ~= '' and redis.call('EXISTS', instance_key(g.instance)) == 1 then
      redis.call('HINCRBY', instance_key(g.instance), 'in_flight', -1)
    end
  else
    leave_line(g.model, g.member, g.tenant)
  end
  redis.call('HINCRBY', gen_key(gen_id), 'fence', 1)
  redis.call('HSET', gen_key(gen_id), 'status', status, 'owner', '', 'ended_at', int(now), unpack(fields))
  redis.call('HINCRBY', stats_key(g.model), status, 1)
  if tonumber(g.webhooks) > 0 then redis.call('ZADD', 'ph:outbox', int(now), 'gen:' .. gen_id) end
end

local GEN = { 'model', 'tenant', 'member', 'tag', 'owner', 'instance', 'status', 'fence', 'attempts', 'seq', 'jobs',
  'webhooks', 'continuable', 'excluded', 'deadline_at', 'cost', 'join', 'breaker', 'pid', 'claimed_at' }

-- The fields of a generation that scripts decide on, or nil when it is gone.
local function read_generation(gen_id)
  local values = redis.call('HMGET', gen_key(gen_id), unpack(GEN))
  if not values[1] then return nil end
  local g = {}
  for i, name in ipairs(GEN) do g[name] = values[i] or '' end
  return g
end

local function is_terminal(status)
  return status ~= 'queued' and status ~= 'in_progress'
end

local function end_event(status, code, message)
  return cjson.encode({ k = 'end', status = status, code = code, message = message })
end

local function bury(gen_id, now)
  redis.call('ZADD', 'ph:dead', int(now), gen_id)
  redis.call('ZREMRANGEBYRANK', 'ph:dead', 0, -10001)
end

-- The generation fails for good: dead-letter entry, partial text stays in the log.
local function fail_generation(gen_id, g, code, message, now)
  end_generation(gen_id, g, 'failed', { end_event('failed', code, message) },
    { 'error_code', code, 'error_message', message }, now)
  bury(gen_id, now)
end

-- A job leaves its generation before the end, with a terminal state of its own. The generation is aborted when its
-- last job has left. Returns 'ended' | 'already' | 'gone'.
local function leave_generation(job_id, status, code, message, now)
  local j = redis.call('HMGET', job_key(job_id), 'gen', 'status', 'webhook_url')
  redis.call('ZREM', 'ph:deadlines', job_id)
  if not j[1] then return 'gone' end
  if j[2] and j[2] ~= '' then return 'already' end
  local gen_id = j[1]
  local g = read_generation(gen_id)
  if not g then return 'gone' end
  if is_terminal(g.status) then return 'already' end
  redis.call('HSET', job_key(job_id), 'status', status, 'ended_at', int(now), 'end_sequence', g.seq,
    'error_code', code, 'error_message', message)
  redis.call('SREM', gen_jobs_key(gen_id), job_id)
  redis.call('PUBLISH', live_channel(gen_id), cjson.encode({ job = job_id, ['end'] = tonumber(g.seq) }))
  if j[3] and j[3] ~= '' then
    redis.call('ZADD', 'ph:outbox', int(now), 'job:' .. job_id)
    g.webhooks = int(redis.call('HINCRBY', gen_key(gen_id), 'webhooks', -1))
  end
  if redis.call('HINCRBY', gen_key(gen_id), 'jobs', -1) <= 0 then
    end_generation(gen_id, g, 'cancelled', {}, {}, now)
  end
  return 'ended'
end

-- A worker lost or gave up its generation: back to its old place in line (the head, or near it), or the end when its
-- attempts are used up or its output cannot be continued.
--   counted: this run counts as an attempt; false for drains and for losses while Redis was away
--   fault: the instance is to blame, and its breaker hears of it
-- Returns 'requeued' | 'failed'.
local FIRST_OUTPUT_SEQUENCE = 3 -- 0 created, 1 queued, 2 in_progress
local function hand_back(gen_id, g, opts, now)
  if opts.fault then tell_breaker(gen_id, g, false, now) end
  local key = gen_key(gen_id)
  local attempts = tonumber(g.attempts)
  if not opts.counted then attempts = redis.call('HINCRBY', key, 'attempts', -1) end
  if opts.counted and attempts >= opts.max_attempts then
    fail_generation(gen_id, g, opts.code, opts.message .. ' (attempt ' .. attempts .. ' of ' .. opts.max_attempts .. ')', now)
    return 'failed'
  end
  if g.continuable ~= '1' and tonumber(g.seq) > FIRST_OUTPUT_SEQUENCE then
    fail_generation(gen_id, g, opts.code, opts.message .. '; this output cannot be continued by another worker', now)
    return 'failed'
  end
  redis.call('ZREM', 'ph:running', gen_id)
  if g.instance ~= '' and redis.call('EXISTS', instance_key(g.instance)) == 1 then
    redis.call('HINCRBY', instance_key(g.instance), 'in_flight', -1)
  end
  redis.call('HINCRBY', key, 'fence', 1)
  redis.call('HSET', key, 'owner', '', 'excluded', opts.exclude or '')
  stand_in_line(g.model, gen_id, g.tag, g.member, g.tenant, now)
  return 'requeued'
end
