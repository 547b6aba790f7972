-- include: keys
-- The event log of a generation: one stream entry per wire event, id `<sequence + 1>-0`, one field `e` with neutral
-- JSON. What is appended is published in the same step, so a live reader needs no second read.

-- The arguments from number `first` on. `unpack` would refuse more than some 8,000, which a minute without Redis brings.
local function arguments_from(first)
  local found = {}
  for at = first, #ARGV do found[#found + 1] = ARGV[at] end
  return found
end

-- Append JSON texts from sequence number `first` on; returns the next free number.
local function append_events(gen_id, first, events)
  if #events == 0 then return first end
  local log = log_key(gen_id)
  local seq = first
  for _, event in ipairs(events) do
    redis.call('XADD', log, int(seq + 1) .. '-0', 'e', event)
    seq = seq + 1
  end
  redis.call('HSET', gen_key(gen_id), 'seq', int(seq))
  redis.call('PUBLISH', live_channel(gen_id), '{"n":' .. int(first) .. ',"e":[' .. table.concat(events, ',') .. ']}')
  return seq
end
