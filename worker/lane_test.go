package worker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// delivery notes how a message was answered.
type delivery struct{ acks, naks int }

func (d *delivery) Ack() error              { d.acks++; return nil }
func (d *delivery) Nak(time.Duration) error { d.naks++; return nil }
func (d *delivery) Beat() error             { return nil }

// bareLane is a lane without any ports: whatever it asks of one panics.
func bareLane() *lane {
	cfg := Config{ID: "w"}.withDefaults()
	w := &Worker{cfg: cfg, catalog: new(statemachine.Catalog), log: slog.New(slog.DiscardHandler), metrics: newMetrics(prometheus.NewRegistry(), new(statemachine.Catalog)),
		health: newHealth(func(string, error) {}), stop: make(chan struct{}), work: tContext{}}
	return newLane(w)
}

// tContext never ends.
type tContext struct{}

func (tContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (tContext) Done() <-chan struct{}       { return nil }
func (tContext) Err() error                  { return nil }
func (tContext) Value(any) any               { return nil }

// A fault of the worker's own that one run brings out is contained: the lane
// lives, and the messages of the run are given back.
func TestAPanicInALaneSetsItsRunAside(t *testing.T) {
	l := bareLane()
	g := newGate(10)
	var ds []*delivery
	active := map[string]*slot{}
	for _, run := range []string{"a", "b"} {
		d := &delivery{}
		ds = append(ds, d)
		if got := g.take(t.Context(), 1); got != 1 {
			t.Fatal(got)
		}
		l.accept(item{run: run, held: &held{gate: g, m: queue.Message{Kind: queue.Signal, Run: run, Delivery: d}}}, active)
	}
	l.guarded(t.Context(), active) // Shadow is nil
	for i, d := range ds {
		if d.acks != 0 || d.naks != 1 {
			t.Errorf("message %d: %d acks and %d naks, want it given back once", i, d.acks, d.naks)
		}
	}
	if len(l.slots) != 0 || g.free != 10 {
		t.Errorf("%d slots are left and %d of 10 are free", len(l.slots), g.free)
	}
}

// A run that has ended is judged without its machine: nothing can move it.
func TestAnEndedRunNeedsNoMachine(t *testing.T) {
	l := bareLane()
	for _, status := range []statemachine.Status{statemachine.StatusSucceeded, statemachine.StatusFailed, statemachine.StatusCancelled} {
		r := &statemachine.Stored{Seq: 3, Record: &statemachine.Record{V: 1, Run: "r", Machine: "gone", Version: 1, Rev: 2, Status: status, Input: statemachine.Fingerprint("gone", []byte(`{"a":1}`))}}
		s := &slot{run: "r", known: true, state: r}
		def := l.definition(t.Context(), s)
		if def == nil {
			t.Fatalf("%s: no definition", status)
		}
		tests := []struct {
			e    statemachine.Event
			want statemachine.Outcome
		}{
			{statemachine.Event{Kind: statemachine.EventStart, Name: "gone", Body: []byte(`{ "a": 1 }`)}, statemachine.Duplicate},
			{statemachine.Event{Kind: statemachine.EventStart, Name: "gone", Body: []byte(`{"a":2}`)}, statemachine.Conflict},
			{statemachine.Event{Kind: statemachine.EventSignal, ID: "signal:x", Name: "x"}, statemachine.Ended},
			{statemachine.Event{Kind: statemachine.EventResult, Effect: "e"}, statemachine.Stale},
			{statemachine.Event{Kind: statemachine.EventDue, Effect: "e", Try: 2}, statemachine.Stale},
		}
		for _, tt := range tests {
			f := def.Begin("r", r, statemachine.Env{Now: time.Now()})
			if got, err := f.Apply(tt.e); err != nil || got != tt.want {
				t.Errorf("%s, %s: %v, %v, want %v", status, tt.e.Kind, got, err, tt.want)
			}
		}
	}
}

// A gate counts what it is given beyond what was asked for.
func TestGateCountsSurplus(t *testing.T) {
	g := newGate(4)
	n := g.take(t.Context(), 3)
	g.put(n - 5) // five came
	if g.free != -1 {
		t.Errorf("free = %d, want -1", g.free)
	}
	for range 5 {
		g.put(1)
	}
	if g.free != 4 {
		t.Errorf("free = %d, want 4", g.free)
	}
}

// A dependency that answers reads and refuses writes is not ready, and is
// tried again after ever longer waits; a write that works resets that.
func TestHealthIsShownByWork(t *testing.T) {
	said := map[string]error{}
	h := newHealth(func(name string, err error) { said[name] = err })
	boom := statemachine.Terminal("x", nil)
	last := time.Duration(0)
	for i := range 6 {
		h.fail(onNATS, boom)
		if said[onNATS] == nil {
			t.Fatal("it is said to be well")
		}
		_, in, trial, _ := h.next()
		if trial {
			t.Fatal("it is on trial before anybody asked it")
		}
		if i > 3 && in < last/4 {
			t.Errorf("wait %d is %s after %s: they do not grow", i, in, last)
		}
		last = in
		h.try(onNATS)
		if !h.well(t.Context()) || said[onNATS] == nil {
			t.Fatal("on trial it should be pulled from, and not be ready")
		}
	}
	if !h.worked(onNATS) || said[onNATS] != nil || h.worked(onNATS) {
		t.Error("a write that worked should make it well, once")
	}
	h.fail(onNATS, boom)
	if _, in, _, _ := h.next(); in > 400*time.Millisecond {
		t.Errorf("the first wait is %s after it was well: it was not reset", in)
	}
}
