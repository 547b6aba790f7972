-- include: ending
-- include: waiting
-- The end of a run: result, final events, terminal state and outbox entry in one step that checks the fencing token.
--
-- ARGV[1] gen_id   ARGV[2] fence   ARGV[3] next sequence number   ARGV[4] status (completed|incomplete|failed)
-- ARGV[5] result (JSON) or ''   ARGV[6] error code or ''   ARGV[7] error message or ''
-- ARGV[8] input tokens   ARGV[9] output tokens   ARGV[10] 1: may be joined for some seconds more
-- ARGV[11 ..] events (JSON), the last one is the end
-- Keys: ph:gen:<id>*, ph:running, ph:deadlines, ph:outbox, ph:stats:<model>, ph:dead, ph:join:<digest>, channel ph:live:<id>,
--       ph:breaker:<instance>, ph:rate:<model>
-- Returns 1, or 2 when a webhook is to be sent (1 also when this very fence has committed before: its reply was lost),
-- or 0 when the lease is lost
if redis.call('HGET', gen_key(ARGV[1]), 'committed') == ARGV[2] then return 1 end
local g = read_generation(ARGV[1])
if not g or g.fence ~= ARGV[2] or g.owner == '' or g.seq ~= ARGV[3] then return 0 end
local now = now_ms()
although_full()
-- Too long a run and no memory are the instance's faults; what the engine refused is the client's mistake.
local FAULTS = { timeout = true, engine_out_of_memory = true }
if ARGV[4] ~= 'failed' or FAULTS[ARGV[6]] then tell_breaker(ARGV[1], g, ARGV[4] ~= 'failed', now) end
end_generation(ARGV[1], g, ARGV[4], arguments_from(11),
  { 'result', ARGV[5], 'error_code', ARGV[6], 'error_message', ARGV[7], 'committed', ARGV[2] }, now, ARGV[10] == '1')
if ARGV[4] ~= 'failed' then measure_run(g, now) end
if ARGV[4] == 'failed' and FAULTS[ARGV[6]] then bury(ARGV[1], now) end
redis.call('HINCRBY', stats_key(g.model), 'tokens_in', ARGV[8])
redis.call('HINCRBY', stats_key(g.model), 'tokens_out', ARGV[9])
return tonumber(g.webhooks) > 0 and 2 or 1
