-- include: ending
-- What every way of accepting a job begins with, and how its record is written.
-- facts: see submit.lua.

-- The reply that refuses (or replays) the submit, or nil when it may go on.
local function settled_already(f, not_after, now)
  if not_after > 0 and now > not_after then return { 'late', now } end
  if redis.call('EXISTS', 'ph:void:' .. f.job_id) == 1 then return { 'void', now } end
  if f.idem == '' then return nil end
  local kept = redis.call('GET', 'ph:idem:' .. f.tenant .. ':' .. f.idem)
  if not kept then return nil end
  local job_id, body = kept:match('^([^|]+)|(.*)$')
  if body ~= f.idem_body then return { 'conflict', now } end
  local job = redis.call('HMGET', job_key(job_id), 'gen')
  if not job[1] then return { 'expired', now } end
  -- Its record has not reached a replica (yet), so nobody may be promised it.
  local held = redis.call('HMGET', gen_key(job[1]), 'held', 'status')
  if held[1] == '1' and held[2] == 'queued' then return { 'late', now } end
  although_full()
  redis.call('HSET', job_key(job_id), 'replayed', '1') -- from now on somebody has been promised it, see void.lua
  return { 'replayed', now, job_id }
end

-- The tenant's jobs, newest last:  ph:tenant:<tenant>:jobs  zset job -> ms of acceptance. It lives as long as its
-- longest-kept job and holds the latest 100,000; ids of jobs that are gone are dropped by whoever lists them.
local MOST_LISTED = 100000
local function list_job(f, now)
  local list = tenant_jobs_key(f.tenant)
  redis.call('ZADD', list, int(now), f.job_id)
  if redis.call('PTTL', list) < f.ttl then redis.call('PEXPIRE', list, f.ttl) end
  if redis.call('ZCARD', list) > MOST_LISTED then redis.call('ZREMRANGEBYRANK', list, 0, -MOST_LISTED - 1) end
end

-- The job's record, its deadline, its idempotency key, its membership of a generation.
local function write_job(f, gen_id, cache, now, n)
  local deadline_at = int(now + f.deadline_in)
  redis.call('HSET', job_key(f.job_id), 'v', V, 'created_at', int(now), 'deadline_at', deadline_at, 'status', '',
    unpack(ARGV, 4, 3 + n))
  redis.call('HSET', job_key(f.job_id), 'gen', gen_id, 'cache', cache)
  redis.call('PEXPIRE', job_key(f.job_id), f.ttl)
  redis.call('SADD', gen_jobs_key(gen_id), f.job_id)
  list_job(f, now)
  if f.idem ~= '' then
    redis.call('SET', 'ph:idem:' .. f.tenant .. ':' .. f.idem, f.job_id .. '|' .. f.idem_body, 'PX', f.idem_ttl)
  end
  return deadline_at
end

-- A generation's keys live at least `ttl` ms more.
local function keep_generation(gen_id, ttl)
  for _, key in ipairs({ gen_key(gen_id), gen_jobs_key(gen_id), log_key(gen_id) }) do
    if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
  end
end
