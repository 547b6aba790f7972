-- include: keys
-- The line of a model: start-time fair queueing (Goyal, Vin, Cheng 1996) over flows (tenant, tier).
--   ph:line:<model>           zset  member -> start tag; member `<tier digit><arrival>:<generation>` breaks ties
--   ph:line:<model>:flows     zset  flow -> finish tag of its last request (pruned once virtual time has passed it)
--   ph:line:<model>:tenants   hash  tenant -> generations waiting
--   ph:line:<model>:clock     hash  v (virtual time: the largest start tag claimed), arrivals, moved, rehinted
-- A start tag is max(v, the flow's last finish tag); the finish tag adds cost / weight. No flow can starve: v reaches
-- every tag.
local TIERS = { priority = { '0', 8 }, default = { '1', 4 }, flex = { '2', 1 } }

local function stand_in_line(model, gen_id, tag, member, tenant, now)
  redis.call('ZADD', line_key(model), tag, member)
  redis.call('HINCRBY', line_part(model, 'tenants'), tenant, 1)
  redis.call('HSET', gen_key(gen_id), 'lined_at', int(now))
end

-- A new generation takes its place. Returns the member that stands for it.
local function join_line(model, gen_id, tenant, tier, cost, now)
  local clock, flows = line_part(model, 'clock'), line_part(model, 'flows')
  local digit, weight = TIERS[tier][1], TIERS[tier][2]
  local flow = tenant .. '|' .. tier
  local v = tonumber(redis.call('HGET', clock, 'v') or '0')
  local last = tonumber(redis.call('ZSCORE', flows, flow) or '0')
  local tag = math.max(v, last)
  redis.call('ZADD', flows, string.format('%.6f', tag + cost / weight), flow)
  local arrival = redis.call('HINCRBY', clock, 'arrivals', 1)
  local member = digit .. string.format('%015.0f', arrival) .. ':' .. gen_id
  local start = string.format('%.6f', tag)
  redis.call('HSET', gen_key(gen_id), 'tag', start, 'member', member)
  redis.call('SADD', 'ph:models', model)
  stand_in_line(model, gen_id, start, member, tenant, now)
  return member
end

-- Returns 1 when the member stood in line.
local function leave_line(model, member, tenant)
  local gone = redis.call('ZREM', line_key(model), member)
  if gone == 1 and redis.call('HINCRBY', line_part(model, 'tenants'), tenant, -1) <= 0 then
    redis.call('HDEL', line_part(model, 'tenants'), tenant)
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
