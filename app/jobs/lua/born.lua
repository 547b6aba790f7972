-- include: accepting
-- Accept a job that is completed from the start: its answer was in the cache. It has a short log of its own, so that
-- polls, streams and resumes work as for any other.
--
-- ARGV[1] not_after   ARGV[2] facts (JSON), ARGV[3] n, ARGV[4 .. 3+n] job fields: as in submit.lua, with
--                     cache ('hit'|'stale'), fields (number of arguments that are the generation's fields)
-- ARGV[4+n ..]        the generation's fields, then the events (JSON) of the whole log
--
-- Keys: as submit.lua, without the line
-- Returns {'born', now} | what submit.lua refuses or replays with
local now = now_ms()
local f = cjson.decode(ARGV[2])
local n = tonumber(ARGV[3])
local settled = settled_already(f, tonumber(ARGV[1]), now)
if settled then return settled end
local deadline_at = write_job(f, f.gen_id, f.cache, now, n)
redis.call('HSET', gen_key(f.gen_id), 'v', V, 'created_at', int(now), 'deadline_at', deadline_at, 'status', 'completed',
  'owner', '', 'instance', '', 'fence', 1, 'attempts', 0, 'seq', 0, 'jobs', 1, 'webhooks', 0, 'excluded', '', 'cost', 0,
  'tier', f.tier, 'join', '', 'started_at', int(now), 'ended_at', int(now), unpack(ARGV, 4 + n, 3 + n + f.fields))
append_events(f.gen_id, 0, { unpack(ARGV, 4 + n + f.fields) })
keep_generation(f.gen_id, f.ttl)
if f.webhook == 1 then redis.call('ZADD', 'ph:outbox', int(now), 'job:' .. f.job_id) end
redis.call('HINCRBY', stats_key(f.model), f.cache, 1)
return { 'born', now }
