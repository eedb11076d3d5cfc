package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// began is when all runs of the suite began.
var began = time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)

// Stored makes the record that a run has at a stream sequence: in state
// "step" of machine "demo", running, a minute after the one before. Change
// changes it before it is encoded.
func Stored(tb testing.TB, run string, seq uint64, change ...func(*statemachine.Record)) *statemachine.Stored {
	tb.Helper()
	r := &statemachine.Record{
		V: statemachine.FormatVersion, Run: run, Machine: "demo", Version: 1, Def: "def",
		Rev: seq, Prev: seq - 1, At: began.Add(time.Duration(seq%1000) * time.Minute), Started: began,
		Events: []statemachine.Event{{ID: "start", Kind: statemachine.EventStart, At: began}},
		To:     "step", Status: statemachine.StatusRunning, Input: "print",
		Frames: []statemachine.Frame{{Kind: statemachine.FrameRoot, State: "step", Visit: 1}},
	}
	for _, c := range change {
		c(r)
	}
	b, err := statemachine.Encode(r)
	if err != nil {
		tb.Fatalf("encode record of run %q: %v", run, err)
	}
	return &statemachine.Stored{Record: r, Seq: seq, Bytes: b}
}

// In puts a record into a state and status.
func In(state string, status statemachine.Status) func(*statemachine.Record) {
	return func(r *statemachine.Record) { r.To, r.Status = state, status }
}

// Adding has a record add items to a log, which has count of them then and
// the first sealed ones in chunks.
func Adding(log string, count, sealed int, items ...string) func(*statemachine.Record) {
	return func(r *statemachine.Record) {
		if r.Logs == nil {
			r.Logs = make(map[string]statemachine.LogRef)
			r.Adds = make(map[string][]json.RawMessage)
		}
		r.Logs[log] = statemachine.LogRef{Count: count, Sealed: sealed}
		for _, i := range items {
			r.Adds[log] = append(r.Adds[log], json.RawMessage(i))
		}
	}
}
