-- Names of keys, and the clock. All times are integer milliseconds of Redis' own clock.
-- There is one Redis (no Cluster), so scripts build key names from the prefix instead of receiving them.
local V = '1' -- schema version of delivery records
local OUTBOX = 'ph:outbox'
local DUE = 'ph:deliveries:due'

local function delivery_key(id) return 'ph:delivery:' .. id end
local function host_line_key(host) return 'ph:deliveries:due:' .. host end
local function dead_key(tenant) return 'ph:deliveries:dead:' .. tenant end
local function secret_key(tenant) return 'ph:tenant:' .. tenant .. ':webhook_secret' end

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Lua prints large numbers in scientific notation; records want plain integers.
local function int(n) return string.format('%.0f', n) end
