// Package crash names the points of the code at which a worker may die, so that
// tests can have it die at each of them.
//
// A binary that is built with the tag crashpoints looks at its environment:
//
//	PAWL_CRASH=POINT:ACTION[:N]   what happens when the point is reached for the
//	                              Nth time, from 1: exit (as by kill -9), stop
//	                              (the process, until it is sent SIGCONT), error
//	                              (what was done answers with one)
//	PAWL_CRASH_HITS=FILE          gets a line with the point at each time it is
//	                              reached, before anything happens
//
// Without the tag, a point is nothing.
package crash

import "slices"

// Points are all names, in the order of the protocol.
func Points() []string { return slices.Clone(points) }

var points = []string{
	"turn.received",     // messages are in hand, nothing is known of their runs
	"turn.loaded",       // the states of the runs are known
	"turn.flushed",      // the outboxes of the records before are published
	"turn.folded",       // the next records are made
	"append.sent",       // they are stored, and nobody here knows
	"turn.committed",    // they are known to be stored, nothing was done for them
	"turn.called",       // inline handlers were started, their claims are not written
	"resume.claimed",    // effects that nobody performs are claimed
	"resume.looked",     // and still pending, by HISTORY
	"ledger.claimed",    // a try is noted in the ledger
	"call.returned",     // the handler returned
	"ledger.left",       // what came of it is noted in the ledger
	"outbox.published",  // an outbox is published, nobody notes that
	"save.begun",        // copies are about to be written to Redis
	"save.written",      // they are, hints are not
	"ack.begun",         // messages are about to be acknowledged
	"ack.sent",          // they are
	"line.put",          // a start that waits is in its line, and still where it was
	"disarm.begun",      // schedules are about to be taken away
	"letter.stored",     // a letter is stored, what it is about is not acknowledged
	"sweep.begun",       // the sweeper looks at what it may mend
	"sweep.claimed",     // it has claimed inline effects that nobody performs
	"sweep.appended",    // and recorded that the fleet performs them
	"rebuild.partition", // a partition of Redis is about to be written again
}
