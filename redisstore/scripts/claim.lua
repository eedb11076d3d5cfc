-- Promise: each effect that nobody holds is claimed; when renewing, one that
--          its owner holds is prolonged, too. A claim of a run that this Redis
--          does not know goes with its hash after a while.
-- KEYS:    per claim: the run's hash
-- ARGV:    1 when renewing, ms that a hash without a record stays; per claim:
--          field, "<owner> ", lease in ms
-- Returns: per claim 0, or how many ms another's lease still runs
local out = {}
for i = 1, #KEYS do
  local field, owner, ms = unpack(ARGV, 3 * i, 3 * i + 2)
  local old = call('HMGET', KEYS[i], 'head', field)
  local rest = left(old[2])
  if ARGV[1] == '1' and owns(old[2], owner) then rest = 0 end
  if rest == 0 then
    call('HSET', KEYS[i], field, lease(ms, owner .. '- '))
    if not old[1] then call('PEXPIRE', KEYS[i], ms + ARGV[2]) end
  end
  out[i] = rest
end
return out
