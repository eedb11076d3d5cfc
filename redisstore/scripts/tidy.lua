-- Promise: each index entry that its run's hash does not bear out is removed.
-- KEYS:    per entry: its partition's index, the run's hash
-- ARGV:    per entry: the entry, and how many bytes it has before the token
-- Returns: per entry 1 if it was removed, else 0
local out = {}
for i = 1, #KEYS / 2 do
  local idx, run, entry = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i - 1]
  local head = string.sub(entry, 1, tonumber(ARGV[2 * i]))
  local old = call('HMGET', run, 'place', 'index')
  local borne
  if string.sub(head, 1, 1) == '@' then
    local line, hour = string.match(head, '^@(%S+ %S+) (%S+) $')
    borne = old[1] and hour == hourOf(old[1]) and string.find('\n' .. (old[2] or '') .. '\n', '\n' .. line .. '\n', 1, true)
  else
    borne = old[1] and head == old[1] .. ' '
  end
  if not borne then call('ZREM', idx, entry) end
  out[i] = borne and 0 or 1
end
return out
