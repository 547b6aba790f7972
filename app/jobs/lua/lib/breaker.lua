-- include: keys
-- The circuit breaker of an instance, one for the whole fleet. `model_pool/breaker.py` tells its rules in Python, and
-- is tested against this text.
--   ph:breaker:<instance>  hash  closed: g<bucket>, f<bucket> runs that went well and faults, by tenth of the window;
--                                tripped: until (end of the cool-down, ms), cool (its length), probes (places), pid (of
--                                the process that failed), hinted, p:<generation> -> fence of each probe.
--                                Gone: closed.
--   ph:breakers            zset  instances that have tripped -> when
-- A probe's place is held by its generation's fencing token, so it is free again the moment its owner has ended, lost
-- or given back that generation, whichever way.
local BUCKETS = 10
local TRIPPED_MS = 3600000 -- a tripped breaker that nobody tries is forgotten that long after its cool-down

local function breaker_key(instance) return 'ph:breaker:' .. instance end

-- 'window ms,minimum,error rate,cool-down ms,longest cool-down ms,probes', as workers state it at each claim.
local function breaker_policy(text)
  local p = {}
  for part in string.gmatch(text or '', '[^,]+') do p[#p + 1] = tonumber(part) end
  if #p < 6 then return nil end
  return { window = p[1], minimum = p[2], rate = p[3], cool = p[4], max_cool = p[5], probes = p[6] }
end

-- 'closed' | 'open' | 'half_open'
local function breaker_state(instance, now)
  local until_ms = redis.call('HGET', breaker_key(instance), 'until')
  if not until_ms then return 'closed' end
  return now < tonumber(until_ms) and 'open' or 'half_open'
end

-- Probe places that are free; nil where nothing limits them.
local function probe_places(instance, now)
  local state = breaker_state(instance, now)
  if state == 'closed' then return nil end
  if state == 'open' then return 0 end
  local key = breaker_key(instance)
  local fields, held, places = redis.call('HGETALL', key), 0, 1
  for i = 1, #fields, 2 do
    local gen_id = fields[i]:match('^p:(.+)$')
    if gen_id then
      local run = redis.call('HMGET', gen_key(gen_id), 'fence', 'owner')
      if run[1] == fields[i + 1] and run[2] ~= '' then held = held + 1 else redis.call('HDEL', key, fields[i]) end
    elseif fields[i] == 'probes' then
      places = tonumber(fields[i + 1])
    end
  end
  return math.max(0, places - held)
end

-- One hint a second is enough to bring a half-open instance its probe.
local function may_hint_probe(instance, now)
  local key = breaker_key(instance)
  if now - tonumber(redis.call('HGET', key, 'hinted') or '0') < 1000 then return false end
  redis.call('HSET', key, 'hinted', int(now))
  return true
end

local function take_probe(instance, gen_id, fence)
  redis.call('HSET', breaker_key(instance), 'p:' .. gen_id, fence)
  redis.call('PEXPIRE', breaker_key(instance), TRIPPED_MS)
end

local function close_breaker(instance)
  redis.call('DEL', breaker_key(instance))
  redis.call('ZREM', 'ph:breakers', instance)
end

local function trip_breaker(instance, model, cool, p, now)
  local key = breaker_key(instance)
  redis.call('DEL', key)
  redis.call('HSET', key, 'until', int(now + cool), 'cool', int(cool), 'probes', int(p.probes),
    'pid', redis.call('HGET', instance_key(instance), 'pid') or '')
  redis.call('PEXPIRE', key, int(cool + TRIPPED_MS))
  redis.call('ZADD', 'ph:breakers', int(now), instance)
  redis.call('PEXPIRE', 'ph:breakers', 7 * 86400000)
  redis.call('LREM', ring_key(model), 0, instance)
end

-- Runs and faults of the window, after counting one more; buckets that have left the window are dropped.
local function count_outcome(key, p, good, now)
  local width = math.max(1, math.floor(p.window / BUCKETS))
  local bucket = math.floor(now / width)
  redis.call('HINCRBY', key, (good and 'g' or 'f') .. int(bucket), 1)
  redis.call('PEXPIRE', key, int(2 * p.window))
  local runs, faults = 0, 0
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local kind, at = fields[i]:match('^([gf])(%d+)$')
    if kind and tonumber(at) <= bucket - BUCKETS then
      redis.call('HDEL', key, fields[i])
    elseif kind then
      runs = runs + tonumber(fields[i + 1])
      if kind == 'f' then faults = faults + tonumber(fields[i + 1]) end
    end
  end
  return runs, faults
end

-- Whether a generation has failed on an instance before; notes that it has now. A request that kills an engine each time it
-- is tried there says no more than it said the first time.
local function blames_again(gen_id, instance)
  return redis.call('HSETNX', gen_key(gen_id), 'failed_on:' .. instance, '1') == 0
end

-- A run of generation `g` (as read before its fence changes) went well, or its instance failed it. What is neither (a
-- client's mistake, a cancel, a deadline, a drain) is not told here.
local function tell_breaker(gen_id, g, good, now)
  local p = breaker_policy(g.breaker)
  if not p or g.instance == '' then return end
  local key = breaker_key(g.instance)
  local again = not good and blames_again(gen_id, g.instance)
  local tripped = redis.call('HMGET', key, 'until', 'cool', 'p:' .. gen_id)
  if tripped[1] then
    if tripped[3] ~= g.fence then return end -- it ran before the breaker tripped and says nothing new
    if good then return close_breaker(g.instance) end
    return trip_breaker(g.instance, g.model, math.min(2 * tonumber(tripped[2]), p.max_cool), p, now)
  end
  if again then return end
  local runs, faults = count_outcome(key, p, good, now)
  if not good and runs >= p.minimum and faults / runs >= p.rate then
    trip_breaker(g.instance, g.model, math.min(p.cool, p.max_cool), p, now)
  end
end
