// Package model searches every state of the commit protocol that a small
// world can reach, and says which property breaks, if one does. It shares no
// code with the worker: it is the protocol written a second time, so that the
// rules can be tried, and removed one by one, where all interleavings are
// seen. docs/model.md has the settings, the figures and what is left out.
//
// # The protocol
//
//	message M ─► load ──► flush ──► fold ──► append ──► at once ─► start ───► publish ─► hint ──► settle
//	 (Ma Mb X T)  copy,    last      events   expected   own asks:  others':   own                  ack what
//	              own      record's  and      seq, one   call       claim,     outbox               may be,
//	              memory,  outbox    results  record      ┊         look, call                      keep or
//	              HISTORY                                 ┊           │                             give back
//	                ▲         └────────── refused, no answer: read HISTORY                           ▲
//	                └─ the copy is older than what a message asks about                              ┊
//	                                                      ┊                                          ┊
//	                              beside the lane, Redis: copy, claims of what was called, releases ┄┘
//
// A pending effect stands in a place of the record, which says what wakes it:
//
//		          ask               let go, drain, sweep          result
//		unasked ───────► inline ──────────────────────► queued ───────────► answered
//		                   │     failure      ┌───────────▲ │
//		                   └──────────► retry ┘ T(e) fires  │ last failure
//		                                 ▲──────────────────┤
//		                                      failure       └─────────────► parked
//
//	  - inline: a message with the effect's wake id, the id of the event that
//	    asked for it, inherited along the results of inline effects.
//	  - queued: X(e), whose wake id is e. What e's result asks inline has wake e.
//	  - retry: T(e), the due message of the failed attempt's schedule. What a
//	    result asks for that meets its effect here is asked queued (ADR 1).
//
// X and T carry asked, the sequence of the record whose outbox they stand in:
// a copy older than that has no say. A message is acked if the loaded record
// has what it brings, is flushed, and has no inline effect that it wakes.
//
// # The world
//
// One run, two workers with one lane each, handlers beside the lane. Free and
// unlimited: delivery of any unacked message to any worker, giving back, slow
// workers, lost PubAcks, lost acks, claims that nobody renews running out.
// Bounded by a Budget: Redis losing copies, hints or claims, crashes, claims
// running out under a holder at work, acks the server forgets, appends that
// land late, SIGTERM, the sweeper and letting go, re-driven starts, failed
// attempts. The lanes remember what they saw; the copy in Redis may be any.
//
// A second, smaller model (BatchSetting) covers group commit over two runs.
//
// # Searching
//
// A state is a few dozen comparable bytes: the chain is one number in a tree
// of all chains met. Three things are merged: the two workers, which are
// interchangeable; records nobody can come back to; and steps of a lane that
// neither see nor change anything shared. The search is breadth first, so the
// trace of a violation is a shortest one, and exact: states are compared, not
// only hashed.
//
//	go test ./internal/model                     the settings of every change, whole
//	go test ./internal/model -short              the small ones, as under -race
//	go test ./internal/model -v                  with the tables
//	go test ./internal/model -run TestProtocol -v -timeout 6h -model.all [-model.limit 34000000]
//	go test ./internal/model -v -model.only Q1b,N5 -model.trace
//
// A search cut by the limit says "as far as searched", and is one for safety
// only: completion is checked of whole searches.
package model
