-- include: waiting
-- What a poll needs, in one round trip.
--
-- ARGV[1] job_id
-- Keys: ph:job:<id>, ph:gen:<id>, ph:line:<model> (rank), ph:rate:<model>, ph:ring:<model>, ph:instance:<id>
-- Returns {} when unknown, else {now, rank or -1, job fields (flat), generation fields (flat), expected wait in ms or -1}
local job = redis.call('HGETALL', job_key(ARGV[1]))
if #job == 0 then return {} end
local gen_id
for i = 1, #job, 2 do if job[i] == 'gen' then gen_id = job[i + 1] end end
local FIELDS = { 'status', 'model', 'member', 'attempts', 'started_at', 'ended_at', 'seq', 'result', 'error_code',
  'error_message', 'instance', 'continued', 'degraded' }
local values = redis.call('HMGET', gen_key(gen_id), unpack(FIELDS))
local gen, rank = {}, false
for i, name in ipairs(FIELDS) do
  if values[i] then
    gen[#gen + 1] = name
    gen[#gen + 1] = values[i]
  end
end
if values[1] == 'queued' then rank = redis.call('ZRANK', line_key(values[2]), values[3]) end
local now = now_ms()
return { now, rank or -1, job, gen, rank and wait_ms(outlook(values[2], now), rank) or -1 }
