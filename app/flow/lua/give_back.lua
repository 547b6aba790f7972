-- Take back what was counted for a request that was not taken on. What the counter no longer holds (its minute has
-- passed meanwhile) is not taken from those that came after.
--
-- ARGV[1] the limit, as the library names it   ARGV[2] what to take back
-- Keys: ph:limit:{<limit>} string, the running minute's counter; its TTL stays
local counter = 'ph:limit:{' .. ARGV[1] .. '}'
local back = math.min(tonumber(redis.call('GET', counter)) or 0, tonumber(ARGV[2]))
if back > 0 then redis.call('DECRBY', counter, back) end
return back
