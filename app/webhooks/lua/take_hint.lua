-- include: base
-- May the caller publish a hint? Only when something waits and no hint is on its way; the mark of one that got lost
-- expires.
--
-- ARGV[1] how long a hint counts as on its way, in ms
-- Keys: ph:outbox, ph:deliveries:due, ph:deliveries:hint
-- Returns 1 or 0
local now = int(now_ms())
local waiting = redis.call('ZCOUNT', OUTBOX, '-inf', now) + redis.call('ZCOUNT', DUE, '-inf', now)
if waiting == 0 then return 0 end
if redis.call('SET', HINT, '1', 'NX', 'PX', ARGV[1]) then return 1 end
return 0
