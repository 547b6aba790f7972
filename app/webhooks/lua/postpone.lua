-- include: base
-- Put an outbox entry that cannot be fanned out now behind the others.
--
-- ARGV[1] entry   ARGV[2] delay in ms   ARGV[3] '1': make it if it is not there
-- Keys: ph:outbox
local due = int(now_ms() + ARGV[2])
if ARGV[3] == '1' then redis.call('ZADD', OUTBOX, due, ARGV[1]) else redis.call('ZADD', OUTBOX, 'XX', due, ARGV[1]) end
return 1
