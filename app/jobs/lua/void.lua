-- include: ending
-- A submit whose outcome is unknown was answered with an error, so it must never run: what it left is removed, and a
-- tombstone stops one that is still on its way. Only where a repetition of the request (same Idempotency-Key) has been
-- given the job meanwhile, perhaps by another process, it stays: what was accepted is kept.
--
-- ARGV[1] job_id   ARGV[2] tombstone's life in ms
-- Keys: ph:void:<job>, ph:job:<id>, ph:gen:<id>*, ph:line:<model>*, ph:deadlines, ph:running, ph:tenant:<tenant>:jobs
-- Returns 'voided' | 'absent' | 'kept'
local idem = redis.call('HMGET', job_key(ARGV[1]), 'tenant', 'idem', 'replayed')
if idem[3] == '1' then return 'kept' end
although_full()
redis.call('SET', 'ph:void:' .. ARGV[1], '1', 'PX', ARGV[2])
redis.call('HSET', job_key(ARGV[1]), 'webhook_url', '')
local outcome = leave_generation(ARGV[1], 'cancelled', 'voided', 'the submit was answered with an error', now_ms())
local gen_id = redis.call('HGET', job_key(ARGV[1]), 'gen')
redis.call('DEL', job_key(ARGV[1]))
if gen_id then redis.call('SREM', gen_jobs_key(gen_id), ARGV[1]) end
if idem[1] then redis.call('ZREM', tenant_jobs_key(idem[1]), ARGV[1]) end
if idem[1] and idem[2] and idem[2] ~= '' then redis.call('DEL', 'ph:idem:' .. idem[1] .. ':' .. idem[2]) end
return outcome == 'gone' and 'absent' or 'voided'
