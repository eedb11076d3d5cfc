-- Promise: per run, the record is written unless a newer one is there; then,
--          and not with a newer one, effects are released and claimed, its
--          index entries move, items are appended to its logs. The same record
--          again changes nothing, and is granted the same claims.
-- KEYS:    per run: its hash, its partition's index, a list per log
-- ARGV:    ms that ended runs stay; per run: the 14 values named below, the
--          hash's fields and values (record last), the claim fields to release and to claim,
--          the log fields; per log: its count, sealed, number of items, items
-- Returns: per run "n" and the newer sequence, or "g" and a 0 or 1 per claim
local out, k, a, keys = {}, 1, 2, #KEYS
while k <= keys do
  local run, idx = KEYS[k], KEYS[k + 1]
  local size, token, seq, txid, owner, member, time, index, ended, ms, nf, nr, nc, nl = unpack(ARGV, a, a + 13)
  nf, nr, nc, nl = tonumber(nf), tonumber(nr), tonumber(nc), tonumber(nl)
  local ids, p = a + 14 + nf, a + 14 + nf + nr + nc + nl
  local old = call('HMGET', run, 'seq', 'txid', 'machine', 'state', 'status', 'at', 'time', 'index', unpack(ARGV, ids, p - 1))
  if old[1] and newer(old[1], seq) then
    out[#out + 1] = 'n' .. old[1]
  else
    local me = owner .. txid .. ' '
    local same = old[1] == seq and old[2] == txid and call('HGET', run, 'record') == ARGV[ids - 1]
    local set, drop, freed, grants = {}, {}, {}, 'g'
    if not same then
      set = {unpack(ARGV, a + 14, ids - 1)}
      if old[7] and time == '' then drop[1] = 'time' end
      if old[8] and index == '' then drop[#drop + 1] = 'index' end
    end
    for i = 1, nr do
      if owns(old[8 + i], owner) then freed[ARGV[ids + i - 1]] = true end
    end
    for i = nr + 1, nr + nc do
      local field, claim = ARGV[ids + i - 1], old[8 + i]
      local free = freed[field] or left(claim) == 0 or (same and owns(claim, me))
      if free then
        set[#set + 1], set[#set + 2] = field, lease(ms, me)
        freed[field] = nil
      end
      grants = grants .. (free and '1' or '0')
    end
    for i = 1, (same and 0 or nl) do
      local list, field, base = KEYS[k + 1 + i], ARGV[ids + nr + nc + i - 1], tonumber(old[8 + nr + nc + i] or -1)
      local count, sealed, n = tonumber(ARGV[p]), tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2])
      local first, last = count - n, p + 2 + n
      if n > 0 and (first == 0 or base < 0 or base + call('LLEN', list) ~= first) then
        call('DEL', list)
        base = first
      end
      for j = p + 3, last, 100 do call('RPUSH', list, unpack(ARGV, j, math.min(j + 99, last))) end
      if base >= 0 and base < sealed then
        call('LTRIM', list, sealed - base, -1)
        base = sealed
      end
      if base >= 0 then set[#set + 1], set[#set + 2] = field, base end
      if ended == '1' then call('PEXPIRE', list, ARGV[1]) end
      p = last + 1
    end
    if #set > 0 then call('HSET', run, unpack(set)) end
    for field in pairs(freed) do drop[#drop + 1] = field end
    if #drop > 0 then call('HDEL', run, unpack(drop)) end
    if ended == '1' then
      call('PEXPIRE', run, ARGV[1])
    elseif not old[1] or (old[5] ~= 'running' and old[5] ~= 'parked') then
      call('PERSIST', run)
    end
    local was = old[3] and table.concat({old[3], old[4], old[5], old[6], token}, ' ')
    if was and was ~= member then call('ZREM', idx, was) end
    if was ~= member or same then call('ZADD', idx, 0, member) end
    if index ~= (old[8] or '') or same then
      for line in string.gmatch(old[8] or '', '[^\n]+') do call('ZREM', idx, '@' .. line .. ' ' .. token) end
      for line in string.gmatch(index, '[^\n]+') do call('ZADD', idx, 0, '@' .. line .. ' ' .. token) end
    end
    out[#out + 1] = grants
  end
  k, a = k + 2 + nl, a + tonumber(size)
end
return out
