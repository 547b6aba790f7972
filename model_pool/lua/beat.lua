-- An instance's heartbeat: what it is and how loaded it is, and its place in the model's ring.
--
-- ARGV[1] instance   ARGV[2] model   ARGV[3] life in ms   ARGV[4] in the ring 0|1   ARGV[5 ..] field, value, ...
-- Keys: ph:instance:<id> hash, gone when the beats stop; ph:instances:<model> zset id -> ms of the last beat;
--       ph:ring:<model> list of the ids whose turn comes round; ph:models set
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local instance, ring = 'ph:instance:' .. ARGV[1], 'ph:ring:' .. ARGV[2]
redis.call('HSET', instance, 'id', ARGV[1], 'model', ARGV[2], unpack(ARGV, 5))
redis.call('PEXPIRE', instance, ARGV[3])
redis.call('ZADD', 'ph:instances:' .. ARGV[2], string.format('%.0f', now), ARGV[1])
redis.call('SADD', 'ph:models', ARGV[2])
if ARGV[4] == '0' then
  redis.call('LREM', ring, 0, ARGV[1])
elseif not redis.call('LPOS', ring, ARGV[1]) then
  redis.call('RPUSH', ring, ARGV[1])
end
return now
