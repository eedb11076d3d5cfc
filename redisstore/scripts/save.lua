-- Promise: per run, the record is written unless a newer one is there; then,
--          and not with a newer one, effects are released and claimed, its
--          index entries move, items are appended to its logs. The same record
--          again changes nothing, and is granted the same claims.
-- KEYS:    per run: its hash, its partition's index, a list per log
-- ARGV:    ms that ended runs stay; per run: head, place, token, search fields,
--          record, and, if there is more of it, "<owner> <txid> <ms> <number of
--          releases> <claims> <logs>"; then the claim fields to release and to
--          claim, the log fields; per log: its count, sealed, number of items,
--          items
-- Returns: per run "n" and the newer sequence, or "g" and a 0 or 1 per claim
local out, k, a, keys, sub = {}, 1, 2, #KEYS, string.sub
while k <= keys do
  local run, idx = KEYS[k], KEYS[k + 1]
  local head, place, token, index, record, more = unpack(ARGV, a, a + 5)
  local me, owner, ms, nr, nc, nl = nil, nil, 0, 0, 0, 0
  if more ~= '' then
    me, owner, ms, nr, nc, nl = string.match(more, '^((%S+ )%S+ )(%d+) (%d+) (%d+) (%d+)$')
    nr, nc, nl = tonumber(nr), tonumber(nc), tonumber(nl)
  end
  local ids = a + 6
  a = ids + nr + nc + nl
  local old = call('HMGET', run, 'head', 'place', 'index', unpack(ARGV, ids, a - 1))
  local was, wherewas, fields = old[1], old[2], old[3] or ''
  if was and newer(was, head) then
    out[#out + 1] = 'n' .. sub(was, 1, 20)
    for i = 1, nl do a = a + 3 + ARGV[a + 2] end
  else
    local same = was and told(was) == told(head) and call('HGET', run, 'record') == record
    -- A run that stays in its state moves in the index once a second.
    if wherewas and sub(wherewas, 1, -6) == sub(place, 1, -6) then place = wherewas end
    local grants, set, drop = 'g', {'head', head, 'place', place, 'record', record}, {}
    if index == '' and fields ~= '' then drop[1] = 'index' elseif index ~= fields then set[7], set[8] = 'index', index end
    local freed = nr > 0 and {} or nil
    for i = 1, nr do
      if owns(old[3 + i], owner) then freed[ARGV[ids + i - 1]] = true end
    end
    for i = nr + 1, nr + nc do
      local field, claim = ARGV[ids + i - 1], old[3 + i]
      local free = not claim or (freed and freed[field]) or left(claim) == 0 or (same and owns(claim, me))
      if free then
        set[#set + 1], set[#set + 2] = field, lease(ms, me)
        if freed then freed[field] = nil end
      end
      grants = grants .. (free and '1' or '0')
    end
    for i = 1, nl do
      local list, field, base = KEYS[k + 1 + i], ARGV[ids + nr + nc + i - 1], tonumber(old[3 + nr + nc + i] or -1)
      local count, sealed, n = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
      local first, last = count - n, a + 2 + n
      if not same then
        local length
        if n > 0 and (first == 0 or base < 0) then call('DEL', list) base = first end
        for j = a + 3, last, 100 do length = call('RPUSH', list, unpack(ARGV, j, math.min(j + 99, last))) end
        if length and base + length ~= count then call('LTRIM', list, -n, -1) base = first end
        if base >= 0 and base < sealed then call('LTRIM', list, sealed - base, -1) base = sealed end
        if base >= 0 and tostring(base) ~= old[3 + nr + nc + i] then set[#set + 1], set[#set + 2] = field, base end
      end
      if ended(head) then call('PEXPIRE', list, ARGV[1]) end
      a = last + 1
    end
    call('HSET', run, unpack(set))
    for field in pairs(freed or {}) do drop[#drop + 1] = field end
    if drop[1] then call('HDEL', run, unpack(drop)) end
    if ended(head) then
      call('PEXPIRE', run, ARGV[1])
    elseif not was or ended(was) then
      call('PERSIST', run)
    end
    if wherewas and wherewas ~= place then call('ZREM', idx, wherewas .. ' ' .. token) end
    if wherewas ~= place or same then call('ZADD', idx, '0', place .. ' ' .. token) end
    if index ~= '' or fields ~= '' then
      local tail, before = ' ' .. hourOf(place) .. ' ' .. token, ' ' .. hourOf(wherewas or '') .. ' ' .. token
      if index ~= fields or tail ~= before or same then
        for line in string.gmatch(fields, '[^\n]+') do call('ZREM', idx, '@' .. line .. before) end
        for line in string.gmatch(index, '[^\n]+') do call('ZADD', idx, '0', '@' .. line .. tail) end
      end
    end
    out[#out + 1] = grants
  end
  k = k + 2 + nl
end
return out
