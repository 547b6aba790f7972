-- include: keys
-- The line of a model: start-time fair queueing (Goyal, Vin, Cheng 1996) over flows (tenant, tier).
--   ph:line:<model>           zset  member -> start tag; member `<tier digit><arrival>:<generation>` breaks ties
--   ph:line:<model>:flows     zset  flow -> finish tag of its last request (pruned once virtual time has passed it)
--   ph:line:<model>:tenants   hash  tenant -> generations waiting
--   ph:line:<model>:tiers     hash  tier digit -> generations waiting
--   ph:line:<model>:since     zset  generation -> when it was accepted (the oldest is not the first in line)
--   ph:line:<model>:clock     hash  v (virtual time: the largest start tag claimed), arrivals, moved, rehinted,
--                                   cost (of all that wait)
-- A start tag is max(v, the flow's last finish tag); the finish tag adds cost / weight. No flow can starve: v reaches
-- every tag.
local TIERS = { priority = { '0', 8 }, default = { '1', 4 }, flex = { '2', 1 } }

-- One more (1) or one less (-1) of a field; gone at zero.
local function count(key, field, by)
  if redis.call('HINCRBY', key, field, by) <= 0 then redis.call('HDEL', key, field) end
end

local function count_cost(model, gen_id, by)
  local cost = tonumber(redis.call('HGET', gen_key(gen_id), 'cost') or '0')
  redis.call('HINCRBYFLOAT', line_part(model, 'clock'), 'cost', string.format('%.3f', by * cost))
end

local function stand_in_line(model, gen_id, tag, member, tenant, now)
  redis.call('ZADD', line_key(model), tag, member)
  count(line_part(model, 'tenants'), tenant, 1)
  count(line_part(model, 'tiers'), member:sub(1, 1), 1)
  count_cost(model, gen_id, 1)
  redis.call('ZADD', line_part(model, 'since'), redis.call('HGET', gen_key(gen_id), 'created_at') or int(now), gen_id)
  redis.call('HSET', gen_key(gen_id), 'lined_at', int(now))
end

local function line_member(digit, arrival, gen_id) return digit .. string.format('%015.0f', arrival) .. ':' .. gen_id end

-- The start tag that the next generation of a flow gets.
local function next_tag(model, flow)
  local v = tonumber(redis.call('HGET', line_part(model, 'clock'), 'v') or '0')
  return math.max(v, tonumber(redis.call('ZSCORE', line_part(model, 'flows'), flow) or '0'))
end

-- The rank that a new generation would get; it stands there for this moment only.
local function rank_to_come(model, gen_id, tenant, tier)
  local arrival = tonumber(redis.call('HGET', line_part(model, 'clock'), 'arrivals') or '0') + 1
  local member = line_member(TIERS[tier][1], arrival, gen_id)
  redis.call('ZADD', line_key(model), string.format('%.6f', next_tag(model, tenant .. '|' .. tier)), member)
  local rank = redis.call('ZRANK', line_key(model), member)
  redis.call('ZREM', line_key(model), member)
  return rank
end

-- A new generation takes its place. Returns the member that stands for it.
local function join_line(model, gen_id, tenant, tier, cost, now)
  local digit, weight = TIERS[tier][1], TIERS[tier][2]
  local flow = tenant .. '|' .. tier
  local tag = next_tag(model, flow)
  redis.call('ZADD', line_part(model, 'flows'), string.format('%.6f', tag + cost / weight), flow)
  local member = line_member(digit, redis.call('HINCRBY', line_part(model, 'clock'), 'arrivals', 1), gen_id)
  local start = string.format('%.6f', tag)
  redis.call('HSET', gen_key(gen_id), 'tag', start, 'member', member)
  redis.call('SADD', 'ph:models', model)
  stand_in_line(model, gen_id, start, member, tenant, now)
  return member
end

-- Nobody waits: whatever is still counted belongs to work whose record is gone.
local function forget_counts(model)
  redis.call('DEL', line_part(model, 'tenants'), line_part(model, 'tiers'), line_part(model, 'since'))
  redis.call('HDEL', line_part(model, 'clock'), 'cost')
end

-- What stood here has run out of retention (nobody worked or reaped for so long), and whose it was is gone with it.
local function drop_from_line(model, member)
  redis.call('ZREM', line_key(model), member)
  redis.call('ZREM', line_part(model, 'since'), member:sub(18))
  if redis.call('EXISTS', line_key(model)) == 0 then forget_counts(model) end
end

-- Returns 1 when the member stood in line.
local function leave_line(model, member, tenant)
  local gone = redis.call('ZREM', line_key(model), member)
  if gone == 0 then return 0 end
  local gen_id = member:sub(18)
  count(line_part(model, 'tenants'), tenant, -1)
  count(line_part(model, 'tiers'), member:sub(1, 1), -1)
  redis.call('ZREM', line_part(model, 'since'), gen_id)
  if redis.call('EXISTS', line_key(model)) == 1 then
    count_cost(model, gen_id, -1)
  else
    forget_counts(model)
  end
  return gone
end

-- Virtual time moves to the tag of what is claimed; flows that it has passed are forgotten.
local function advance_line(model, tag, now)
  local clock = line_part(model, 'clock')
  if tonumber(tag) > tonumber(redis.call('HGET', clock, 'v') or '0') then
    redis.call('HSET', clock, 'v', tag)
    redis.call('ZREMRANGEBYSCORE', line_part(model, 'flows'), '-inf', '(' .. tag)
  end
  redis.call('HSET', clock, 'moved', int(now))
end
