-- An instance leaves the pool for good.
--
-- ARGV[1] instance   ARGV[2] model
-- Keys: ph:instance:<id>, ph:instances:<model>, ph:ring:<model>
redis.call('DEL', 'ph:instance:' .. ARGV[1])
redis.call('ZREM', 'ph:instances:' .. ARGV[2], ARGV[1])
return redis.call('LREM', 'ph:ring:' .. ARGV[2], 0, ARGV[1])
