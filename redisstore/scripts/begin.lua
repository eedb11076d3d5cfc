-- Promise: it is noted in its index that the partition is being written, unless
--          it is complete or the same was noted within the lease; what was
--          noted over a day ago and never ended is forgotten.
-- KEYS:    per partition: its index
-- ARGV:    per partition: a random word, lease in ms
-- Returns: per partition the entry that notes it, "" if there is none
local out = {}
for i = 1, #KEYS do
  local word, ms = unpack(ARGV, 2 * i - 1, 2 * i)
  call('ZREMRANGEBYLEX', KEYS[i], '[!0', string.format('(!%013.0f', now() - 86400000))
  local others = call('ZRANGEBYLEX', KEYS[i], string.format('(!%013.0f!', now() - ms), '(!:', 'LIMIT', 0, 1)
  out[i] = ''
  if not call('ZSCORE', KEYS[i], '!') and not others[1] then
    out[i] = string.format('!%013.0f ', now()) .. word
    call('ZADD', KEYS[i], 0, out[i])
  end
end
return out
