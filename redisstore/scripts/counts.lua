-- Promise: how many runs each state has, counted in the index itself, at most
--          256 states a call.
-- KEYS:    per partition: its index
-- ARGV:    per partition: where to begin: "" or the last state of the answer
--          before
-- Returns: per partition "<machine> <state> <status>" and its number, in turn
local out = {}
for i = 1, #KEYS do
  local found, place = {}, ARGV[i]
  while #found < 512 do
    -- "!" follows " ", so this is the first entry after all those of a state.
    local from = place == '' and '[A' or '[' .. place .. '!'
    local member = call('ZRANGEBYLEX', KEYS[i], from, '+', 'LIMIT', 0, 1)[1]
    place = member and string.match(member, '^%S+ %S+ %S+')
    if not place then break end
    found[#found + 1] = place
    found[#found + 1] = call('ZLEXCOUNT', KEYS[i], '[' .. place .. ' ', '(' .. place .. '!')
  end
  out[i] = found
end
return out
