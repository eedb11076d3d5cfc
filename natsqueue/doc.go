// Package natsqueue speaks JetStream for the fleet: topology, batch fetch,
// conditional and group append, last records, publishing, schedules, letters,
// ledger and blobs. It implements the ports that packages worker, outbox and
// api declare, and is the only one that knows NATS.
//
//	producers ── START ───┐                        ┌── HISTORY   records: the truth
//	anybody ──── SIGNAL ──┤    ┌──────────────┐    ├── BLOBS     values too large for a record
//	fleet ────── EVENTS ──┼──▶ │    worker    │ ──▶┼── EFFECTS   queued effects ──▶ (back in)
//	           ┌ TIMERS ──┤    └──────────────┘    ├── TIMERS    schedules ──▶ due ──▶ (back in)
//	           └ EFFECTS ─┘                        ├── LEDGER    business keys
//	                                               ├── DLQ       letters
//	                                               ├── FINISHED  ends of runs ──▶ anybody
//	                                               └── MACHINES  which definitions there are
//
// Provision makes all of it; Open binds to it and makes nothing. DESIGN.md in
// this directory has the tables of subjects and streams, what every answer to
// an append means, and the traps.
//
// Rules that hold throughout:
//
//   - Every request has a deadline, and every outcome that is not plain is
//     decided by reading from the stream's leader, never assumed.
//   - What is sent again must be harmless twice: it is guarded by an expected
//     sequence, replaces itself, or is recognised by its reader.
//   - Subjects are made in subject.go and nowhere else. A run appears in them
//     as its token, so no id is a pattern, or two tokens.
//   - Headers only help those who look: whatever is relied on is in the body.
package natsqueue
