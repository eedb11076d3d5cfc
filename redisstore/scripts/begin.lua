-- Promise: a pass over the partition is noted in its index, and those that
--          began over a day ago and never ended are forgotten.
-- KEYS:    per partition: its index
-- ARGV:    per partition: a random word
-- Returns: per partition the entry that notes the pass
local out = {}
for i = 1, #KEYS do
  call('ZREMRANGEBYLEX', KEYS[i], '[!0', string.format('(!%013.0f', now() - 86400000))
  out[i] = string.format('!%013.0f ', now()) .. ARGV[i]
  call('ZADD', KEYS[i], 0, out[i])
end
return out
