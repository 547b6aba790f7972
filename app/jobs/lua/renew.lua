-- include: keys
-- Renew all leases of one worker. An expired lease that nobody has taken is simply renewed.
--
-- ARGV[1] lease ms   ARGV[2 ..] gen_id, fence, ...
-- Keys: ph:gen:<id>, ph:running
-- Returns the generations that are lost or wanted by nobody any more: stop them
local now = now_ms()
although_full()
local lost = {}
for i = 2, #ARGV, 2 do
  local held = redis.call('HMGET', gen_key(ARGV[i]), 'fence', 'owner')
  if held[1] == ARGV[i + 1] and held[2] ~= '' then
    redis.call('ZADD', 'ph:running', int(now + tonumber(ARGV[1])), ARGV[i])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
