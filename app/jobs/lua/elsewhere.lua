-- include: ring
-- A hint reached an instance that may take no work now: whose it should be instead.
--
-- ARGV[1] model   ARGV[2] the instance
-- Keys: ph:line:<model>, ph:ring:<model>, ph:instance:<id>, ph:breaker:<instance>
-- Returns the slot of another instance, one that has a free place if there is any, or '' when there is no other, or nothing
-- waits
if redis.call('EXISTS', line_key(ARGV[1])) == 0 then return '' end
local slot = next_slot(ARGV[1], '', ARGV[2], now_ms())
return slot ~= '' and slot or next_full_slot(ARGV[1], ARGV[2])
