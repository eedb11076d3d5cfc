package worker

import (
	"testing"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// The rule of acks (I6), case by case: the state a lane has, the message it
// holds, and whether the message may go.
func TestMayAck(t *testing.T) {
	inline := statemachine.Pending{ID: "e1", Place: statemachine.Inline, Wake: statemachine.StartEventID, Try: 1}
	inlineOfE0 := statemachine.Pending{ID: "e1", Place: statemachine.Inline, Wake: statemachine.EffectWake("e0"), Try: 1}
	queued := statemachine.Pending{ID: "e1", Place: statemachine.Queued, Try: 1}
	retry := statemachine.Pending{ID: "e1", Place: statemachine.Retry, Try: 2}
	parked := statemachine.Pending{ID: "e1", Place: statemachine.Parked, Try: 5}
	entry := []statemachine.Entry{{Kind: statemachine.EntryEffect, ID: "e1"}}

	start := func(known bool) *held {
		return &held{m: queue.Message{Kind: queue.Start}, wake: statemachine.StartEventID, known: known, event: &statemachine.Event{ID: "start", Kind: statemachine.EventStart}}
	}
	x := func(id string, asked uint64) *held {
		return &held{m: queue.Message{Kind: queue.Effect, ID: id, Asked: asked}, wake: statemachine.EffectWake(id)}
	}
	due := func(try int, asked uint64) *held {
		return &held{m: queue.Message{Kind: queue.Due, ID: "e1", Try: try, Asked: asked}, event: &statemachine.Event{Kind: statemachine.EventDue, Effect: "e1", Try: try}}
	}
	state := func(outbox []statemachine.Entry, pending ...statemachine.Pending) *statemachine.Stored {
		return &statemachine.Stored{Seq: 10, Record: &statemachine.Record{Txid: "t", Pending: pending, Outbox: outbox, Applied: []string{"signal:a"}}}
	}
	signal := func(id string) *held {
		return &held{m: queue.Message{Kind: queue.Signal}, wake: id, event: &statemachine.Event{ID: id, Kind: statemachine.EventSignal}}
	}
	tests := []struct {
		name    string
		state   *statemachine.Stored
		flushed string
		h       *held
		want    bool
	}{
		{"no record yet", nil, "", start(true), false},
		{"start applied, nothing pending", state(nil), "", start(true), true},
		{"start not compared with the run yet", state(nil), "", start(false), false},
		{"start applied, its inline effect pending (M1)", state(nil, inline), "", start(true), false},
		{"start applied, its effect queued", state(nil, queued), "", start(true), true},
		{"start applied, outbox not flushed", state(entry, queued), "", start(true), false},
		{"… and flushed", state(entry, queued), "t", start(true), true},
		{"… and another record's outbox flushed", state(entry, queued), "u", start(true), false},
		{"an inline effect of another wake", state(nil, inlineOfE0), "", start(true), true},
		{"effect pending queued", state(nil, queued), "", x("e1", 10), false},
		{"effect answered", state(nil), "", x("e1", 10), true},
		{"effect answered, on a copy older than asked (N3)", state(nil), "", x("e1", 11), false},
		{"effect answered, what follows inline (N2)", state(nil, inlineOfE0), "", x("e0", 10), false},
		{"effect waits for its next try", state(nil, retry), "", x("e1", 10), true},
		{"effect given up", state(nil, parked), "", x("e1", 10), true},
		{"timer of this try", state(nil, retry), "", due(2, 10), false},
		{"timer of a try before", state(nil, retry), "", due(1, 10), true},
		{"timer, on a copy older than asked", state(nil), "", due(2, 11), false},
		{"timer, effect queued again", state(nil, queued), "", due(2, 10), true},
		{"signal applied", state(nil), "", signal("signal:a"), true},
		{"signal not applied", state(nil), "", signal("signal:b"), false},
		{"letter stored", state(entry), "", &held{spent: true}, true},
	}
	for _, tt := range tests {
		s := &slot{run: "r", known: true, state: tt.state, flushed: tt.flushed}
		if got := s.mayAck(tt.h); got != tt.want {
			t.Errorf("%s: mayAck = %v, want %v", tt.name, got, tt.want)
		}
	}
}
