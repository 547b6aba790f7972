-- Celery's queues as kombu keeps them: a list of the queue's name, new messages on the left, the next one on the right. A
-- message is a hint and names a model, so any of the model's workers may have it.
local MOST_MOVED = 256

local function shared_queue(model) return 'gpu.' .. model end
local function own_queue(model, slot) return 'gpu.' .. model .. '.' .. slot end

-- Hints that one instance does not take are for whoever is free.
local function share_hints(model, slot)
  for _ = 1, MOST_MOVED do
    if not redis.call('LMOVE', own_queue(model, slot), shared_queue(model), 'RIGHT', 'LEFT') then return end
  end
end
