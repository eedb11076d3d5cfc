-- Promise: per run, the record is written unless a newer one is there; then,
--          and not with a newer one, effects are released and claimed, its
--          index entries move, items are appended to its logs. The same record
--          again changes nothing, and is granted the same claims.
-- KEYS:    per run: its hash, its partition's index, a list per log
-- ARGV:    ms that ended runs stay; per run: the 14 values named below; if the
--          last is not empty: the claim fields to release and to claim, the log
--          fields; per log: its count, sealed, number of items, items
-- Returns: per run "n" and the newer sequence, or "g" and a 0 or 1 per claim
local out, k, a, keys = {}, 1, 2, #KEYS
while k <= keys do
  local run, idx = KEYS[k], KEYS[k + 1]
  local token, seq, txid, rev, machine, version, state, status, at, time, index, member, record, more = unpack(ARGV, a, a + 13)
  local owner, ended, ms, nr, nc, nl = ' ', '0', 0, 0, 0, 0
  if more ~= '' then
    owner, ended, ms, nr, nc, nl = string.match(more, '^(%S+ )(%d) (%d+) (%d+) (%d+) (%d+)$')
    nr, nc, nl = tonumber(nr), tonumber(nc), tonumber(nl)
  end
  local ids = a + 14
  a = ids + nr + nc + nl
  local old = call('HMGET', run, 'seq', 'txid', 'state', 'status', 'at', 'time', 'index', unpack(ARGV, ids, a - 1))
  if old[1] and newer(old[1], seq) then
    out[#out + 1] = 'n' .. old[1]
    for i = 1, nl do a = a + 3 + ARGV[a + 2] end
  else
    local same = old[1] == seq and old[2] == txid and call('HGET', run, 'record') == record
    local me, grants, set, drop, freed = owner .. txid .. ' ', 'g', {}, {}, {}
    if time ~= '' then set[1], set[2] = 'time', time elseif old[6] then drop[1] = 'time' end
    if index ~= '' then set[#set + 1], set[#set + 2] = 'index', index elseif old[7] then drop[#drop + 1] = 'index' end
    for i = 1, nr do
      if owns(old[7 + i], owner) then freed[ARGV[ids + i - 1]] = true end
    end
    for i = nr + 1, nr + nc do
      local field, claim = ARGV[ids + i - 1], old[7 + i]
      local free = freed[field] or left(claim) == 0 or (same and owns(claim, me))
      if free then
        set[#set + 1], set[#set + 2] = field, lease(ms, me)
        freed[field] = nil
      end
      grants = grants .. (free and '1' or '0')
    end
    for i = 1, nl do
      local list, field, base = KEYS[k + 1 + i], ARGV[ids + nr + nc + i - 1], tonumber(old[7 + nr + nc + i] or -1)
      local count, sealed, n = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
      local first, last = count - n, a + 2 + n
      if not same then
        if n > 0 and (first == 0 or base < 0 or base + call('LLEN', list) ~= first) then
          call('DEL', list)
          base = first
        end
        for j = a + 3, last, 100 do call('RPUSH', list, unpack(ARGV, j, math.min(j + 99, last))) end
        if base >= 0 and base < sealed then
          call('LTRIM', list, sealed - base, -1)
          base = sealed
        end
        if base >= 0 then set[#set + 1], set[#set + 2] = field, base end
      end
      if ended == '1' then call('PEXPIRE', list, ARGV[1]) end
      a = last + 1
    end
    call('HSET', run, 'seq', seq, 'txid', txid, 'rev', rev, 'machine', machine, 'version', version, 'state', state, 'status', status, 'at', at, 'record', record, unpack(set))
    for field in pairs(freed) do drop[#drop + 1] = field end
    if #drop > 0 then call('HDEL', run, unpack(drop)) end
    if ended == '1' then
      call('PEXPIRE', run, ARGV[1])
    elseif old[4] ~= 'running' and old[4] ~= 'parked' and old[4] ~= 'paused' then
      call('PERSIST', run)
    end
    local was = old[3] and machine .. ' ' .. old[3] .. ' ' .. (old[4] or '') .. ' ' .. (old[5] or '') .. ' ' .. token
    if was and was ~= member then call('ZREM', idx, was) end
    if was ~= member or same then call('ZADD', idx, '0', member) end
    if index ~= (old[7] or '') or same then
      for line in string.gmatch(old[7] or '', '[^\n]+') do call('ZREM', idx, '@' .. line .. ' ' .. token) end
      for line in string.gmatch(index, '[^\n]+') do call('ZADD', idx, '0', '@' .. line .. ' ' .. token) end
    end
    out[#out + 1] = grants
  end
  k = k + 2 + nl
end
return out
