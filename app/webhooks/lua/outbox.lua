-- include: base
-- The oldest outbox entries that are due.
--
-- ARGV[1] at most so many
-- Keys: ph:outbox
-- Returns {`gen:<id>` | `job:<id>`, ...}
return redis.call('ZRANGEBYSCORE', OUTBOX, '-inf', int(now_ms()), 'LIMIT', 0, ARGV[1])
