-- Promise: the newest entries that a filter selects and that lie between two
--          bounds, so many of each state and status; or, where a search field
--          of the filter names few runs, these. It gives up on an index where
--          it would have to look at much.
-- KEYS:    per partition: its index
-- ARGV:    what state entries begin with; state and status, "" for any; lowest
--          and highest "<at> <token>" (without it), "" for none; how many of a
--          state; per search field "@<name> <value> "
-- Returns: per partition "" and "<at> <token>" of entries, "?" and tokens, or
--          "!" if it gave up
local within, state, status, low, high, most = unpack(ARGV, 1, 6)
local out, key, work, few, sub = {}, KEYS[1], 0, 128, string.sub
most = tonumber(most)

-- having keeps the entries of runs that have all search fields. Their times
-- begin at a byte.
local function having(members, at)
  for i = 7, #ARGV do
    local asked, kept = {}, {}
    for j, m in ipairs(members) do asked[j] = ARGV[i] .. sub(m, at, at + 12) .. sub(m, at + 24) end
    local scores = asked[1] and call('ZMSCORE', key, unpack(asked))
    for j, m in ipairs(members) do
      if scores[j] then kept[#kept + 1] = m end
    end
    members = kept
  end
  return members
end

-- take adds the newest entries of a state and status.
local function take(found, place)
  local lower, upper, left = '[' .. place .. ' ' .. low, '(' .. place .. (high == '' and '!' or ' ' .. high), most
  while left > 0 and work > 0 do
    local size = #ARGV == 6 and math.min(left, work) or 50
    local members = call('ZREVRANGEBYLEX', key, upper, lower, 'LIMIT', 0, size)
    local n, last = #members, members[#members]
    members, work = having(members, #place + 2), work - n - 4
    for _, m in ipairs(members) do found[#found + 1] = sub(m, #place + 2) end
    if n < size then break end
    left, upper = left - #members, '(' .. last
  end
  -- What is older than so many need not be found. Times of one width sort the
  -- same in every locale, tokens may not: of one time, all stay.
  if #found > 2 * most then
    table.sort(found, function(a, b) return a > b end)
    low = sub(found[most], 1, 24)
    while sub(found[#found], 1, 24) < low do found[#found] = nil end
  end
end

-- scan goes through the states downwards, so that the first entry of each that
-- it comes to is the newest. "!" follows " ": with it, a bound is above all
-- that begin with some words.
local function scan()
  local found, tried = {}, nil
  for i = 7, #ARGV do
    local first = '[' .. ARGV[i] .. sub(low, 1, 13)
    local beyond = '(' .. (high == '' and sub(ARGV[i], 1, -2) or ARGV[i] .. sub(high, 1, 13)) .. '!'
    if call('ZLEXCOUNT', key, first, beyond) <= few then
      for j, m in ipairs(call('ZRANGEBYLEX', key, first, beyond)) do found[j] = string.match(m, '%S+$') end
      return '?', found
    end
  end
  local upper = within == '' and '+' or '(' .. sub(within, 1, -2) .. '!'
  while work > 0 do
    local member = call('ZREVRANGEBYLEX', key, upper, within == '' and '[A' or '[' .. within, 'LIMIT', 0, 1)[1]
    local place, machine, st, su, at = string.match(member or '', '^((%S+) (%S+) (%S+)) (%S+) ')
    if not place then return '', found end
    work, upper = work - 4, '(' .. place .. ' '
    if state ~= '' and st ~= state then
      -- The state is looked for once in each machine: it is there or not.
      upper = '(' .. machine .. ' ' .. (tried == machine and '' or state .. '!')
    elseif (status == '' or su == status) and at >= sub(low, 1, 24) then
      take(found, place)
    end
    tried = machine
  end
  return '!', {}
end

for i = 1, #KEYS do
  key, work = KEYS[i], 2000
  local how, found = scan()
  table.insert(found, 1, how)
  out[i] = found
end
return out
