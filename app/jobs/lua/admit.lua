-- include: joining
-- A job whose record was written first, and has reached a replica since, takes its place in line. Safe to repeat.
--
-- ARGV[1] job_id   ARGV[2] policy (round_robin|least_loaded)
-- Keys: ph:job:<id>, ph:gen:<id>, ph:line:<model>*, ph:ring:<model>, ph:instance:<id>, ph:breaker:<instance>,
--       ph:rate:<model>
-- Returns {'ok', now, slot or '', position or -1, expected wait in ms or -1} | {'gone', now} when it is no longer kept
local now = now_ms()
local gen_id = redis.call('HGET', job_key(ARGV[1]), 'gen')
local g = gen_id and read_generation(gen_id)
if not g then return { 'gone', now } end
local slot = ''
local held = redis.call('HMGET', gen_key(gen_id), 'held', 'tier')
if held[1] == '1' and g.status == 'queued' then
  if redis.call('EXISTS', line_key(g.model)) == 0 then slot = next_slot(g.model, ARGV[2], '', now) end
  g.member = join_line(g.model, gen_id, g.tenant, held[2], tonumber(g.cost), now)
  redis.call('HSET', gen_key(gen_id), 'held', '')
end
local rank = redis.call('ZRANK', line_key(g.model), g.member) or -1
return { 'ok', now, slot, rank, rank >= 0 and wait_ms(outlook(g.model, now), rank) or -1 }
