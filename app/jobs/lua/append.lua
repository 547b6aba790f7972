-- include: ending
-- Add events to a generation's log, fenced. Sending the same events again after a lost reply changes nothing.
--
-- ARGV[1] gen_id   ARGV[2] fence   ARGV[3] next sequence number   ARGV[4] prompt ids (JSON) or ''   ARGV[5 ..] events (JSON)
-- Keys: ph:gen:<id>, ph:gen:<id>:log, channel ph:live:<id>, ph:breaker:<instance> (a probe's first tokens prove enough)
-- Returns 1, or 0 when the lease is lost or the numbers do not follow
local held = redis.call('HMGET', gen_key(ARGV[1]), 'fence', 'seq', 'owner', 'probe')
if held[1] ~= ARGV[2] or held[3] == '' then return 0 end
if tonumber(held[2]) == tonumber(ARGV[3]) + #ARGV - 4 then return 1 end -- only this fence's holder appends: it was us
if held[2] ~= ARGV[3] then return 0 end
if ARGV[4] ~= '' then redis.call('HSET', gen_key(ARGV[1]), 'prompt_ids', ARGV[4]) end
for at = 5, #ARGV do -- nobody can continue reasoning: where a parser stood in it is known to its engine alone
  if ARGV[at] == '{"k":"r_item"}' then redis.call('HSET', gen_key(ARGV[1]), 'continuable', '0') end
end
append_events(ARGV[1], tonumber(ARGV[3]), arguments_from(5))
if held[4] == '1' then
  redis.call('HSET', gen_key(ARGV[1]), 'probe', '')
  tell_breaker(ARGV[1], read_generation(ARGV[1]), true, now_ms())
end
return 1
