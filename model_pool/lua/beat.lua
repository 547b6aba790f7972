-- An instance's heartbeat: what it is and how loaded it is, and its place in the model's ring.
--
-- ARGV[1] instance   ARGV[2] model   ARGV[3] life in ms   ARGV[4] healthy and undrained 0|1   ARGV[5] pid of its process
-- ARGV[6 ..] field, value, ...
-- Keys: ph:instance:<id> hash, gone when the beats stop; ph:instances:<model> zset id -> ms of the last beat;
--       ph:ring:<model> list of the ids whose turn comes round; ph:models set; ph:breaker:<id> hash;
--       ph:orders:<id> hash {drained, restart}: what operators want of it
-- Returns {state of its breaker ('closed' | 'open' | 'half_open'), drained '1' or '0', number of restarts ordered}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local instance, ring, breaker = 'ph:instance:' .. ARGV[1], 'ph:ring:' .. ARGV[2], 'ph:breaker:' .. ARGV[1]

local function breaker_state()
  local tripped = redis.call('HMGET', breaker, 'until', 'pid')
  if not tripped[1] then return 'closed' end
  if now >= tonumber(tripped[1]) then return 'half_open' end
  if ARGV[4] == '0' or tripped[2] == ARGV[5] then return 'open' end
  -- The process that failed has been replaced by one that answers: it need not wait out the cool-down of the old one.
  redis.call('HSET', breaker, 'until', string.format('%.0f', now), 'pid', ARGV[5])
  return 'half_open'
end

redis.call('HSET', instance, 'id', ARGV[1], 'model', ARGV[2], 'pid', ARGV[5], unpack(ARGV, 6))
redis.call('PEXPIRE', instance, ARGV[3])
redis.call('ZADD', 'ph:instances:' .. ARGV[2], string.format('%.0f', now), ARGV[1])
redis.call('SADD', 'ph:models', ARGV[2])
local state = breaker_state()
local orders = redis.call('HMGET', 'ph:orders:' .. ARGV[1], 'drained', 'restart')
if ARGV[4] == '0' or state == 'open' or orders[1] == '1' then
  redis.call('LREM', ring, 0, ARGV[1])
elseif not redis.call('LPOS', ring, ARGV[1]) then
  redis.call('RPUSH', ring, ARGV[1])
end
return { state, orders[1] or '0', orders[2] or '0' }
