// Package redisstore keeps the shadow of runs in Redis: their current state,
// the claims on their effects, the tails of their logs, and indexes to find
// them by.
//
// HISTORY is the truth; what is here are copies, and hints and claims that
// name a record. Any of it may vanish at any moment, one key or all of them,
// and be rolled back to an earlier state. So nothing here is ever proof that
// something did not happen, every answer may be "unknown", and every write is
// on the condition that nothing newer is there.
//
// One operation is one Lua script over a batch of runs. DESIGN.md has the
// table of keys, the promise of each script, and what a loss does.
package redisstore
