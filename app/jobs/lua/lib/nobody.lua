-- include: ending
-- What happens to work that waits while no instance of its model is healthy: a fallback model takes it, a chat gets the
-- busy reply. Only work that has emitted nothing: half an answer of one model is not continued by another.
--   ph:busy  zset  generation with a busy reply -> when to look whether it is due
-- Fields of a generation: fallbacks (JSON: [{model, budget}, ...], in order) and busy (text) as submitted; asked, degraded
-- and budget (of tokens) once it is a fallback's.
local LOOK_AGAIN_MS = 2000

local function waits_untouched(g) return g.owner == '' and tonumber(g.seq) <= FIRST_OUTPUT_SEQUENCE end

-- `room`: model -> places that are free and that nobody waits for, kept while one step hands out several.
local function has_room(model, room, now)
  if not room[model] then room[model] = free_places(model, now) - redis.call('ZCARD', line_key(model)) end
  return room[model] > 0
end

-- The first that has room: the model that was asked for, if it is back, else the fallbacks in their order.
local function chosen(gen_id, g, room, now)
  local f = redis.call('HMGET', gen_key(gen_id), 'fallbacks', 'asked')
  if f[2] and f[2] ~= '' and f[2] ~= g.model and has_room(f[2], room, now) then return { model = f[2], budget = '' } end
  if not f[1] or f[1] == '' then return nil end
  for _, entry in ipairs(cjson.decode(f[1])) do
    if entry.model ~= g.model and has_room(entry.model, room, now) then return entry, f[2] end
  end
end

-- Move a generation that waits to a model that has room; returns that model, or nil. It is nobody else's from then on: no
-- identical request joins it, no cache keeps what a stand-in says.
local function stand_in(gen_id, g, room, now)
  if not waits_untouched(g) then return nil end
  local entry, asked = chosen(gen_id, g, room, now)
  if not entry then return nil end
  room[entry.model] = room[entry.model] - 1
  close_joining(gen_id, g, false)
  leave_line(g.model, g.member, g.tenant)
  local home = entry.budget == ''
  redis.call('HSET', gen_key(gen_id), 'model', entry.model, 'degraded', home and '' or '1', 'budget', entry.budget,
    'asked', home and '' or (asked and asked ~= '' and asked or g.model), 'cache', '', 'join', '')
  join_line(entry.model, gen_id, g.tenant, redis.call('HGET', gen_key(gen_id), 'tier'), tonumber(g.cost), now)
  return entry.model
end

-- Hand out what waits for a model without a healthy instance, as far as others have room and no more than `limit`. Adds to
-- `moved`, model -> number. Returns how many.
local MOST_LOOKED_THROUGH = 200
local function relieve(model, limit, moved, now)
  if limit < 1 or redis.call('EXISTS', line_key(model)) == 0 or anybody_healthy(model, now) then return 0 end
  local room, number = {}, 0
  for _, member in ipairs(redis.call('ZRANGE', line_key(model), 0, MOST_LOOKED_THROUGH - 1)) do
    local g = read_generation(member:sub(18))
    local other = g and stand_in(member:sub(18), g, room, now)
    if other then
      moved[other] = (moved[other] or 0) + 1
      number = number + 1
      if number == limit then break end
    end
  end
  return number
end

local function say_busy(gen_id, g, text, now)
  local quoted = cjson.encode(text)
  local events = { '{"k":"item"}', '{"k":"part"}', '{"k":"delta","x":' .. quoted .. '}', '{"k":"text_done"}',
    '{"k":"part_done"}', '{"k":"item_done"}', '{"k":"end","status":"completed","finish":"stop"}' }
  if g.status == 'queued' then table.insert(events, 1, '{"k":"in_progress"}') end
  local result = '{"text":' .. quoted .. ',"finish_reason":"stop","usage":{"input_tokens":0,"output_tokens":0,' ..
    '"cached_tokens":0,"reasoning_tokens":0},"tool_calls":[]}'
  end_generation(gen_id, g, 'completed', events, { 'result', result, 'degraded', '1', 'cache', '' }, now)
  redis.call('HINCRBY', stats_key(g.model), 'busy_replies', 1)
end

-- Answer chats that have waited long enough for nobody. Returns how many.
local function say_busy_to_all(limit, now)
  if limit < 1 then return 0 end
  local said = 0
  for _, gen_id in ipairs(redis.call('ZRANGEBYSCORE', 'ph:busy', '-inf', int(now), 'LIMIT', 0, limit)) do
    local g = read_generation(gen_id)
    local text = g and redis.call('HGET', gen_key(gen_id), 'busy')
    if not text or text == '' or is_terminal(g.status) or tonumber(g.seq) > FIRST_OUTPUT_SEQUENCE then
      redis.call('ZREM', 'ph:busy', gen_id)
    elseif g.owner == '' and not anybody_healthy(g.model, now) then
      redis.call('ZREM', 'ph:busy', gen_id)
      say_busy(gen_id, g, text, now)
      said = said + 1
    else
      redis.call('ZADD', 'ph:busy', int(now + LOOK_AGAIN_MS), gen_id)
    end
  end
  return said
end

-- Why a job is past its deadline: code and message.
local function lateness(job_id, now)
  local gen_id = redis.call('HGET', job_key(job_id), 'gen')
  local g = gen_id and read_generation(gen_id)
  if g and waits_untouched(g) and not anybody_healthy(g.model, now) then
    return 'model_unavailable', 'no instance of the model was healthy by the deadline of the job'
  end
  return 'deadline_exceeded', 'the job was not finished by its deadline'
end
