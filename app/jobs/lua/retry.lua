-- include: ending
-- An operator gives a job that ended as a dead letter another chance: a new generation with attempts and a log of its own,
-- under the job's old id. The dead generation stays as it ended, so its own end is still the only one it has.
--
-- ARGV[1] job_id   ARGV[2] new gen_id   ARGV[3] policy (round_robin|least_loaded)
-- Keys: ph:job:<id>, ph:gen:<old>*, ph:gen:<new>*, ph:dead, ph:line:<model>*, ph:deadlines, ph:ring:<model>,
--       ph:instance:<id>, ph:breaker:<instance>
-- Returns {'gone'} | {'not_dead'} | {'ok', model, slot or ''}
local job, new = ARGV[1], ARGV[2]
local now = now_ms()
local j = redis.call('HMGET', job_key(job), 'gen', 'status', 'model', 'created_at', 'retried_at', 'deadline_at',
  'webhook_url', 'tier')
local old = j[1]
local g = old and read_generation(old)
if not g then return { 'gone' } end
if j[2] ~= '' or g.status ~= 'failed' or not redis.call('ZSCORE', 'ph:dead', old) then return { 'not_dead' } end

local patience = tonumber(j[6]) - tonumber(j[5] or j[4]) -- the time that the client gave it
local deadline_at = int(now + patience)
local ttl = int(math.max(0, redis.call('PTTL', job_key(job))) + patience)
redis.call('SREM', gen_jobs_key(old), job)
if redis.call('EXISTS', gen_jobs_key(old)) == 0 then redis.call('ZREM', 'ph:dead', old) end
redis.call('HSET', job_key(job), 'gen', new, 'retried_at', int(now), 'deadline_at', deadline_at)
redis.call('HINCRBY', job_key(job), 'retries', 1)
redis.call('SADD', gen_jobs_key(new), job)

local asked = redis.call('HMGET', gen_key(old), 'request', 'revision', 'cache', 'fallbacks')
redis.call('HSET', gen_key(new), 'v', V, 'id', new, 'created_at', int(now), 'deadline_at', deadline_at, 'status', 'queued',
  'owner', '', 'instance', '', 'fence', 0, 'attempts', 0, 'seq', 0, 'jobs', 1, 'webhooks', j[7] ~= '' and 1 or 0,
  'excluded', '', 'join', '', 'tenant', g.tenant, 'model', j[3], 'tier', j[8], 'cost', g.cost, 'continuable',
  g.continuable, 'request', asked[1], 'revision', asked[2] or '', 'cache', asked[3] or '', 'fallbacks', asked[4] or '')
append_events(new, 0, { '{"k":"created"}', '{"k":"queued"}' })
local waits = redis.call('EXISTS', line_key(j[3])) == 1
local slot = not waits and next_slot(j[3], ARGV[3], '', now) or ''
join_line(j[3], new, g.tenant, j[8], tonumber(g.cost), now)
redis.call('ZADD', 'ph:deadlines', deadline_at, job)
for _, key in ipairs({ job_key(job), gen_key(new), gen_jobs_key(new), log_key(new) }) do redis.call('PEXPIRE', key, ttl) end
return { 'ok', j[3], slot }
