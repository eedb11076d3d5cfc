package statemachine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	sm "github.com/pawlrun/pawl/statemachine"
)

// drawEvents draws events that may or may not fit what is pending.
func drawEvents(t *rapid.T, from *sm.Stored, start sm.Event) []sm.Event {
	n := rapid.IntRange(1, 6).Draw(t, "events")
	var events []sm.Event
	for range n {
		e := sm.Event{At: t1.Add(time.Duration(len(events)) * time.Millisecond)}
		e.Kind = rapid.SampledFrom([]sm.EventKind{
			sm.EventSignal, sm.EventSignal, sm.EventResult, sm.EventFailure, sm.EventDue, sm.EventQueue, sm.EventStart,
			sm.EventPause, sm.EventPause, sm.EventResume, sm.EventResume, sm.EventRedrive, sm.EventCancel,
		}).Draw(t, "kind")
		at := 0
		if len(from.Pending) > 0 {
			at = rapid.IntRange(0, len(from.Pending)-1).Draw(t, "effect")
			e.Effect, e.Try = from.Pending[at].ID, from.Pending[at].Try+rapid.IntRange(-1, 1).Draw(t, "try")
		}
		if len(from.Waits) > 0 && rapid.IntRange(0, 3).Draw(t, "wait") == 0 {
			w := from.Waits[rapid.IntRange(0, len(from.Waits)-1).Draw(t, "which wait")]
			e.Effect, e.Try = w.ID, w.Try
		}
		switch e.Kind {
		case sm.EventSignal:
			e.ID, e.Name = sm.SignalEventID(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id"))), "s"
		case sm.EventStart:
			e = start
		case sm.EventResult:
			e.Body = rapid.SampledFrom(results(from, at)).Draw(t, "result")
		case sm.EventFailure:
			e.Cause = &sm.Cause{Class: rapid.SampledFrom([]string{"http", "declined", "full"}).Draw(t, "class")}
			if rapid.Bool().Draw(t, "retry") {
				e.RetryAt = &t3
			}
			e.Free = rapid.Bool().Draw(t, "free")
		case sm.EventCancel, sm.EventPause, sm.EventResume, sm.EventRedrive:
			e.ID = sm.CommandEventID(fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "id")))
			if e.Kind == sm.EventCancel && rapid.IntRange(0, 3).Draw(t, "really") > 0 {
				e.Kind = sm.EventPause
			}
		case sm.EventDue:
			e.At = rapid.SampledFrom([]time.Time{t1, t3}).Draw(t, "at")
		}
		events = append(events, e)
	}
	return events
}

// results returns results that fit what is pending, and one that does not.
func results(from *sm.Stored, at int) []json.RawMessage {
	if len(from.Pending) > 0 && from.Pending[at].Effect == "card.pay" {
		return []json.RawMessage{[]byte(`{"ok":true}`), []byte(`{"ok":false}`), []byte(`[]`)}
	}
	if from.Machine == "trip" || from.Machine == "batch" {
		return []json.RawMessage{[]byte(`"a"`), []byte(`"b"`), []byte(`"c"`), []byte(`[]`)}
	}
	return []json.RawMessage{[]byte(`1`), []byte(`2`)}
}

// TestFoldProperties drives a run with any events, some of which make no
// sense, and folds each batch twice: together into one record, and one by one
// into a record each. Both ways the outcomes and the state are the same, ids
// of effects among it; and the records of the run form a chain.
func TestFoldProperties(t *testing.T) {
	t.Parallel()
	t.Run("order", func(t *testing.T) { foldProperties(t, orders().Definitions()[0], startEvent(`{"id":"o1","total":12}`)) })
	t.Run("each", func(t *testing.T) {
		d := batchMachine(eaches(3).Tolerate(1), func(s *sm.State[batch]) { s.Catch("declined", "lost").Within(time.Minute, "lost") })
		foldProperties(t, d, startEvent(`{"n":6}`))
	})
	t.Run("all", func(t *testing.T) {
		foldProperties(t, batchMachine(sm.All(branches()...), func(s *sm.State[batch]) { s.Catch("declined", "lost").Forever() }), startEvent(`{}`))
	})
	t.Run("first", func(t *testing.T) {
		foldProperties(t, batchMachine(sm.FirstN(2, branches()...), func(s *sm.State[batch]) { s.Catch("declined", "lost").Within(time.Minute, "lost") }), startEvent(`{}`))
	})
	t.Run("trip", func(t *testing.T) { foldProperties(t, trips().Definitions()[0], startEvent(`{"id":"t1"}`)) })
}

func foldProperties(t *testing.T, d *sm.Definition, start sm.Event) {
	rapid.Check(t, func(t *rapid.T) {
		place := rapid.SampledFrom([]sm.Place{sm.Inline, sm.Queued}).Draw(t, "place")
		e := sm.Env{Now: t0, Place: func(*sm.Pending) sm.Place { return place }}
		var last *sm.Stored
		for range rapid.IntRange(1, 8).Draw(t, "records") {
			events := []sm.Event{start}
			if last != nil {
				events = drawEvents(t, last, start)
			}
			together, ot := fold(t, d, last, e, events)
			single, os := last, []string(nil)
			for _, ev := range events {
				next, o := fold(t, d, single, e, []sm.Event{ev})
				os = append(os, o...)
				if next != nil {
					checkChain(t, single, next)
					single = next
				}
			}
			if diff := cmp.Diff(ot, os); diff != "" {
				t.Fatalf("outcomes of %v (-together +one by one):\n%s", events, diff)
			}
			if together == nil {
				continue
			}
			if diff := cmp.Diff(state(together), state(single), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("state after %v (-together +one by one):\n%s", events, diff)
			}
			checkChain(t, last, together)
			if err := d.Refold(last, together.Record, nil); err != nil {
				t.Fatalf("Refold: %v", err)
			}
			last = together
		}
	})
}

// fold folds events into one record; nil if none was applied.
func fold(t *rapid.T, d *sm.Definition, from *sm.Stored, e sm.Env, events []sm.Event) (*sm.Stored, []string) {
	f := d.Begin("r1", from, e)
	var outcomes []string
	applied := false
	for _, ev := range events {
		o, err := f.Apply(ev)
		switch {
		case err != nil:
			outcomes = append(outcomes, sm.ClassOf(err))
		default:
			outcomes = append(outcomes, o.String())
			applied = applied || o == sm.Applied
		}
	}
	if !applied {
		return nil, outcomes
	}
	s, err := f.Seal()
	if err != nil {
		t.Fatalf("Seal: %v", err)
	}
	r, err := sm.Decode(s.Bytes)
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	seq := uint64(1)
	if from != nil {
		seq = from.Seq + 3
	}
	return &sm.Stored{Record: r, Seq: seq, Bytes: s.Bytes}, outcomes
}

// state is what a record holds apart from how it came about.
func state(s *sm.Stored) sm.Record {
	r := *s.Record
	r.Rev, r.Prev, r.PrevTxid, r.Txid, r.At, r.From, r.Started = 0, 0, "", "", time.Time{}, "", time.Time{}
	r.Events, r.Adds, r.Outbox = nil, nil, nil
	r.Logs = maps.Clone(r.Logs)
	for name, ref := range r.Logs {
		ref.After = 0
		r.Logs[name] = ref
	}
	r.Pending = slices.Clone(r.Pending)
	for i := range r.Pending {
		r.Pending[i].Rev, r.Pending[i].At = 0, time.Time{}
	}
	return r
}

// checkChain checks a record against the one before.
func checkChain(t *rapid.T, prev, next *sm.Stored) {
	want := sm.Record{Rev: 1}
	if prev != nil {
		want = sm.Record{Rev: prev.Rev + 1, Prev: prev.Seq, PrevTxid: prev.Txid, From: prev.To}
		if next.At.Before(prev.At) || !next.Started.Equal(prev.Started) {
			t.Fatalf("time goes back: %v after %v", next.At, prev.At)
		}
	}
	if next.Rev != want.Rev || next.Prev != want.Prev || next.PrevTxid != want.PrevTxid || next.From != want.From {
		t.Fatalf("record %d of prev %d, %s from %q does not follow record %+v", next.Rev, next.Prev, next.PrevTxid, next.From, want)
	}
	if !sm.VerifyTxid(next.Bytes) {
		t.Fatalf("txid of %s", next.Bytes)
	}
	if next.To != next.Frames[0].State || next.Status.Ended() && len(next.Pending) > 0 {
		t.Fatalf("state %s, frame %+v, %d pending", next.To, next.Frames[0], len(next.Pending))
	}
	ends := slices.IndexFunc(next.Outbox, func(e sm.Entry) bool { return e.Kind == sm.EntryFinished }) >= 0
	if ends != next.Status.Ended() || next.Status == sm.StatusRunning && next.Cause != nil {
		t.Fatalf("status %s, cause %+v, outbox %+v", next.Status, next.Cause, next.Outbox)
	}
	for _, p := range next.Pending {
		if (p.Place == sm.Inline) != (p.Wake != "") || (p.Place == sm.Retry) != (p.RetryAt != nil) {
			t.Fatalf("pending %+v: a wake is for inline effects, a time for those that wait", p)
		}
		startable := p.Place == sm.Inline || p.Place == sm.Queued
		if next.Status == sm.StatusPaused && startable || next.Status != sm.StatusPaused && p.Place == sm.Held {
			t.Fatalf("the run is %s, and an effect %s", next.Status, p.Place)
		}
		if p.Place == sm.Parked && next.Status == sm.StatusRunning || p.Place == sm.Queued && p.Rev == next.Rev && !told(next, p.ID) {
			t.Fatalf("pending %+v of a run that is %s, outbox %+v", p, next.Status, next.Outbox)
		}
	}
}

// told reports whether a record sends the message of an effect, once.
func told(r *sm.Stored, effect string) bool {
	n := 0
	for _, e := range r.Outbox {
		if e.Kind == sm.EntryEffect && e.ID == effect {
			n++
		}
	}
	return n == 1
}
