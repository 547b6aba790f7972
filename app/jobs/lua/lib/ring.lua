-- include: breaker
-- Whose turn it is. Instances that are healthy, undrained and not behind an open breaker stand in their model's ring;
-- each model has its own, so traffic of one never skews another's.
local MOST_LOOKED_AT = 64 -- bounds a submit, however many instances there are

-- Free places of an instance now, its slot and its load (share of its places in use); nil when it is gone.
local function places_of(id, now)
  local load = redis.call('HMGET', instance_key(id), 'in_flight', 'capacity', 'slot')
  if not load[3] then return nil end
  local used, capacity = math.max(0, tonumber(load[1])), tonumber(load[2])
  local free, probes = capacity - used, probe_places(id, now)
  if probes then free = math.min(free, probes) end
  return math.max(0, free), load[3], used / capacity, probes ~= nil
end

local function usable(id, now)
  local free, slot, load, probing = places_of(id, now)
  if not free then return nil end
  if free == 0 or (probing and not may_hint_probe(id, now)) then return false end
  return slot, load
end

-- round_robin: the first of the ring with a free place; it goes to the end. O(1) while places are free.
local function in_turn(ring, length, except, now)
  for _ = 1, math.min(length, MOST_LOOKED_AT) do
    local id = redis.call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
    local slot = id ~= except and usable(id, now)
    if slot then return slot end
    if slot == nil then redis.call('LREM', ring, 0, id) end
  end
  return ''
end

-- least_loaded: the least share of its places in use, the first of the ring among equals; it goes to the end.
-- O(instances), up to the bound.
local function least_loaded(ring, except, now)
  local best, best_slot, least
  for _, id in ipairs(redis.call('LRANGE', ring, 0, MOST_LOOKED_AT - 1)) do
    local free, slot, load, probing = places_of(id, now)
    if not free then
      redis.call('LREM', ring, 0, id)
    elseif id ~= except and free > 0 and (not least or load < least) and (not probing or may_hint_probe(id, now)) then
      best, best_slot, least = id, slot, load
    end
  end
  if not best then return '' end
  redis.call('LREM', ring, 1, best)
  redis.call('RPUSH', ring, best)
  return best_slot
end

-- The slot of the instance that should get the next hint, or '' when none has a free place. `policy`: as the submit says it,
-- or '' for what the model's workers say in their heartbeats. `except`: one to pass over.
local function next_slot(model, policy, except, now)
  local ring = ring_key(model)
  local length = redis.call('LLEN', ring)
  if length == 0 then return '' end
  if policy == '' then policy = redis.call('HGET', instance_key(redis.call('LINDEX', ring, 0)), 'policy') end
  if policy == 'least_loaded' then return least_loaded(ring, except, now) end
  return in_turn(ring, length, except, now)
end

-- The slot of the next instance other than `except` although it is full: on its own queue a hint waits for a place there.
local function next_full_slot(model, except)
  local ring = ring_key(model)
  for _ = 1, math.min(redis.call('LLEN', ring), MOST_LOOKED_AT) do
    local id = redis.call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
    local slot = id ~= except and redis.call('HGET', instance_key(id), 'slot')
    if slot then return slot end
  end
  return ''
end

-- Free places of all of a model's instances, and whether any of them is healthy.
local function free_places(model, now)
  local free, healthy = 0, false
  for _, id in ipairs(redis.call('LRANGE', ring_key(model), 0, -1)) do
    local places = places_of(id, now)
    healthy = healthy or places ~= nil
    free = free + (places or 0)
  end
  return free, healthy
end

-- Whether any instance of a model would take work, now or once it has a free place. Usually the first one looked at.
local function anybody_healthy(model, now)
  for _, id in ipairs(redis.call('LRANGE', ring_key(model), 0, -1)) do
    if redis.call('EXISTS', instance_key(id)) == 1 and breaker_state(id, now) ~= 'open' then return true end
  end
  return false
end
