-- Promise: the partition is marked as swept if the entry that noted the
--          beginning of the pass is still in its index; the entry goes.
-- KEYS:    per partition: its index
-- ARGV:    per partition: the entry
-- Returns: per partition 1 if it was marked, else 0
local out = {}
for i = 1, #KEYS do
  out[i] = call('ZREM', KEYS[i], ARGV[i])
  if out[i] == 1 then call('ZADD', KEYS[i], 0, '!') end
end
return out
