package worker

import (
	"testing"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// A lane never goes back to a state older than one it has seen: what it
// remembers of a run goes when it lets go of a newer one.
func TestMemoryHoldsNothingOlderThanWhatWasSeen(t *testing.T) {
	t.Parallel()
	state := func(seq uint64, place statemachine.Place) *slot {
		return &slot{run: "a", state: &statemachine.Stored{Seq: seq, Record: &statemachine.Record{Pending: []statemachine.Pending{{ID: "e", Place: place}}}}}
	}
	effect := &held{m: queue.Message{Kind: queue.Effect, ID: "e", Asked: 10}}
	var m memory
	m.keep(state(10, statemachine.Queued))
	m.keep(state(11, statemachine.Held))
	s := &slot{run: "a"}
	if m.recall(s, effect); s.state != nil {
		t.Errorf("recall = the record at %d, want nothing: 11 was seen", s.state.Seq)
	}
	m.keep(state(10, statemachine.Queued))
	if m.recall(s, effect); s.state == nil {
		t.Error("recall = nothing, want what the message asks for")
	}
}
