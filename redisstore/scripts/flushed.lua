-- Promise: each hint is noted if the run's record is the one that it names.
-- KEYS:    per hint: the run's hash
-- ARGV:    per hint: txid
-- Returns: per hint 1 if it was noted, else 0
local out = {}
for i = 1, #KEYS do
  local fits = ofTxid(call('HGET', KEYS[i], 'head'), ARGV[i])
  if fits then call('HSET', KEYS[i], 'flushed', ARGV[i]) end
  out[i] = fits and 1 or 0
end
return out
