// Package worker drives runs: it turns wake-ups into committed records and
// performed effects.
//
// Every message is a wake-up for one run. A run belongs to one lane of a
// worker; a lane takes what is there, a few hundred runs at a time, and does
// each step of the protocol for all of them together:
//
//	 messages   results of handlers
//	    └──────────┴─▶ slot of the run
//	load     Redis copy, else last record, else empty; never older than the lane has seen
//	flush    the outbox of the record before, unless it is known to be published
//	fold     events and results, one after the other, into one record
//	append   conditionally: THE commit. Lost: fold again on what won
//	perform  at once if the append was sent less than F ago; else claim, THEN look, then call
//	publish  the outbox
//	settle   a message may be acked iff it is applied, flushed, and nothing inline waits for it
//	save     beside the lane: Redis copy if newer, with claims of what was called; hints; acks
//
// Rules that are not negotiable (the numbers are DESIGN.md's invariants):
//
//   - Nothing is published and no handler is called before its record is
//     acknowledged or read back (I4).
//   - A result in hand is never dropped because an append was lost: it is
//     applied again to the fresh state while its effect is pending.
//   - A message is never acked because somebody else won, or holds the claim
//     (I6). Acks rest on facts that stay true, so even an old copy may say so.
//   - A copy older than "asked" may say neither "not pending" nor "inline".
//   - Only a holder of an effect's wake, or the sweeper, goes on with it.
//   - A claim is let go only after the record that answers its effect.
//
// Time in the protocol: a committer may call a handler within F = AckWait/3 of
// sending its append; others leave a record alone until it is older than
// G = 2/3 AckWait, so the claim of what was called may follow the call; a
// claim's lease is G, taken or renewed every AckWait/6.
package worker
