-- Promise: a partition is marked as complete if the entry that noted the
--          beginning is still in its index; the entry goes.
-- KEYS:    per partition: its index
-- ARGV:    per partition: its mark, the entry
-- Returns: per partition 1 if it was marked, else 0
local out = {}
for i = 1, #KEYS do
  out[i] = call('ZREM', KEYS[i], ARGV[2 * i])
  if out[i] == 1 then call('ZADD', KEYS[i], 0, ARGV[2 * i - 1]) end
end
return out
