-- include: joining
-- Accept a job: join the generation in flight that answers the same, or write record, generation, log, place in line,
-- deadline and idempotency key - all or nothing, and nothing at all once "not after" has passed (a timed-out command
-- may still run later).
--
-- ARGV[1] not_after        ms of Redis time; 0: no limit
-- ARGV[2] facts (JSON)     job_id, gen_id, tenant, model, tier, cost, deadline_in, ttl (ms from now), queue_cap,
--                          tenant_cap, idem ('' or key digest), idem_body, idem_ttl, webhook (0|1),
--                          join ('' or request digest), join_cap,
--                          policy (round_robin|least_loaded), busy_after (ms until the busy reply, 0: none), held (1: not yet in line, see admit.lua)
-- ARGV[3] n                number of following arguments that are fields of the job's hash
-- ARGV[4 .. 3+n]           field, value, ...
-- ARGV[4+n ..]             field, value, ... of the generation's hash
--
-- Keys: ph:job:<id> hash, ph:gen:<id> hash, ph:gen:<id>:jobs set, ph:gen:<id>:log stream, ph:line:<model>*,
--       ph:deadlines zset job -> ms, ph:idem:<tenant>:<digest> string `<job>|<body digest>`, ph:void:<job> tombstone,
--       ph:ring:<model> list, ph:instance:<id> hash, ph:join:<digest> string generation,
--       ph:breaker:<instance>, ph:rate:<model>, ph:busy
--
-- Returns {'ok', now, slot or '', position, expected wait} | {'held', now} | {'late', now} | {'void', now} |
--         {'full', now, 'model'|'tenant'|'wait', number waiting or expected wait, ms until there is room or -1} |
--         {'replayed', now, job_id} | {'conflict', now} | {'expired', now} |
--         {'joined', now, generation, status, position, expected wait}
-- Expected waits in ms, -1 when nobody can say.

local now = now_ms()
local f = cjson.decode(ARGV[2])
local n = tonumber(ARGV[3])
local settled = settled_already(f, tonumber(ARGV[1]), now)
if settled then return settled end
local other, g = joinable(f)
if other then return join_generation(other, g, f, now, n) end

local waiting = redis.call('ZCARD', line_key(f.model))
local seen = outlook(f.model, now)
if waiting >= f.queue_cap then return { 'full', now, 'model', waiting, room_ms(seen, waiting - f.queue_cap + 1) } end
local own = tonumber(redis.call('HGET', line_part(f.model, 'tenants'), f.tenant) or '0')
if own >= f.tenant_cap then -- others' work leaves the line in between
  return { 'full', now, 'tenant', own, room_ms(seen, (own - f.tenant_cap + 1) * waiting / own) }
end
if seen and (waiting > 0 or seen.free == 0) then
  local rank = rank_to_come(f.model, f.gen_id, f.tenant, f.tier)
  local late = late_ms(seen, rank, f.cost, f.deadline_in)
  if late > 0 then return { 'full', now, 'wait', wait_ms(seen, rank), late } end
end

local deadline_at = write_job(f, f.gen_id, 'miss', now, n)
redis.call('HSET', gen_key(f.gen_id), 'v', V, 'created_at', int(now), 'deadline_at', deadline_at, 'status', 'queued',
  'owner', '', 'instance', '', 'fence', 0, 'attempts', 0, 'seq', 0, 'jobs', 1, 'webhooks', f.webhook, 'excluded', '',
  'cost', f.cost, 'tier', f.tier, 'join', f.join, unpack(ARGV, 4 + n))
append_events(f.gen_id, 0, { '{"k":"created"}', '{"k":"queued"}' })
redis.call('ZADD', 'ph:deadlines', deadline_at, f.job_id)
if (f.busy_after or 0) > 0 then redis.call('ZADD', 'ph:busy', int(now + f.busy_after), f.gen_id) end
keep_generation(f.gen_id, f.ttl)
if f.join ~= '' then redis.call('SET', join_key(f.join), f.gen_id, 'PX', f.ttl) end
if f.held == 1 then
  redis.call('HSET', gen_key(f.gen_id), 'held', '1')
  return { 'held', now }
end
-- Where nobody waits, the instance whose turn it is gets the hint on its own queue.
local slot = waiting == 0 and next_slot(f.model, f.policy, '', now) or ''
local member = join_line(f.model, f.gen_id, f.tenant, f.tier, f.cost, now)
local rank = redis.call('ZRANK', line_key(f.model), member)
return { 'ok', now, slot, rank, wait_ms(seen, rank) }
