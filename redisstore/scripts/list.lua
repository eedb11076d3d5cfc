-- Promise: the newest entries that a filter selects and that lie between two
--          bounds, so many of each state and status; or, where a search field
--          of the filter names few runs, these. A call looks at a bounded
--          number of entries and says where the next one goes on.
-- KEYS:    per partition: its index
-- ARGV:    what state entries begin with; state and status, "" for any; lowest
--          and highest "<at> <token>" (without it), "" for none; how many of a
--          state; how many to look at; how many search fields, and of each
--          "@<name> <value> "; per partition where to go on, "" to begin
-- Returns: per partition where to go on ("" at the end, "-" if not begun), then
--          "<at> <token>" of entries; or "?", then tokens
local within, state, status, low, high, most, budget, fields = unpack(ARGV, 1, 8)
most, budget, fields = tonumber(most), tonumber(budget), tonumber(fields)
local out, key, few, sub = {}, KEYS[1], 8, string.sub

-- seek finds the first words "<machine> <state> <status>" that are selected;
-- it looks for the state once in each machine. "!" follows " ", so that with
-- it is the first entry after all that begin with some words.
local function seek(from, tried)
  budget = budget - 1
  local member = call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, 1)[1] or ''
  local place, machine, st, su = string.match(member, '^((%S+) (%S+) (%S+)) ')
  if not place or sub(member, 1, #within) ~= within then return nil end
  if state ~= '' and st ~= state then return seek('[' .. machine .. (tried == machine and '!' or ' ' .. state .. ' '), machine) end
  if status ~= '' and su ~= status then return seek('[' .. place .. '!', tried) end
  return place
end

-- having keeps the entries of runs that have all search fields.
local function having(members, token)
  for i = 9, 8 + fields do
    local names, kept = {}, {}
    for j, m in ipairs(members) do names[j] = ARGV[i] .. sub(m, token) end
    local scores = names[1] and call('ZMSCORE', key, unpack(names))
    for j, m in ipairs(members) do
      if scores[j] then kept[#kept + 1] = m end
    end
    members = kept
  end
  return members
end

local function scan(from)
  local found, place, upper = {''}, string.match(from, '^(%S+ %S+ %S+) '), '(' .. from
  if from == '' then
    local least, rare, last = few + 1, nil, nil
    for i = 9, 8 + fields do
      local first, beyond = '[' .. ARGV[i], '(' .. sub(ARGV[i], 1, -2) .. '!'
      local n = call('ZLEXCOUNT', key, first, beyond)
      if n < least then least, rare, last = n, first, beyond end
    end
    if rare then
      for i, m in ipairs(call('ZRANGEBYLEX', key, rare, last)) do found[1], found[i + 1] = '?', sub(m, #rare) end
      return found
    end
    place, upper = seek(within == '' and '[A' or '[' .. within), nil
  end
  while place do
    upper = upper or '(' .. place .. (high == '' and '!' or ' ' .. high)
    local bottom, left, size, n = '[' .. place .. ' ' .. low, most, 100, nil
    repeat
      if fields == 0 then size = left end
      local members = call('ZREVRANGEBYLEX', key, upper, bottom, 'LIMIT', 0, size)
      n, from = #members, members[#members] or place .. ' '
      members, upper = having(members, #place + 27), '(' .. from
      for i, m in ipairs(members) do found[#found + 1] = sub(m, #place + 2) end
      left, budget = left - #members, budget - n - 1
      if budget <= 0 then found[1] = from return found end
    until n < size or left <= 0
    place, upper = seek('[' .. place .. '!'), nil
  end
  return found
end

for i = 1, #KEYS do
  local from = ARGV[8 + fields + i]
  key = KEYS[i]
  out[i] = budget > 0 and scan(from) or {from == '' and '-' or from}
end
return out
