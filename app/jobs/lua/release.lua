-- include: ending
-- A worker gives a generation back: it drains, or its instance failed under it.
--
-- ARGV[1] gen_id   ARGV[2] fence   ARGV[3] counted 0|1   ARGV[4] max attempts   ARGV[5] code   ARGV[6] message
-- ARGV[7] instance to pass over next time, or ''
-- Keys: ph:gen:<id>*, ph:line:<model>*, ph:running, ph:deadlines, ph:outbox, ph:dead, ph:breaker:<instance>, ph:ring:<model>
-- Returns {'requeued' | 'failed' | 'lost', model, slot of another instance that has a free place for it, or ''}
local g = read_generation(ARGV[1])
if not g or g.fence ~= ARGV[2] or g.owner == '' then return { 'lost', '', '' } end
local now = now_ms()
local opts = { counted = ARGV[3] == '1', max_attempts = tonumber(ARGV[4]), code = ARGV[5], message = ARGV[6],
  exclude = ARGV[7], fault = ARGV[7] ~= '' }
local outcome = hand_back(ARGV[1], g, opts, now)
return { outcome, g.model, outcome == 'requeued' and next_slot(g.model, '', g.instance, now) or '' }
