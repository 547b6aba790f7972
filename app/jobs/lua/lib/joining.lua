-- include: accepting
-- include: waiting
-- Single flight: identical cacheable requests share one generation while it is in flight, and for a few seconds after a
-- good end, until the cache has the answer.
--   ph:join:<digest>  string  generation; dropped at a bad end, kept a few seconds at a good one

-- The generation that a new job may join, or nil.
local function joinable(f)
  if f.join == '' then return nil end
  local gen_id = redis.call('GET', join_key(f.join))
  local g = gen_id and read_generation(gen_id)
  if not g or g.status == 'failed' or g.status == 'cancelled' or g.status == 'incomplete' then return nil end
  if tonumber(g.jobs) >= f.join_cap then return nil end
  return gen_id, g
end

-- Waiting work is served at the best tier of its jobs: it moves to an earlier place, never to a later one.
local function raise_tier(gen_id, g, f, now)
  local old = TIERS[redis.call('HGET', gen_key(gen_id), 'tier')][1]
  if TIERS[f.tier][1] >= old then return end
  redis.call('HSET', gen_key(gen_id), 'tier', f.tier)
  if g.owner ~= '' or g.member == '' then return end
  local v = tonumber(redis.call('HGET', line_part(g.model, 'clock'), 'v') or '0')
  local last = tonumber(redis.call('ZSCORE', line_part(g.model, 'flows'), g.tenant .. '|' .. f.tier) or '0')
  local tag = string.format('%.6f', math.min(tonumber(g.tag), math.max(v, last)))
  local member = TIERS[f.tier][1] .. g.member:sub(2)
  redis.call('ZREM', line_key(g.model), g.member)
  redis.call('ZADD', line_key(g.model), tag, member)
  count(line_part(g.model, 'tiers'), old, -1)
  count(line_part(g.model, 'tiers'), member:sub(1, 1), 1)
  redis.call('HSET', gen_key(gen_id), 'tag', tag, 'member', member)
  g.member = member
end

-- The new job shares the generation. Returns {'joined', now, generation, status, position or -1, expected wait}.
local function join_generation(gen_id, g, f, now, n)
  local ended = is_terminal(g.status)
  local deadline_at = write_job(f, gen_id, 'joined', now, n)
  keep_generation(gen_id, f.ttl)
  redis.call('HINCRBY', gen_key(gen_id), 'jobs', 1)
  if (f.busy_after or 0) == 0 then redis.call('HDEL', gen_key(gen_id), 'busy') end -- only chats are told to come back
  redis.call('HINCRBY', stats_key(g.model), 'joined', 1)
  if ended then
    if f.webhook == 1 then redis.call('ZADD', 'ph:outbox', int(now), 'job:' .. f.job_id) end
    return { 'joined', now, gen_id, g.status, -1, -1 }
  end
  redis.call('ZADD', 'ph:deadlines', deadline_at, f.job_id)
  redis.call('HINCRBY', gen_key(gen_id), 'webhooks', f.webhook)
  if tonumber(deadline_at) > tonumber(g.deadline_at) then redis.call('HSET', gen_key(gen_id), 'deadline_at', deadline_at) end
  raise_tier(gen_id, g, f, now)
  local rank = redis.call('ZRANK', line_key(g.model), g.member) or -1
  return { 'joined', now, gen_id, g.status, rank, rank >= 0 and wait_ms(outlook(g.model, now), rank) or -1 }
end
