-- include: ring
-- include: queues
-- An instance may take no work: the hints on its own queue go to those whose turn it is. They stay where nobody else is
-- there; the worker looks at them when it may work again.
--
-- ARGV[1] model   ARGV[2] the instance   ARGV[3] its slot
-- Keys: gpu.<model>.<slot> lists (kombu's queues), ph:ring:<model>, ph:instance:<id>, ph:breaker:<instance>
-- Returns how many were moved
local model, instance, own = ARGV[1], ARGV[2], own_queue(ARGV[1], ARGV[3])
local now = now_ms()
local moved = 0
while moved < MOST_MOVED and redis.call('EXISTS', own) == 1 do
  local slot = next_slot(model, '', instance, now)
  if slot == '' then slot = next_full_slot(model, instance) end
  if slot == '' or slot == ARGV[3] then break end
  redis.call('LMOVE', own, own_queue(model, slot), 'RIGHT', 'LEFT')
  moved = moved + 1
end
return moved
