-- include: line
-- include: ring
-- How long work will wait, from what was measured: each run that ended says how much cost one place did in how long.
--   ph:rate:<model>  hash  work (cost), busy (seconds of places), runs: sums over runs that ended, decaying; at
-- Places run side by side, so the fleet does (work / busy) * places a second. A place's own pace falls when its engine is
-- full; the sums then follow within RATE_SECONDS.
local RATE_SECONDS = 30
local LEAST_RUNS = 4 -- the sums never decay below this many, so that one odd run is not the whole truth after a pause
local RATE_LIFE_MS = 3600000
local SAMPLE = 12 -- instances that a submit or a poll looks at: it costs the same however many there are

local function rate_key(model) return 'ph:rate:' .. model end

-- A whole run of generation `g` (as read before its end) has ended well.
local function measure_run(g, now)
  local began = tonumber(g.claimed_at)
  if not began or g.attempts ~= '1' then return end
  local key = rate_key(g.model)
  local r = redis.call('HMGET', key, 'work', 'busy', 'runs', 'at')
  local runs, keep = tonumber(r[3] or '0'), 0
  if runs > 0 then
    keep = math.max(math.exp((tonumber(r[4]) - now) / 1000 / RATE_SECONDS), math.min(1, LEAST_RUNS / runs))
  end
  keep = math.min(1, keep)
  local function sum(old, more) return string.format('%.9g', (tonumber(old or '0')) * keep + more) end
  redis.call('HSET', key, 'work', sum(r[1], tonumber(g.cost)), 'busy', sum(r[2], math.max(1, now - began) / 1000),
    'runs', sum(r[3], 1), 'at', int(now))
  redis.call('PEXPIRE', key, RATE_LIFE_MS)
end

-- Instances of a ring, at most so many of them and then evenly spread over it, whose order turns with every hint.
local function looked_at(ring, length, most)
  if length <= most then return redis.call('LRANGE', ring, 0, -1) end
  local found = {}
  for i = 0, most - 1 do found[#found + 1] = redis.call('LINDEX', ring, math.floor(i * length / most)) end
  return found
end

-- Places of all instances that would take work, and the free ones among them. Of more than `most` instances so many are looked
-- at, and stand for the others.
local function places_in_all(model, most)
  local ring = ring_key(model)
  local length = redis.call('LLEN', ring)
  local total, free, looked = 0, 0, looked_at(ring, length, most)
  for _, id in ipairs(looked) do
    local load = redis.call('HMGET', instance_key(id), 'capacity', 'in_flight')
    if load[1] and redis.call('HEXISTS', breaker_key(id), 'until') == 0 then
      total = total + tonumber(load[1])
      free = free + math.max(0, tonumber(load[1]) - math.max(0, tonumber(load[2] or '0')))
    end
  end
  local stand_for = length / math.max(1, #looked)
  return total * stand_for, free * stand_for
end

-- What expected waits are made of; nil without a healthy instance or a measurement.
local function outlook(model, now)
  local r = redis.call('HMGET', rate_key(model), 'work', 'busy', 'runs')
  local work, busy, runs = tonumber(r[1] or '0'), tonumber(r[2] or '0'), tonumber(r[3] or '0')
  if work <= 0 or busy <= 0 then return nil end
  local total, free = places_in_all(model, SAMPLE)
  if total == 0 then return nil end
  local waiting = redis.call('ZCARD', line_key(model))
  local cost = tonumber(redis.call('HGET', line_part(model, 'clock'), 'cost') or '0')
  return { pace = work / busy, rate = total * work / busy, free = free, run = work / runs,
    mean = waiting > 0 and math.max(0, cost) / waiting or work / runs }
end

-- Milliseconds until the work of a rank starts; -1 when nobody can say. Those ahead of it have to start, and one more place
-- has to fall free unless some are.
local function wait_ms(o, rank)
  if not o then return -1 end
  local ahead = rank * o.mean + (1 - o.free) * o.run
  return math.floor(math.max(0, ahead / o.rate * 1000))
end

-- Milliseconds until `leaving` generations of the line have started, or -1.
local function room_ms(o, leaving)
  if not o then return -1 end
  return math.ceil(math.max(1, leaving) * o.mean / o.rate * 1000)
end

-- Milliseconds by which work of this rank and cost would miss its deadline, or 0. Both estimates get a margin: what ends
-- just too late has used a place for nothing.
local MARGIN = 1.2
local function late_ms(o, rank, cost, deadline_in)
  local wait = wait_ms(o, rank)
  if wait <= 0 then return 0 end
  local run = cost / o.pace * 1000
  if MARGIN * run > deadline_in then return math.max(0, wait - deadline_in) end
  return math.max(0, math.ceil(wait + run - deadline_in / MARGIN))
end
