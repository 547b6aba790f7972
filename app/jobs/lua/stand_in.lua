-- include: nobody
-- A generation was just put in line: if no instance of its model is healthy, a fallback takes it at once.
--
-- ARGV[1] gen_id
-- Keys: ph:gen:<id>*, ph:line:<model>*, ph:ring:<model>, ph:instance:<id>, ph:breaker:<instance>, ph:join:<digest>
-- Returns {} when it stays where it is, else {model, slot or ''}
local now = now_ms()
local g = read_generation(ARGV[1])
if not g or is_terminal(g.status) or g.member == '' or anybody_healthy(g.model, now) then return {} end
local model = stand_in(ARGV[1], g, {}, now)
return model and { model, next_slot(model, '', '', now) } or {}
