-- include: base
-- Put an outbox entry that cannot be fanned out now behind the others.
--
-- ARGV[1] entry   ARGV[2] delay in ms
-- Keys: ph:outbox
redis.call('ZADD', OUTBOX, 'XX', int(now_ms() + ARGV[2]), ARGV[1])
return 1
