package statemachine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sm "github.com/pawlrun/pawl/statemachine"
)

// TestPlace checks who decides where an effect is performed.
func TestPlace(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	var asked []sm.Pending
	e := env()
	e.Place = func(p *sm.Pending) sm.Place { asked = append(asked, *p); return sm.Queued }
	f := d.Begin("r1", nil, e)
	if _, err := f.Apply(startEvent(`{"id":"o1"}`)); err != nil {
		t.Fatal(err)
	}
	if got := seal(t, f); got.Pending[0].Place != sm.Queued || got.Pending[0].Wake != "" || len(got.Outbox) != 1 {
		t.Errorf("the worker's choice is not kept: %+v", got.Pending[0])
	}
	if len(asked) != 1 || asked[0].Wake != "start" || asked[0].Effect != "card.pay" || asked[0].Timeout == 0 {
		t.Errorf("the worker was asked %+v, want once, with the wake it would have", asked)
	}
	f = d.Begin("r1", nil, sm.Env{Now: t2})
	if _, err := f.Apply(startEvent(`{"id":"o1"}`)); err != nil {
		t.Fatal(err)
	}
	if got := seal(t, f); got.Pending[0].Place != sm.Queued {
		t.Errorf("without a choice the place is %q, want queued", got.Pending[0].Place)
	}
	// A call that is to be queued is, whatever the worker says.
	from := before(sm.Inline)
	from.Data = json.RawMessage(`{"id":"o1","total":1000}`)
	m := sm.New[order]("order", 1)
	m.State("pay", sm.Call(pay, (*order).payment, (*order).paid))
	m.State("ship", sm.Call(ship, (*order).id, (*order).shipped).Queued())
	m.Succeed("done")
	f = m.Definitions()[0].Begin("r1", from, env())
	if _, err := f.Apply(resultEvent()); err != nil {
		t.Fatal(err)
	}
	if got := seal(t, f); got.Pending[0].Place != sm.Queued {
		t.Errorf("place = %q, want queued", got.Pending[0].Place)
	}
}

// TestFaults checks that an event the machine cannot take leaves the fold as
// it was.
func TestFaults(t *testing.T) {
	t.Parallel()
	panicking := before(sm.Inline)
	panicking.Data = json.RawMessage(`{"id":"o1","total":12,"panic":"paid"}`)
	foreign := before(sm.Inline)
	foreign.Frames[0].State = "gone"
	wrong := resultEvent()
	wrong.Body = json.RawMessage(`{"ok":"yes"}`)
	tests := []struct {
		name  string
		from  *sm.Stored
		event sm.Event
		class string
		text  string
	}{
		{"unknown field", nil, startEvent(`{"id":"o1","totl":3}`), sm.ClassInvalidInput, `unknown field "totl"`},
		{"wrong type", nil, startEvent(`{"id":"o1","total":"3"}`), sm.ClassInvalidInput, "field total: string given where int is expected"},
		{"trailing value", nil, startEvent(`{"id":"o1"} {}`), sm.ClassInvalidInput, ""},
		{"refused by Validate", nil, startEvent(`{"id":"o1","total":-1}`), sm.ClassRefused, "total is negative"},
		{"panic at the start", nil, startEvent(`{"panic":"payment"}`), sm.ClassPanic, "payment went wrong (machines_test.go:"},
		{"panic on a result", panicking, resultEvent(), sm.ClassPanic, "in state pay: paid went wrong (machines_test.go:"},
		{"result of a wrong type", before(sm.Queued), wrong, sm.ClassInvalidResult, "in state pay"},
		{"state that is gone", foreign, resultEvent(), sm.ClassUnknownState, "in state gone"},
	}
	d := orders().Definitions()[0]
	for _, tt := range tests {
		f := d.Begin("r1", tt.from, env())
		_, err := f.Apply(tt.event)
		if sm.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: Apply = %v, want class %s and %q", tt.name, err, tt.class, tt.text)
		}
		if _, err := f.Seal(); err == nil {
			t.Errorf("%s: Seal after a refused event alone gave a record", tt.name)
		}
		f = d.Begin("r1", tt.from, env())
		if _, err := f.Apply(tt.event); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
		next := signalEvent("s1")
		if tt.from == nil {
			next = startEvent(`{"id":"o1"}`)
		}
		if o, err := f.Apply(next); o != sm.Applied || err != nil {
			t.Fatalf("%s: Apply of the next event = %v, %v", tt.name, o, err)
		}
		clean := d.Begin("r1", tt.from, env())
		if _, err := clean.Apply(next); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(seal(t, clean), seal(t, f)); diff != "" {
			t.Errorf("%s: the refused event left traces (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestCatchThatPanics checks that giving up always works: where the failure is
// caught the machine panics, so the run is parked.
func TestCatchThatPanics(t *testing.T) {
	t.Parallel()
	m := sm.New[order]("order", 1)
	m.State("pay", sm.Call(pay, (*order).payment, (*order).paid)).Catch("*", "again")
	m.State("again", sm.Call(pay, func(*order) payment { panic("not again") }, nil))
	m.Succeed("done")
	d := m.Definitions()[0]
	f := d.Begin("r1", before(sm.Queued), env())
	if o, err := f.Apply(failureEvent(2, nil, "http")); o != sm.Applied || err != nil {
		t.Fatalf("Apply = %v, %v, want applied", o, err)
	}
	got := seal(t, f)
	if got.Status != sm.StatusParked || got.Pending[0].Place != sm.Parked || got.Frames[0].State != "pay" {
		t.Errorf("run is %s in %s, want parked in pay", got.Status, got.To)
	}
	if want := "no; where it is caught: panic"; !strings.HasPrefix(got.Cause.Message, want) || got.Cause.Class != "http" {
		t.Errorf("cause = %+v, want class http, message %q…", got.Cause, want)
	}
}

// TestMoves checks that a machine which never rests is stopped.
func TestMoves(t *testing.T) {
	t.Parallel()
	m := sm.New[order]("order", 1)
	m.Decide("a").Then("b")
	m.Decide("b").Then("a")
	_, err := m.Definitions()[0].Begin("r1", nil, env()).Apply(startEvent(`{}`))
	if sm.ClassOf(err) != sm.ClassTooManyMoves {
		t.Errorf("Apply = %v, want class %s", err, sm.ClassTooManyMoves)
	}
}

// TestBegin checks folds that cannot be.
func TestBegin(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	other := before(sm.Inline)
	other.Version = 2
	for name, f := range map[string]*sm.Fold{
		"no id":          d.Begin("", nil, env()),
		"not UTF-8":      d.Begin("a\xff", nil, env()),
		"long id":        d.Begin(strings.Repeat("r", 257), nil, env()),
		"other run":      d.Begin("r2", before(sm.Inline), env()),
		"other version":  d.Begin("r1", other, env()),
		"nothing to say": d.Begin("r1", before(sm.Inline), env()),
	} {
		if name != "nothing to say" {
			if _, err := f.Apply(signalEvent("s1")); err == nil && name != "no id" {
				t.Errorf("%s: Apply gave no error", name)
			}
		}
		if s, err := f.Seal(); err == nil {
			t.Errorf("%s: Seal = %+v, want an error", name, s)
		}
	}
	f := d.Begin("r1", before(sm.Inline), env())
	for _, e := range []sm.Event{
		{Kind: "wish"},
		{Kind: sm.EventSignal, ID: "s1"},
		{Kind: sm.EventSignal, ID: "signal:" + strings.Repeat("s", 257)},
		{Kind: sm.EventResult, ID: "result:other", Effect: e1},
	} {
		if o, err := f.Apply(e); err == nil {
			t.Errorf("Apply(%v) = %v, want an error", e, o)
		}
	}
}
