-- include: host_line
-- An attempt's outcome, if the caller still holds the claim.
--
-- ARGV[1] id   ARGV[2] attempt (the fencing token)   ARGV[3] delivered|retry|dead   ARGV[4] HTTP status or ''
-- ARGV[5] error code or ''   ARGV[6] delay in ms (retry)   ARGV[7] record TTL in ms from now
-- ARGV[8] most dead letters kept per tenant
-- Keys: ph:delivery:<id>, ph:deliveries:due:<host>, ph:deliveries:due, ph:deliveries:dead:<tenant> zset (id -> time)
-- Returns 1, or 0 when the claim was lost
local id, outcome, ttl = ARGV[1], ARGV[3], ARGV[7]
local key = delivery_key(id)
local r = redis.call('HMGET', key, 'state', 'attempt', 'host', 'tenant')
if r[1] ~= 'pending' or r[2] ~= ARGV[2] then return 0 end
local now = now_ms()
redis.call('HSET', key, 'last_status', ARGV[4], 'last_error', ARGV[5], 'settled_at', int(now))
redis.call('PEXPIRE', key, ttl)
if outcome == 'retry' then
  stand_in_host_line(r[3], id, now + ARGV[6], ttl)
  return 1
end
redis.call('HSET', key, 'state', outcome)
leave_host_line(r[3], id)
if outcome == 'dead' then
  redis.call('ZADD', dead_key(r[4]), int(now), id)
  redis.call('ZREMRANGEBYRANK', dead_key(r[4]), 0, -(ARGV[8] + 1))
  redis.call('PEXPIRE', dead_key(r[4]), ttl)
end
return 1
