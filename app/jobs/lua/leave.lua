-- include: ending
-- A job ends on its own: cancelled by its owner, or its caller hung up.
--
-- ARGV[1] job_id   ARGV[2] status (cancelled)   ARGV[3] code or ''   ARGV[4] message or ''
-- Keys: ph:job:<id>, ph:gen:<id>*, ph:line:<model>*, ph:deadlines, ph:running, ph:outbox
-- Returns 'ended' | 'already' | 'gone'
although_full()
return leave_generation(ARGV[1], ARGV[2], ARGV[3], ARGV[4], now_ms())
