package statemachine_test

import (
	"strings"
	"testing"

	sm "github.com/pawlrun/pawl/statemachine"
)

// A parked run that a person sends on takes the exit that they name, with what
// it gave up left for good; who and why is what the next state sees. A run that
// is elsewhere by then is not touched, and the command is recorded.
func TestSentOn(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	to := func(state string) sm.Command { return sm.Command{By: "anna", Reason: "why", Effect: e1, To: state} }
	redrive := commandEvent(sm.EventRedrive, "r", sm.Command{})
	cancel := commandEvent(sm.EventPause, "p", sm.Command{})
	for _, tt := range []struct {
		name   string
		place  sm.Place
		before []sm.Event
		c      sm.Command
		state  string
		status sm.Status
	}{
		{"by a Catch", sm.Parked, nil, to("apology"), "apology", sm.StatusRunning},
		{"by a When, to the end", sm.Parked, nil, to("refused"), "refused", sm.StatusFailed},
		{"to the next, which decides", sm.Parked, nil, to("big"), "ship", sm.StatusRunning},
		{"by no exit of its state", sm.Parked, nil, to("done"), "pay", sm.StatusParked},
		{"to no state", sm.Parked, nil, to("nosuch"), "pay", sm.StatusParked},
		{"from another effect", sm.Parked, nil, sm.Command{Reason: "why", Effect: "other", To: "apology"}, "pay", sm.StatusParked},
		{"redriven meanwhile", sm.Parked, []sm.Event{redrive}, to("apology"), "pay", sm.StatusRunning},
		{"paused meanwhile", sm.Parked, []sm.Event{cancel}, to("apology"), "pay", sm.StatusPaused},
		{"not given up", sm.Retry, nil, to("apology"), "pay", sm.StatusRunning},
	} {
		from := before(tt.place)
		f := d.Begin("r1", from, env())
		e := commandEvent(sm.EventResume, "c1", tt.c)
		for _, e := range append(tt.before, e) {
			if o, err := f.Apply(e); o != sm.Applied || err != nil {
				t.Fatalf("%s: Apply(%s) = %v, %v", tt.name, e.Kind, o, err)
			}
		}
		r := seal(t, f).Record
		if r.To != tt.state || r.Status != tt.status || r.Applied[len(r.Applied)-1] != "cmd:c1" {
			t.Errorf("%s: %s in %s, applied %v; want %s in %s", tt.name, r.Status, r.To, r.Applied, tt.status, tt.state)
		}
		if moved := tt.state != "pay"; moved {
			for _, p := range r.Pending {
				if p.ID == e1 || p.Place != sm.Queued {
					t.Errorf("%s: pending %+v", tt.name, p)
				}
			}
			if c := r.Frames[0].Cause; c == nil || c.Class != sm.ClassSentOn || c.Message != "why" || c.By != "anna" || c.State != "pay" {
				t.Errorf("%s: cause %+v", tt.name, c)
			}
			if o, err := f.Apply(e); err == nil && o != sm.Duplicate && o != sm.Ended {
				t.Errorf("%s, again: %v", tt.name, o)
			}
		}
		if err := d.Refold(from, r, nil); err != nil {
			t.Errorf("%s: Refold: %v", tt.name, err)
		}
	}
}

// What cannot be left is said, and why.
func TestNotSentOn(t *testing.T) {
	t.Parallel()
	change := func(f func(*sm.Record)) *sm.Record {
		r := before(sm.Parked).Record
		f(r)
		return r
	}
	for want, r := range map[string]*sm.Record{
		"the run is not parked, but running":  before(sm.Inline).Record,
		"the run is on its way to its end":    change(func(r *sm.Record) { r.Ending = &sm.Ending{Status: sm.StatusCancelled} }),
		"an undo is retried or resolved":      change(func(r *sm.Record) { r.Pending[0].Undoes = "e0" }),
		"what is in doubt and would have":     change(func(r *sm.Record) { r.Pending[0].CanUndo, r.Pending[0].Cause = true, &sm.Cause{Class: sm.ClassInDoubt} }),
		"the run has given up no such effect": change(func(r *sm.Record) { r.Pending[0].ID = "other" }),
		"the time of the run is over": change(func(r *sm.Record) {
			r.Pending, r.Waits = nil, []sm.Wait{{ID: e1, Kind: sm.WaitDeadline, Cause: &sm.Cause{}}}
		}),
	} {
		if _, err := r.SendOn(e1); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("SendOn = %v, want %q", err, want)
		}
	}
	if id, err := before(sm.Parked).SendOn(""); id != e1 || err != nil {
		t.Errorf("SendOn of what was given up first = %q, %v", id, err)
	}
}
