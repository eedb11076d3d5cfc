// Package pawltest runs machines in tests: in memory, with scripted effects
// and a clock that jumps over every wait.
//
// A run is driven as a worker drives it: every event is folded into a record,
// which is encoded and read back before the next, so that a test finds what a
// fleet would find. When a run has come to rest, each of its records is folded
// again; if another one comes out, the test fails: a callback uses something
// that is not recorded, such as the clock or the order of a map.
//
// [CrashEverywhere] runs a machine once for each of its events and each thing
// that may befall a fleet there: a worker that dies, a message that comes twice,
// late, early or in another order.
package pawltest
