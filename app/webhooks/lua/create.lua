-- include: host_line
-- Create the deliveries that do not exist yet, due at once. What exists is left as it is, whatever state it is in:
-- a repeated fan-out makes nothing twice.
--
-- ARGV[1] record TTL in ms, then 8 per delivery: id, host, tenant, url, event id, event type, subject id, body
-- Keys: ph:delivery:<id> hash, ph:deliveries:due:<host>, ph:deliveries:due
-- Returns how many were created
local now, ttl = now_ms(), tonumber(ARGV[1])
local created = 0
for i = 2, #ARGV, 8 do
  local id, host = ARGV[i], ARGV[i + 1]
  local key = delivery_key(id)
  if redis.call('EXISTS', key) == 0 then
    redis.call('HSET', key, 'v', V, 'state', 'pending', 'attempt', 0, 'created_at', int(now), 'host', host,
      'tenant', ARGV[i + 2], 'url', ARGV[i + 3], 'event_id', ARGV[i + 4], 'event_type', ARGV[i + 5],
      'subject', ARGV[i + 6], 'body', ARGV[i + 7])
    redis.call('PEXPIRE', key, int(ttl))
    stand_in_host_line(host, id, now, ttl)
    created = created + 1
  end
end
return created
