-- Names of keys, and the clock. All times are integer milliseconds of Redis' own clock.
-- There is one Redis (no Cluster), so scripts build key names from the prefix instead of receiving them.
local V = '1' -- schema version of records written by these scripts

local function job_key(id) return 'ph:job:' .. id end
local function gen_key(id) return 'ph:gen:' .. id end
local function gen_jobs_key(id) return 'ph:gen:' .. id .. ':jobs' end
local function log_key(id) return 'ph:gen:' .. id .. ':log' end
local function live_channel(id) return 'ph:live:' .. id end
local function line_key(model) return 'ph:line:' .. model end
local function line_part(model, part) return 'ph:line:' .. model .. ':' .. part end
local function ring_key(model) return 'ph:ring:' .. model end
local function instances_key(model) return 'ph:instances:' .. model end
local function instance_key(id) return 'ph:instance:' .. id end
local function join_key(digest) return 'ph:join:' .. digest end
local function tenant_jobs_key(tenant) return 'ph:tenant:' .. tenant .. ':jobs' end
local function stats_key(model) return 'ph:stats:' .. model end

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- A full Redis refuses commands that may need memory until the script has written something. What ends work or forgets it
-- is not refused: it begins with a write that needs none.
local function although_full() redis.call('ZREM', 'ph:deadlines', '') end

-- Lua prints large numbers in scientific notation; records want plain integers.
local function int(n) return string.format('%.0f', n) end
