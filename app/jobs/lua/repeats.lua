-- Whether a request repeats one that was taken already: its Idempotency-Key is kept, for the same body.
--
-- ARGV[1] tenant   ARGV[2] key digest   ARGV[3] body digest
-- Keys: ph:idem:<tenant>:<digest>
-- Returns 1 | 0
local kept = redis.call('GET', 'ph:idem:' .. ARGV[1] .. ':' .. ARGV[2])
return kept and kept:match('|(.*)$') == ARGV[3] and 1 or 0
