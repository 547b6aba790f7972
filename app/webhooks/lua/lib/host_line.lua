-- include: base
-- Deliveries wait in one line per host, so that a slow receiver's backlog hides nobody else's.
--   ph:deliveries:due:<host>  zset  delivery id -> due time (TTL: the records' own)
--   ph:deliveries:due         zset  host -> due time of the first in its line (no TTL: empty when nothing waits)

-- Let the index of hosts say what the host's line says.
local function index_host(host)
  local first = redis.call('ZRANGE', host_line_key(host), 0, 0, 'WITHSCORES')
  if first[2] then redis.call('ZADD', DUE, first[2], host) else redis.call('ZREM', DUE, host) end
end

local function stand_in_host_line(host, id, due, ttl)
  redis.call('ZADD', host_line_key(host), int(due), id)
  redis.call('PEXPIRE', host_line_key(host), int(ttl))
  index_host(host)
end

local function leave_host_line(host, id)
  redis.call('ZREM', host_line_key(host), id)
  index_host(host)
end
