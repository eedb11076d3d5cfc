-- Promise: it is noted that a partition is being written, unless it is complete
--          or the same was noted within the lease; what was noted over a day
--          ago and never ended is forgotten.
-- KEYS:    per partition: its index
-- ARGV:    per partition: its mark, a random word, lease in ms
-- Returns: per partition the entry that notes it, "" if there is none
local out = {}
for i = 1, #KEYS do
  local mark, word, ms = unpack(ARGV, 3 * i - 2, 3 * i)
  call('ZREMRANGEBYLEX', KEYS[i], '[' .. mark .. ' ', string.format('(%s %013.0f', mark, now() - 86400000))
  local others = call('ZRANGEBYLEX', KEYS[i], string.format('(%s %013.0f!', mark, now() - ms), '(' .. mark .. '!', 'LIMIT', 0, 1)
  out[i] = ''
  if not call('ZSCORE', KEYS[i], mark) and not others[1] then
    out[i] = string.format('%s %013.0f ', mark, now()) .. word
    call('ZADD', KEYS[i], 0, out[i])
  end
end
return out
