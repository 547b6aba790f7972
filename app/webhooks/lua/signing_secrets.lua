-- include: base
-- The secrets of a tenant that sign now.
--
-- ARGV[1] tenant
-- Keys: ph:tenant:<tenant>:webhook_secret
-- Returns {current or '', replaced ones that still sign along, ...}, each encrypted
local key, now = secret_key(ARGV[1]), now_ms()
local signing = { redis.call('HGET', key, 'current') or '' }
for _, entry in ipairs(cjson.decode(redis.call('HGET', key, 'previous') or '[]')) do
  if entry[2] > now then signing[#signing + 1] = entry[1] end
end
return signing
