-- include: base
-- Is there anything to fan out or to send now?
--
-- Keys: ph:outbox, ph:deliveries:due
-- Returns {outbox entries due, hosts with a delivery due}
local now = int(now_ms())
return { redis.call('ZCOUNT', OUTBOX, '-inf', now), redis.call('ZCOUNT', DUE, '-inf', now) }
