-- include: waiting
-- A model's line in numbers, whatever its length.
--
-- ARGV[1] model
-- Keys: ph:line:<model>*, ph:rate:<model>, ph:ring:<model>, ph:instance:<id>, ph:breaker:<instance>
-- Returns {waiting, age of the oldest in ms, places, free places, expected wait of one who comes last in ms or -1,
--          tier digit and number (flat), tenant and number (flat)}
local now = now_ms()
local model = ARGV[1]
local waiting = redis.call('ZCARD', line_key(model))
local oldest = redis.call('ZRANGE', line_part(model, 'since'), 0, 0, 'WITHSCORES')[2]
local total, free = places_in_all(model, math.huge)
return { waiting, oldest and math.max(0, now - tonumber(oldest)) or 0, total, free, wait_ms(outlook(model, now), waiting),
  redis.call('HGETALL', line_part(model, 'tiers')), redis.call('HGETALL', line_part(model, 'tenants')) }
