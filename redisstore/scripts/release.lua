-- Promise: each claim that its owner holds is gone.
-- KEYS:    per claim: the run's hash
-- ARGV:    per claim: field, "<owner> "
-- Returns: per claim 1 if it was held by the owner, else 0
local out = {}
for i = 1, #KEYS do
  local field, owner = ARGV[2 * i - 1], ARGV[2 * i]
  local held = owns(call('HGET', KEYS[i], field), owner)
  if held then call('HDEL', KEYS[i], field) end
  out[i] = held and 1 or 0
end
return out
