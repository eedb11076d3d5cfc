-- Promise: permits are free again, and for how long they were in use goes into
--          the mean by which others are told when their turn is.
-- KEYS:    per permit: permits and pace of its type, then the same of its key
-- ARGV:    per permit: "<owner> <effect id>", ms that it was in use, 0 if it was not
-- Returns: per permit 0
local out = {}
for i = 1, #KEYS / 4 do
  local who, took = unpack(ARGV, 2 * i - 1, 2 * i)
  for k = 4 * i - 3, 4 * i - 1, 2 do
    if call('ZREM', KEYS[k], who) == 1 and took ~= '0' then
      local mean = tonumber(call('HGET', KEYS[k + 1], 'mean') or took)
      call('HSET', KEYS[k + 1], 'mean', string.format('%.3f', mean + (took - mean) / 5))
      if call('PTTL', KEYS[k + 1]) < 3600000 then call('PEXPIRE', KEYS[k + 1], 3600000) end
    end
  end
  out[i] = 0
end
return out
