-- Promise: permits run on, those that were forgotten as well.
-- KEYS:    per permit: permits of its type, of its key
-- ARGV:    per permit: "<owner> <effect id>", lease in ms, 1 if its type has a limit
--          on how many at once, 1 if its key has
-- Returns: per permit 0
local out = {}
for i = 1, #KEYS / 2 do
  local who, ms = unpack(ARGV, 4 * i - 3, 4 * i - 2)
  for j = 0, 1 do
    if ARGV[4 * i - 1 + j] == '1' then
      call('ZADD', KEYS[2 * i - 1 + j], string.format('%.3f', now() + ms), who)
      call('PEXPIRE', KEYS[2 * i - 1 + j], ms + 60000)
    end
  end
  out[i] = 0
end
return out
