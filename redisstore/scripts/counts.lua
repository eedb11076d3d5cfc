-- Promise: how many runs each state has, counted in the index itself, at most
--          256 states a call.
-- KEYS:    per partition: its index
-- ARGV:    per partition: where to begin: "" or the last state of the answer
--          before
-- Returns: per partition "<machine> <state> <status>" and its number, in turn
local out = {}
for i = 1, #KEYS do
  local found, place, rank = {}, ARGV[i], nil
  while #found < 512 do
    -- "!" follows " ", so this is the first entry after all those of a state:
    -- its rank less that of their first is their number.
    local from = place == '' and '[A' or '[' .. place .. '!'
    local member = call('ZRANGEBYLEX', KEYS[i], from, '+', 'LIMIT', 0, 1)[1]
    local next = member and call('ZRANK', KEYS[i], member) or call('ZCARD', KEYS[i])
    if rank then found[#found + 1] = next - rank end
    place, rank = member and string.match(member, '^%S+ %S+ %S+'), next
    if not place then break end
    found[#found + 1] = place
  end
  out[i] = found
end
return out
