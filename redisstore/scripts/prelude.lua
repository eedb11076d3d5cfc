-- Promise: what the scripts share; it is put in front of each of them.
-- KEYS:    none of its own
-- ARGV:    none of its own
-- Returns: nothing

-- call is redis.call, but a key of another type than the command's is deleted
-- first: such a key is no copy of anything, and an error half-way would leave
-- half a write.
local function call(command, key, ...)
  local r = redis.pcall(command, key, ...)
  if type(r) ~= 'table' or not r.err then return r end
  if string.find(r.err, 'WRONGTYPE', 1, true) then redis.call('DEL', key) end
  return redis.call(command, key, ...)
end

-- A head is "<sequence> <live or over> <txid> <rev> <version> <time>", the
-- sequence in 20 digits: so heads compare as strings, exactly. What is no head
-- is newer than none.
local function newer(a, b)
  local x, y = string.sub(a, 1, 21), string.sub(b, 1, 21)
  return x > y and string.find(a, '^%d+ %l+ %S+ %d+ %d+ ') ~= nil
end

-- told is a head without its time, which not everybody who has the record
-- knows.
local function told(head) return string.match(head, '^.* ') end

-- hourOf is the hour of a place, "<machine> <state> <status> <at>": the first
-- 13 letters of its time, which has 24.
local function hourOf(place) return string.sub(place, -24, -12) end

-- ended tells whether a head is of a run that has ended.
local function ended(head) return string.sub(head, 22, 25) == 'over' end

-- ofTxid tells whether a head is of the record with a txid.
local function ofTxid(head, txid)
  return head and string.sub(head, 27, 27 + #txid) == txid .. ' '
end

-- A claim is "<deadline> <owner> <txid> <crashes>", the deadline in 13 digits
-- of milliseconds by the clock of this Redis.
local clock
local function now()
  if not clock then
    local t = redis.call('TIME')
    clock = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return clock
end

-- left is how many milliseconds a claim still runs; nobody holds it at 0.
local function left(claim)
  local deadline = claim and tonumber(string.sub(claim, 1, 13))
  return deadline and math.max(deadline - now(), 0) or 0
end

-- owns tells whether a claim is of who: "<owner> " or "<owner> <txid> ".
local function owns(claim, who)
  return claim and string.sub(claim, 15, 14 + #who) == who
end

local function lease(ms, who)
  return string.format('%013.0f %s0', now() + ms, who)
end
