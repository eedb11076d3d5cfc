-- Promise: items [from, to) of a log as they are at one moment, or fewer if
--          the list does not hold them all.
-- KEYS:    per log: the run's hash, the list
-- ARGV:    per log: the hash's field of the log, from, to
-- Returns: per log the items
local out = {}
for i = 1, #KEYS / 2 do
  local field, from, to = unpack(ARGV, 3 * i - 2, 3 * i)
  local base = tonumber(call('HGET', KEYS[2 * i - 1], field) or math.huge)
  out[i] = {}
  if base <= tonumber(from) then out[i] = call('LRANGE', KEYS[2 * i], from - base, to - base - 1) end
end
return out
