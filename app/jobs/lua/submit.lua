-- include: keys
-- include: events
-- include: line
-- Accept a job: record, generation, log, place in line, deadline, idempotency key - all or nothing, and nothing at all
-- once "not after" has passed (a timed-out command may still run later).
--
-- ARGV[1] not_after        ms of Redis time; 0: no limit
-- ARGV[2] facts (JSON)     job_id, gen_id, tenant, model, tier, cost, deadline_in, ttl (ms from now), queue_cap,
--                          tenant_cap, idem ('' or key digest), idem_body, idem_ttl, webhook (0|1)
-- ARGV[3] n                number of following arguments that are fields of the job's hash
-- ARGV[4 .. 3+n]           field, value, ...
-- ARGV[4+n ..]             field, value, ... of the generation's hash
--
-- Keys: ph:job:<id> hash, ph:gen:<id> hash, ph:gen:<id>:jobs set, ph:gen:<id>:log stream, ph:line:<model>*,
--       ph:deadlines zset job -> ms, ph:idem:<tenant>:<digest> string `<job>|<body digest>`, ph:void:<job> tombstone,
--       ph:ring:<model> list, ph:instance:<id> hash
--
-- Returns {'ok', now, slot or '', position} | {'late', now} | {'void', now} | {'full', now, 'model'|'tenant', waiting} |
--         {'replayed', now, job_id} | {'conflict', now} | {'expired', now}

local now = now_ms()
local not_after = tonumber(ARGV[1])
if not_after > 0 and now > not_after then return { 'late', now } end
local f = cjson.decode(ARGV[2])
if redis.call('EXISTS', 'ph:void:' .. f.job_id) == 1 then return { 'void', now } end

local idem = f.idem ~= '' and ('ph:idem:' .. f.tenant .. ':' .. f.idem) or nil
if idem then
  local kept = redis.call('GET', idem)
  if kept then
    local job_id, body = kept:match('^([^|]+)|(.*)$')
    if body ~= f.idem_body then return { 'conflict', now } end
    if redis.call('EXISTS', job_key(job_id)) == 0 then return { 'expired', now } end
    return { 'replayed', now, job_id }
  end
end

local waiting = redis.call('ZCARD', line_key(f.model))
if waiting >= f.queue_cap then return { 'full', now, 'model', waiting } end
local own = tonumber(redis.call('HGET', line_part(f.model, 'tenants'), f.tenant) or '0')
if own >= f.tenant_cap then return { 'full', now, 'tenant', own } end

-- The instance whose turn it is, when it has a free place and nobody waits: it gets the hint on its own queue.
local function next_slot()
  if waiting > 0 then return '' end
  local ring = ring_key(f.model)
  for _ = 1, math.min(redis.call('LLEN', ring), 16) do
    local id = redis.call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
    local load = redis.call('HMGET', instance_key(id), 'in_flight', 'capacity', 'slot')
    if not load[3] then
      redis.call('LREM', ring, 0, id)
    elseif tonumber(load[1]) < tonumber(load[2]) then
      return load[3]
    end
  end
  return ''
end

local n = tonumber(ARGV[3])
local deadline_at = int(now + f.deadline_in)
redis.call('HSET', job_key(f.job_id), 'v', V, 'created_at', int(now), 'deadline_at', deadline_at, 'status', '',
  unpack(ARGV, 4, 3 + n))
redis.call('HSET', gen_key(f.gen_id), 'v', V, 'created_at', int(now), 'deadline_at', deadline_at, 'status', 'queued',
  'owner', '', 'instance', '', 'fence', 0, 'attempts', 0, 'seq', 0, 'jobs', 1, 'webhooks', f.webhook, 'excluded', '',
  'cost', f.cost, 'tier', f.tier, unpack(ARGV, 4 + n))
redis.call('SADD', gen_jobs_key(f.gen_id), f.job_id)
append_events(f.gen_id, 0, { '{"k":"created"}', '{"k":"queued"}' })
local slot = next_slot()
local member = join_line(f.model, f.gen_id, f.tenant, f.tier, f.cost, now)
redis.call('ZADD', 'ph:deadlines', deadline_at, f.job_id)
for _, key in ipairs({ job_key(f.job_id), gen_key(f.gen_id), gen_jobs_key(f.gen_id), log_key(f.gen_id) }) do
  redis.call('PEXPIRE', key, f.ttl)
end
if idem then redis.call('SET', idem, f.job_id .. '|' .. f.idem_body, 'PX', f.idem_ttl) end
return { 'ok', now, slot, redis.call('ZRANK', line_key(f.model), member) }
