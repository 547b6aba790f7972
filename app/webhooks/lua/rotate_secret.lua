-- include: base
-- Replace a tenant's current secret; the replaced one stays in `previous` for a while, and so do earlier ones whose
-- time has not come yet (at most 4, the latest).
--
-- ARGV[1] tenant   ARGV[2] the new secret, encrypted   ARGV[3] how long the replaced one signs along, in ms
-- Keys: ph:tenant:<tenant>:webhook_secret hash (no TTL): current, previous (JSON [[secret, until ms], ...])
local key, now = secret_key(ARGV[1]), now_ms()
local kept = { { redis.call('HGET', key, 'current'), now + ARGV[3] } }
for _, entry in ipairs(cjson.decode(redis.call('HGET', key, 'previous') or '[]')) do
  if entry[2] > now and #kept < 4 then kept[#kept + 1] = entry end
end
redis.call('HSET', key, 'current', ARGV[2], 'previous', cjson.encode(kept))
return 1
