package statemachine_test

import (
	"encoding/json"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// What is said of a try that was accepted is judged by the state that it meets:
// by its try, its place, and what was said before.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	at := func(p sm.Place) sm.Env {
		return sm.Env{Now: t1, Place: func(*sm.Pending) sm.Place { return p }}
	}
	var id string
	event := func(kind sm.EventKind, try int, change ...func(*sm.Event)) sm.Event {
		e := sm.Event{Kind: kind, At: t2, Effect: id, Try: try}
		if kind == sm.EventCallback {
			e.Body = json.RawMessage(`{"ok":true}`)
		}
		for _, c := range change {
			c(&e)
		}
		return e
	}
	cause := func(class string, retry *time.Time) func(*sm.Event) {
		return func(e *sm.Event) {
			e.Body, e.Cause, e.RetryAt = nil, &sm.Cause{Class: class, Message: "…"}, retry
		}
	}
	later := func(t time.Time) func(*sm.Event) { return func(e *sm.Event) { e.RetryAt = &t } }
	accept := func() sm.Event {
		return event(sm.EventFailure, 1, cause(sm.ClassAccepted, &t3), func(e *sm.Event) { e.Free = true })
	}
	after := func(e sm.Event, t time.Time) sm.Event { e.At = t; return e }
	type step struct {
		event   sm.Event
		outcome sm.Outcome
	}
	for name, steps := range map[string]func() []step{
		"a result": func() []step {
			return []step{{accept(), sm.Applied}, {event(sm.EventCallback, 1), sm.Applied}, {event(sm.EventCallback, 1), sm.Duplicate}}
		},
		"before it is recorded as accepted": func() []step {
			return []step{{event(sm.EventCallback, 1), sm.Applied}, {accept(), sm.Stale}, {event(sm.EventCallback, 1), sm.Duplicate}}
		},
		"of another try": func() []step {
			return []step{{accept(), sm.Applied}, {event(sm.EventCallback, 2), sm.Stale}, {event(sm.EventCallback, 1), sm.Applied}}
		},
		"a failure, and what comes after": func() []step {
			return []step{
				{accept(), sm.Applied}, {event(sm.EventCallback, 1, cause("http", &t3)), sm.Applied},
				{event(sm.EventCallback, 1), sm.Duplicate}, {event(sm.EventBeat, 1, later(t3.Add(time.Hour))), sm.Duplicate},
			}
		},
		"a lapse, and what comes after": func() []step {
			return []step{
				{accept(), sm.Applied}, {event(sm.EventLapse, 2, cause("timeout", &t3)), sm.Early},
				{after(event(sm.EventLapse, 2, cause("timeout", nil)), t3), sm.Applied}, {event(sm.EventCallback, 1), sm.Stale},
			}
		},
		"a heartbeat prolongs it": func() []step {
			long := t3.Add(time.Hour)
			return []step{
				{accept(), sm.Applied}, {event(sm.EventBeat, 1, later(long)), sm.Applied}, {event(sm.EventBeat, 1, later(t3)), sm.Stale},
				{after(event(sm.EventLapse, 2, cause("timeout", nil)), t3), sm.Early}, {after(event(sm.EventLapse, 2, cause("timeout", nil)), long), sm.Applied},
			}
		},
		"a heartbeat of what nobody accepted": func() []step { return []step{{event(sm.EventBeat, 1, later(t3)), sm.Stale}} },
		"a result in a retry": func() []step {
			return []step{{event(sm.EventFailure, 1, cause("http", &t3)), sm.Applied}, {event(sm.EventLapse, 2), sm.Stale}, {event(sm.EventCallback, 1), sm.Applied}}
		},
		"a failure in a retry": func() []step {
			return []step{{event(sm.EventFailure, 1, cause("http", &t3)), sm.Applied}, {event(sm.EventCallback, 1, cause("http", &t3)), sm.Stale}}
		},
	} {
		f := d.Begin("order-1", nil, at(sm.Inline))
		if _, err := f.Apply(startEvent(`{"id":"o1","total":12}`)); err != nil {
			t.Fatal(err)
		}
		first := seal(t, f).Stored
		first.Seq = 1
		id = first.Pending[0].ID
		f = d.Begin("order-1", &first, at(sm.Inline))
		for i, s := range steps() {
			if o, err := f.Apply(s.event); o != s.outcome || err != nil {
				t.Errorf("%s: step %d, %s: %v, %v, want %v", name, i+1, s.event.Kind, o, err, s.outcome)
			}
		}
	}
}

// What a callback's result asks is queued: nobody is sure to hold a message that
// would wake it inline. What met it inline inherits the wake.
func TestWakeOfWhatFollowsACallback(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	env := sm.Env{Now: t2, Place: func(*sm.Pending) sm.Place { return sm.Inline }}
	for _, accepted := range []bool{true, false} {
		f := d.Begin("order-1", nil, env)
		if _, err := f.Apply(startEvent(`{"id":"o1","total":12}`)); err != nil {
			t.Fatal(err)
		}
		s := seal(t, f).Stored
		s.Seq = 1
		f = d.Begin("order-1", &s, env)
		id, wake := s.Pending[0].ID, s.Pending[0].Wake
		if accepted {
			if o, err := f.Apply(sm.Event{Kind: sm.EventFailure, At: t1, Effect: id, Try: 1, RetryAt: &t3, Free: true, Cause: &sm.Cause{Class: sm.ClassAccepted}}); o != sm.Applied || err != nil {
				t.Fatal(o, err)
			}
		}
		if o, err := f.Apply(sm.Event{Kind: sm.EventCallback, At: t1, Effect: id, Try: 1, Body: json.RawMessage(`{"ok":true}`)}); o != sm.Applied || err != nil {
			t.Fatal(o, err)
		}
		p := seal(t, f).Pending[0]
		if accepted && (p.Place != sm.Queued || p.Wake != "") || !accepted && (p.Place != sm.Inline || p.Wake != wake) {
			t.Errorf("accepted %v: what follows is %s with wake %q", accepted, p.Place, p.Wake)
		}
	}
}
