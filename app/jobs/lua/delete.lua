-- include: ending
-- A job is deleted by its owner: it ends first if it still runs, then its record goes, and with the last job of an ended
-- generation everything of that. Its Idempotency-Key stays, so that a late repetition does not run it again.
--
-- ARGV[1] job_id
-- Keys: ph:job:<id>, ph:gen:<id>*, ph:tenant:<tenant>:jobs, ph:deadlines, ph:line:<model>*, ph:running, ph:outbox
-- Returns 1, or 0 when there is no such job
although_full()
local j = redis.call('HMGET', job_key(ARGV[1]), 'gen', 'tenant')
if not j[1] then return 0 end
redis.call('HSET', job_key(ARGV[1]), 'webhook_url', '')
leave_generation(ARGV[1], 'cancelled', '', 'deleted', now_ms())
redis.call('DEL', job_key(ARGV[1]))
redis.call('SREM', gen_jobs_key(j[1]), ARGV[1])
redis.call('ZREM', tenant_jobs_key(j[2]), ARGV[1])
local status = redis.call('HGET', gen_key(j[1]), 'status')
if status and is_terminal(status) and redis.call('SCARD', gen_jobs_key(j[1])) == 0 then
  redis.call('DEL', gen_key(j[1]), gen_jobs_key(j[1]), log_key(j[1]))
end
return 1
