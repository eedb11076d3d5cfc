package transitions

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// fleet performs runs in this process, one effect after the other, without a
// queue: what a worker does when nothing goes wrong.
type fleet struct {
	t         *testing.T
	catalog   *statemachine.Catalog
	keys      map[string]json.RawMessage // results of business keys
	blobs     map[string][]byte
	performed []string // keys, in order
	now       time.Time
	place     []statemachine.Place // asked for by the machine, in order
}

func newFleet(t *testing.T, c Config) *fleet {
	t.Helper()
	catalog, err := Catalog(c)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{t: t, catalog: catalog, keys: map[string]json.RawMessage{}, blobs: map[string][]byte{}, now: time.Date(2026, 10, 31, 8, 0, 0, 0, time.UTC)}
}

// start begins a run; the error is the refusal of its input.
func (f *fleet) start(machine, run, input string) (*statemachine.Stored, error) {
	return f.apply(machine, run, nil, statemachine.Event{Kind: statemachine.EventStart, Name: machine, Body: json.RawMessage(input)})
}

// run carries a run to its end, or to where it is parked.
func (f *fleet) run(machine, run, input string) *statemachine.Record {
	f.t.Helper()
	r, err := f.start(machine, run, input)
	for err == nil && r.Status == statemachine.StatusRunning {
		r, err = f.apply(machine, run, r, f.perform(r.Pending[0]))
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return r.Record
}

func (f *fleet) apply(machine, run string, from *statemachine.Stored, e statemachine.Event) (*statemachine.Stored, error) {
	f.t.Helper()
	d, ok := f.catalog.Definition(machine, 0)
	if !ok {
		f.t.Fatalf("there is no machine %s", machine)
	}
	f.now = f.now.Add(time.Second)
	fold := d.Begin(run, from, statemachine.Env{Now: f.now, Place: func(*statemachine.Pending) statemachine.Place { return statemachine.Inline }})
	if outcome, err := fold.Apply(e); err != nil || outcome != statemachine.Applied {
		if err == nil {
			f.t.Fatalf("%s of run %s was %v", e.Kind, run, outcome)
		}
		return nil, err
	}
	sealed, err := fold.Seal()
	if err != nil {
		f.t.Fatal(err)
	}
	maps.Copy(f.blobs, sealed.Blobs)
	r, err := statemachine.Decode(sealed.Bytes)
	if err != nil {
		f.t.Fatal(err)
	}
	next := &statemachine.Stored{Record: r, Seq: 1, Bytes: sealed.Bytes}
	if from != nil {
		next.Seq = from.Seq + 1
	}
	return next, nil
}

// perform calls the handler, or finds what the key stands for.
func (f *fleet) perform(p statemachine.Pending) statemachine.Event {
	f.t.Helper()
	f.place = append(f.place, p.Place)
	e := statemachine.Event{Kind: statemachine.EventResult, Effect: p.ID, Try: p.Try}
	if result, ok := f.keys[p.Key]; ok && p.Key != "" {
		e.Body = result
		return e
	}
	h, ok := f.catalog.Handler(p.Effect)
	if !ok {
		f.t.Fatalf("nothing performs %s", p.Effect)
	}
	input := p.Input
	if ref, ok := statemachine.AsBlobRef(input); ok {
		input = f.blobs[ref.Hash]
	}
	f.performed = append(f.performed, p.IdempotencyKey())
	result, err := h.Call(f.t.Context(), p.IdempotencyKey(), input)
	if err != nil {
		e.Kind = statemachine.EventFailure
		e.Cause = &statemachine.Cause{Class: statemachine.ClassOf(err), Message: err.Error()}
		return e
	}
	e.Body = result
	if p.Key != "" {
		f.keys[p.Key] = result
	}
	return e
}
