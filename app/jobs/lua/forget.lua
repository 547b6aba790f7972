-- include: keys
-- Instances that will not come back, and their model once nothing of it is left: what has no end of its own is dropped.
--
-- ARGV[1] model   ARGV[2 ..] slots that nobody owns any more
-- Keys: ph:orders:<id>, ph:breaker:<id>, ph:breakers, gpu.<model>.<slot> list of hints, and kombu's bindings of it; with the
--       model ph:models, ph:stats:<model>, ph:rate:<model>, ph:ring:<model>, ph:instances:<model>, ph:line:<model>:*,
--       gpu.<model> and its bindings
-- Returns generations that wait for the model; 0 and no instance: it is forgotten, until somebody asks for it again
local model = ARGV[1]

local function forget_queue(name) -- whoever consumes it again declares it again
  redis.call('DEL', name, '_kombu.binding.' .. name, '_kombu.binding_permanent.' .. name)
end

for at = 2, #ARGV do
  local id = model .. '.' .. ARGV[at]
  if redis.call('EXISTS', instance_key(id)) == 0 then
    redis.call('DEL', 'ph:orders:' .. id, 'ph:breaker:' .. id)
    forget_queue('gpu.' .. id)
    redis.call('ZREM', 'ph:breakers', id)
    redis.call('ZREM', instances_key(model), id)
    redis.call('LREM', ring_key(model), 0, id)
  end
end
local waiting = redis.call('ZCARD', line_key(model))
if waiting == 0 and redis.call('ZCARD', instances_key(model)) == 0 then
  redis.call('SREM', 'ph:models', model)
  redis.call('DEL', stats_key(model), 'ph:rate:' .. model, ring_key(model))
  forget_queue('gpu.' .. model)
  for _, part in ipairs({ 'flows', 'tenants', 'tiers', 'since', 'clock' }) do redis.call('DEL', line_part(model, part)) end
end
return waiting
