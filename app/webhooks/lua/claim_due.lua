-- include: host_line
-- Claim deliveries that are due. A claim raises the attempt number, which is the fencing token, and moves the due time
-- past the lease: a second caller finds nothing, and a dead worker's claim comes back by itself.
--
-- ARGV[1] at most so many   ARGV[2] lease in ms   ARGV[3] record TTL in ms   ARGV[4] at most so many per host
-- ARGV[5 ..] pairs: host, how many more it may get from this caller now (for hosts with attempts under way)
-- Keys: ph:deliveries:due, ph:deliveries:due:<host>, ph:delivery:<id>
-- Returns {{id, attempt, host, tenant, url, event id, body}, ...}
local limit, per_host = tonumber(ARGV[1]), tonumber(ARGV[4])
local room = {}
for i = 5, #ARGV, 2 do room[ARGV[i]] = tonumber(ARGV[i + 1]) end
local now = now_ms()
local claimed = {}

local function claim(host, id)
  local key = delivery_key(id)
  if redis.call('HGET', key, 'state') ~= 'pending' then
    redis.call('ZREM', host_line_key(host), id) -- the record is gone or settled
    return
  end
  local attempt = redis.call('HINCRBY', key, 'attempt', 1)
  redis.call('HSET', key, 'attempted_at', int(now))
  redis.call('ZADD', host_line_key(host), int(now + ARGV[2]), id)
  redis.call('PEXPIRE', host_line_key(host), ARGV[3])
  local r = redis.call('HMGET', key, 'tenant', 'url', 'event_id', 'body')
  claimed[#claimed + 1] = { id, attempt, host, r[1], r[2], r[3], r[4] }
end

-- Hosts without room are skipped, so read as many more.
local hosts = redis.call('ZRANGEBYSCORE', DUE, '-inf', int(now), 'LIMIT', 0, limit + (#ARGV - 4) / 2)
for _, host in ipairs(hosts) do
  local take = math.min(room[host] or per_host, limit - #claimed)
  if take > 0 then
    local ids = redis.call('ZRANGEBYSCORE', host_line_key(host), '-inf', int(now), 'LIMIT', 0, take)
    for _, id in ipairs(ids) do claim(host, id) end
    index_host(host)
  end
end
return claimed
