-- Promise: each effect that its type's limits and its key's allow gets a permit
--          of both, which runs out by itself, and counts against both rates.
--          No limit is ever exceeded by a permit given here. One that may not
--          begin is told about when its turn is, after those who wait already.
-- KEYS:    per permit: permits, those who wait, and pace of its type, then the
--          same of its key
-- ARGV:    ms that one who waits may be late for its turn, ms that anybody waits
--          at most; per permit: "<owner> <effect id>", effect id, lease in ms, then
--          of its type and of its key: how many at once, ms from one to the next,
--          how many of them together; 0 is no limit
-- Returns: per permit 0, or ms to wait; then 0, or what was met: 1 and 2 how many
--          at once of the type and of the key, 3 and 4 their rates
local late, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local function text(ms) return string.format('%.3f', ms) end

-- check is how long one has to wait by one scope, and whether for its rate.
local function check(k, who, id, limit, interval, burst)
  if limit == 0 and interval == 0 then return 0, false end
  call('ZREMRANGEBYSCORE', KEYS[k], '-inf', text(now()))
  call('ZREMRANGEBYSCORE', KEYS[k + 1], '-inf', text(now() - late))
  local ahead = call('ZRANK', KEYS[k + 1], id) or call('ZCARD', KEYS[k + 1])
  local pace = call('HMGET', KEYS[k + 2], 'next', 'mean')
  local wait, rate = 0, false
  if limit > 0 and call('ZCARD', KEYS[k]) >= limit and not call('ZSCORE', KEYS[k], who) then
    local mean = tonumber(pace[2]) or 1000
    if ahead < limit then
      wait = math.min(mean / (2 * limit), 1000) -- next in line: any may end now
    else
      wait = mean * ahead / limit
    end
    wait = math.max(wait, 20)
  end
  if interval > 0 then
    local free = (tonumber(pace[1]) or 0) - (burst - 1) * interval - now()
    if free > 0 and free + ahead * interval > wait then
      wait, rate = free + ahead * interval, true
    end
  end
  return math.min(wait, most), rate
end

local function take(k, who, id, ms, limit, interval)
  if limit > 0 then
    call('ZADD', KEYS[k], text(now() + ms), who)
    call('PEXPIRE', KEYS[k], ms + 60000)
  end
  if interval > 0 then
    local pace = tonumber(call('HGET', KEYS[k + 2], 'next') or 0)
    local after = math.max(pace, now()) + interval
    call('HSET', KEYS[k + 2], 'next', text(after))
    call('PEXPIRE', KEYS[k + 2], string.format('%.0f', after - now() + 3600000))
  end
  if limit > 0 or interval > 0 then call('ZREM', KEYS[k + 1], id) end
end

local function queue(k, id, wait)
  call('ZADD', KEYS[k + 1], 'NX', text(now() + wait), id)
  call('PEXPIRE', KEYS[k + 1], string.format('%.0f', most + 2 * late))
end

local out = {}
for i = 1, #KEYS / 6 do
  local k = 6 * i - 5
  local who, id, ms = unpack(ARGV, 9 * i - 6, 9 * i - 4)
  local limit, interval, burst, keyLimit, keyInterval, keyBurst = unpack(ARGV, 9 * i - 3, 9 * i + 2)
  limit, interval, keyLimit, keyInterval = tonumber(limit), tonumber(interval), tonumber(keyLimit), tonumber(keyInterval)
  local ofType, typeRate = check(k, who, id, limit, interval, burst)
  local ofKey, keyRate = check(k + 3, who, id, keyLimit, keyInterval, keyBurst)
  local met = 0
  if ofType == 0 and ofKey == 0 then
    take(k, who, id, ms, limit, interval)
    take(k + 3, who, id, ms, keyLimit, keyInterval)
  else
    if ofType > 0 then queue(k, id, ofType) end
    if ofKey > 0 then queue(k + 3, id, ofKey) end
    if ofKey >= ofType then met = keyRate and 4 or 2 else met = typeRate and 3 or 1 end
  end
  out[i] = { math.ceil(math.max(ofType, ofKey)), met }
end
return out
