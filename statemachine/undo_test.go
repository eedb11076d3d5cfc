package statemachine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	sm "github.com/pawlrun/pawl/statemachine"
)

// trip books four things, all but the second of which can be cancelled. It
// unwinds before it ends badly, and in the middle when there is no car.
type trip struct {
	sm.Meta
	ID     string   `json:"id"`
	Booked []string `json:"booked,omitempty"`
	Undone []string `json:"undone,omitempty"`
}

const (
	book   sm.Effect[string, string] = "trip.book"
	insure sm.Effect[string, string] = "trip.insure"
	unbook sm.Effect[string, string] = "trip.cancel"
)

func (t *trip) id() string           { return t.ID }
func (t *trip) last() string         { return t.Booked[len(t.Booked)-1] }
func (t *trip) booked(ref string)    { t.Booked = append(t.Booked, ref) }
func (t *trip) cancelled(ref string) { t.Undone = append(t.Undone, ref) }
func (t *trip) why() string          { return "no " + t.Cause().State }

func trips() *sm.Machine[trip] {
	booking := func() sm.Action[trip] { return sm.Call(book, (*trip).id, (*trip).booked) }
	undo := func() sm.Action[trip] {
		return sm.Call(unbook, (*trip).last, (*trip).cancelled).Timeout(time.Second).Key(func(t *trip) string { return "cancel:" + t.last() })
	}
	m := sm.New[trip]("trip", 1)
	m.State("flight", booking()).Undo(undo()).Catch("full*", "failed")
	m.State("insurance", sm.Call(insure, (*trip).id, nil)).Catch("full", "failed")
	m.State("hotel", booking()).Undo(undo()).Catch("full*", "failed")
	m.State("car", booking()).Undo(undo()).Catch("full*", "back").Then("done")
	m.Unwind("back").Then("train")
	m.State("train", booking()).Undo(undo()).Catch("*", "failed").Then("done")
	m.Succeed("done")
	m.Fail("failed", "no_trip").Because((*trip).why)
	return m
}

// driver folds events on a run of trips, each into a record of its own.
type driver struct {
	t    interface{ Fatalf(string, ...any) }
	d    *sm.Definition
	last *sm.Stored
	n    int
}

func drive(t *testing.T) *driver {
	d := &driver{t: t, d: trips().Definitions()[0]}
	d.apply(sm.Event{Kind: sm.EventStart, Body: json.RawMessage(`{"id":"t1"}`)})
	return d
}

func (d *driver) apply(e sm.Event) *driver {
	if d.n++; e.At.IsZero() {
		e.At = t1.Add(time.Duration(d.n) * time.Second)
	}
	f := d.d.Begin("r1", d.last, sm.Env{Now: e.At, Place: inline})
	if o, err := f.Apply(e); o != sm.Applied || err != nil {
		d.t.Fatalf("Apply(%s) = %v, %v", e.Kind, o, err)
	}
	s, err := f.Seal()
	if err != nil {
		d.t.Fatalf("Seal: %v", err)
	}
	r, err := sm.Decode(s.Bytes)
	if err != nil {
		d.t.Fatalf("Decode: %v", err)
	}
	if err := d.d.Refold(d.last, r, nil); err != nil {
		d.t.Fatalf("Refold: %v", err)
	}
	seq := uint64(1)
	if d.last != nil {
		seq = d.last.Seq + 3
	}
	d.last = &sm.Stored{Record: r, Seq: seq, Bytes: s.Bytes}
	return d
}

// done has the pending effect succeed; its result is its state and input.
func (d *driver) done() *driver {
	p := d.last.Pending[0]
	body, _ := json.Marshal(d.last.To)
	if p.Undoes != "" {
		body = p.Input
	}
	return d.apply(sm.Event{Kind: sm.EventResult, Effect: p.ID, Body: body})
}

func (d *driver) failed(class string, retry *time.Time) *driver {
	p := d.last.Pending[0]
	return d.apply(sm.Event{Kind: sm.EventFailure, Effect: p.ID, Try: p.Try, RetryAt: retry, Cause: &sm.Cause{Class: class, Message: "no"}})
}

func (d *driver) due() *driver {
	p := d.last.Pending[0]
	return d.apply(sm.Event{Kind: sm.EventDue, At: *p.RetryAt, Effect: p.ID, Try: p.Try})
}

func (d *driver) command(kind sm.EventKind, c sm.Command) *driver {
	e := commandEvent(kind, fmt.Sprint(d.n), c)
	e.At = time.Time{}
	return d.apply(e)
}

// standing is a run in short: state, status, what is pending, what can be
// undone.
func (d *driver) standing() string {
	r := d.last
	s := fmt.Sprintf("%s %s", r.To, r.Status)
	for _, p := range r.Pending {
		s += fmt.Sprintf(", %s %s %s try %d", p.Effect, p.Input, p.Place, p.Try)
	}
	for _, u := range r.Undos {
		s += " <" + u.State
	}
	if r.Ending != nil {
		s += fmt.Sprintf(", to be %s: %s", r.Ending.Status, r.Ending.Cause.Message)
	}
	if r.Cause != nil {
		s += fmt.Sprintf(": %s %s", r.Cause.Class, r.Cause.Message)
	}
	return s
}

func (d *driver) want(t *testing.T, want string) *driver {
	t.Helper()
	if got := d.standing(); got != want {
		t.Errorf("the run is\n    %s, want\n    %s", got, want)
	}
	return d
}

func (d *driver) undone(t *testing.T, want ...string) {
	t.Helper()
	var data trip
	if err := json.Unmarshal(d.last.Data, &data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, data.Undone); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
}

// TestUndoOnFailure checks that a run that fails undoes what it did, the last
// first, and only then has failed.
func TestUndoOnFailure(t *testing.T) {
	t.Parallel()
	d := drive(t).want(t, `flight running, trip.book "t1" inline try 1`)
	if d.last.V != 2 || !d.last.Pending[0].CanUndo {
		t.Errorf("version %d, pending %+v", d.last.V, d.last.Pending[0])
	}
	d.done().want(t, `insurance running, trip.insure "t1" inline try 1 <flight`)
	u := d.last.Undos[0]
	if want := (sm.Undo{Of: sm.EffectID("r1", "start", 0), State: "flight", Effect: "trip.cancel", Key: "cancel:flight", Input: json.RawMessage(`"flight"`),
		Print: sm.Fingerprint("trip.cancel", []byte(`"flight"`)), Timeout: sm.Duration(time.Second)}); !cmp.Equal(u, want) {
		t.Errorf("registered %+v, want %+v", u, want)
	}
	d.done().done().want(t, `car running, trip.book "t1" inline try 1 <flight <hotel`)
	d.failed("full_today", nil).want(t, `back running, trip.cancel "hotel" inline try 1 <flight <hotel`)
	d.done().want(t, `back running, trip.cancel "flight" inline try 1 <flight`)
	if p := d.last.Pending[0]; p.Undoes != u.Of || p.Key != u.Key || p.Timeout != u.Timeout || p.CanUndo {
		t.Errorf("pending %+v, of %+v", p, u)
	}
	d.done().want(t, `train running, trip.book "t1" inline try 1`).undone(t, "hotel", "flight")
	d.failed("sold_out", nil).want(t, `failed failed: no_trip no train`)
	if d.last.V != 1 {
		t.Errorf("a record that needs nothing of version 2 has version %d", d.last.V)
	}

	d = drive(t).done().done().failed("full", nil).want(t, `failed running, trip.cancel "flight" inline try 1 <flight, to be failed: no hotel`)
	d.done().want(t, `failed failed: no_trip no hotel`).undone(t, "flight")

	drive(t).failed("full", nil).want(t, `failed failed: no_trip no flight`)
	d = drive(t).done().done().done().done().want(t, `done succeeded`)
	if d.last.V != 1 || d.last.Undos != nil {
		t.Errorf("version %d, undos %v", d.last.V, d.last.Undos)
	}
}

// TestUndoFails checks that an Undo is retried, then parks the run with a
// letter, and goes on once a person has had it tried anew, or says what it came
// to.
func TestUndoFails(t *testing.T) {
	t.Parallel()
	d := drive(t).done().done().failed("full", nil)
	id := d.last.Pending[0].ID
	d.failed("away", &t3).want(t, `failed running, trip.cancel "flight" retry try 2 <flight, to be failed: no hotel`)
	d.due().want(t, `failed running, trip.cancel "flight" queued try 2 <flight, to be failed: no hotel`)
	d.failed("full", nil).want(t, `failed parked, trip.cancel "flight" parked try 2 <flight, to be failed: no hotel: full no`)
	if e := d.last.Outbox; len(e) != 1 || e[0].Kind != sm.EntryLetter {
		t.Errorf("outbox %+v, want a letter", e)
	}
	d.command(sm.EventCancel, sm.Command{}).want(t, `failed parked, trip.cancel "flight" parked try 2 <flight, to be failed: no hotel: full no`)
	d.command(sm.EventRedrive, sm.Command{}).want(t, `failed running, trip.cancel "flight" queued try 3 <flight, to be failed: no hotel`)
	if d.last.Pending[0].ID != id {
		t.Error("it is another effect than before")
	}
	d.failed("away", nil).command(sm.EventResolve, sm.Command{Effect: id, Result: json.RawMessage(`"by hand"`)}).want(t, `failed failed: no_trip no hotel`).undone(t, "by hand")
}

// TestCancelUnwinds is the table of places that a cancel meets.
func TestCancelUnwinds(t *testing.T) {
	t.Parallel()
	cancel, no := sm.Command{By: "anna", Reason: "ill"}, sm.Command{Reason: "now", NoUndo: true}
	const ending = ", to be cancelled: ill"
	hotel := func() *driver { return drive(t).done().done() }
	t.Run("under way", func(t *testing.T) {
		d := hotel().command(sm.EventCancel, cancel).want(t, `hotel running, trip.book "t1" inline try 1 <flight`+ending)
		d.command(sm.EventCancel, sm.Command{Reason: "again"}).want(t, `hotel running, trip.book "t1" inline try 1 <flight`+ending)
		d.done().want(t, `hotel running, trip.cancel "hotel" inline try 1 <flight <hotel`+ending)
		d.done().done().want(t, `hotel cancelled: cancelled ill`).undone(t, "hotel", "flight")
		if d.last.Cause.By != "anna" {
			t.Errorf("cause %+v", d.last.Cause)
		}
	})
	t.Run("under way, and tried again", func(t *testing.T) {
		d := hotel().command(sm.EventCancel, cancel).failed("away", &t3).want(t, `hotel running, trip.book "t1" retry try 2 <flight`+ending)
		d.due().done().want(t, `hotel running, trip.cancel "hotel" inline try 1 <flight <hotel`+ending)
	})
	t.Run("under way, and given up", func(t *testing.T) {
		d := hotel().command(sm.EventCancel, cancel).failed("odd", nil).want(t, `hotel running, trip.cancel "flight" inline try 1 <flight`+ending)
		d.done().want(t, `hotel cancelled: cancelled ill`).undone(t, "flight")
	})
	t.Run("under way, without an Undo", func(t *testing.T) {
		d := drive(t).done().command(sm.EventCancel, cancel).want(t, `insurance running, trip.insure "t1" inline try 1 <flight`+ending)
		d.failed("away", &t3).want(t, `insurance running, trip.cancel "flight" inline try 1 <flight`+ending)
		if e := d.last.Events[0]; e.RetryAt != nil {
			t.Errorf("the record says that it is tried again: %+v", e)
		}
		drive(t).done().command(sm.EventCancel, cancel).done().want(t, `insurance running, trip.cancel "flight" inline try 1 <flight`+ending)
	})
	t.Run("nothing to undo yet", func(t *testing.T) {
		drive(t).command(sm.EventCancel, cancel).want(t, `flight running, trip.book "t1" inline try 1`+ending).
			failed("away", nil).want(t, `flight cancelled: cancelled ill`)
	})
	t.Run("waits for its next try", func(t *testing.T) {
		hotel().failed("away", &t3).command(sm.EventCancel, cancel).want(t, `hotel running, trip.book "t1" retry try 2 <flight`+ending)
		drive(t).done().failed("away", &t3).command(sm.EventCancel, cancel).want(t, `insurance running, trip.cancel "flight" queued try 1 <flight`+ending)
	})
	t.Run("given up", func(t *testing.T) {
		hotel().failed("odd", nil).command(sm.EventCancel, cancel).want(t, `hotel running, trip.cancel "flight" queued try 1 <flight`+ending)
		drive(t).failed("odd", nil).command(sm.EventCancel, cancel).want(t, `flight cancelled: cancelled ill`)
	})
	t.Run("in doubt", func(t *testing.T) {
		const parked = `hotel parked, trip.book "t1" parked try 1 <flight` + ending + `: in_doubt no`
		d := hotel().failed(sm.ClassInDoubt, nil).command(sm.EventCancel, cancel).want(t, parked)
		d.command(sm.EventResolve, sm.Command{Effect: d.last.Pending[0].ID, Result: json.RawMessage(`"by hand"`)}).
			want(t, `hotel running, trip.cancel "by hand" queued try 1 <flight <hotel`+ending)
		d = hotel().command(sm.EventCancel, cancel).failed(sm.ClassInDoubt, nil).want(t, parked)
		d.command(sm.EventRedrive, sm.Command{}).failed("odd", nil).want(t, `hotel running, trip.cancel "flight" inline try 1 <flight`+ending)
		drive(t).failed(sm.ClassInDoubt, nil).command(sm.EventCancel, sm.Command{NoUndo: true, Reason: "now"}).want(t, `flight cancelled: cancelled now`)
	})
	t.Run("paused", func(t *testing.T) {
		pause := sm.Command{Reason: "wait"}
		hotel().command(sm.EventPause, pause).command(sm.EventCancel, cancel).want(t, `hotel running, trip.book "t1" queued try 1 <flight`+ending)
		drive(t).done().command(sm.EventPause, pause).command(sm.EventCancel, cancel).want(t, `insurance running, trip.cancel "flight" queued try 1 <flight`+ending)
		d := hotel().command(sm.EventCancel, cancel).done().command(sm.EventPause, pause).
			want(t, `hotel paused, trip.cancel "hotel" held try 1 <flight <hotel`+ending+`: paused wait`)
		d.done().want(t, `hotel paused, trip.cancel "flight" held try 1 <flight`+ending+`: paused wait`)
		d.command(sm.EventResume, sm.Command{}).want(t, `hotel running, trip.cancel "flight" queued try 1 <flight`+ending)
		d.done().want(t, `hotel cancelled: cancelled ill`).undone(t, "hotel", "flight")
		drive(t).done().command(sm.EventCancel, cancel).command(sm.EventPause, pause).command(sm.EventResume, sm.Command{}).
			want(t, `insurance running, trip.cancel "flight" queued try 1 <flight`+ending)
	})
	t.Run("unwinds already", func(t *testing.T) {
		d := drive(t).done().done().done().failed("full", nil).command(sm.EventCancel, cancel)
		d.want(t, `back running, trip.cancel "hotel" inline try 1 <flight <hotel`+ending)
		d.done().done().want(t, `back cancelled: cancelled ill`).undone(t, "hotel", "flight")
		hotel().failed("full", nil).command(sm.EventCancel, cancel).done().want(t, `failed failed: no_trip no hotel`)
	})
	t.Run("at once", func(t *testing.T) {
		hotel().command(sm.EventCancel, no).want(t, `hotel cancelled: cancelled now`)
		hotel().command(sm.EventCancel, cancel).command(sm.EventCancel, no).want(t, `hotel cancelled: cancelled now`)
	})
}

// TestUndoLimit checks that there is room for an Undo before what it undoes is
// asked for.
func TestUndoLimit(t *testing.T) {
	t.Parallel()
	d := trips().Definitions()[0]
	r := *drive(t).done().last
	rec := *r.Record
	rec.Undos = slices.Repeat([]sm.Undo{{Of: "x", State: "flight", Effect: "trip.cancel", Input: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`), Print: "x"}}, 96)
	r.Record = &rec
	f := d.Begin("r1", &r, env())
	_, err := f.Apply(sm.Event{Kind: sm.EventResult, Effect: r.Pending[0].ID, Body: json.RawMessage(`"x"`)})
	if sm.ClassOf(err) != sm.ClassTooLarge || !strings.Contains(err.Error(), "undos of 1") {
		t.Errorf("Apply = %v, want a limit", err)
	}
}

// TestUndoFaults checks what is said about Undo and Catch at the start.
func TestUndoFaults(t *testing.T) {
	t.Parallel()
	m := sm.New[small]("m", 1)
	m.Decide("a").Undo(act())
	m.State("b", act()).Undo(act()).Undo(sm.CallOf[small](nil, nil, nil)).Catch("x*y", "z").Catch("io.*", "z").Catch("io.read", "z").Catch("io.w*", "z").Catch("i*", "z")
	m.Unwind("c").Catch("x", "z").Undo(act())
	m.Succeed("z")
	err := m.Definitions()[0].Check()
	want := []string{
		`state "a": Undo in a state that performs no effect`,
		`state "b": Catch of "x*y" to "z": a * stands at the end, for any rest`,
		`state "b": Catch of "io.read" to "z" is never reached: an earlier one catches it`,
		`state "b": Catch of "io.w*" to "z" is never reached: an earlier one catches it`,
		`state "b": has more than one Undo`,
		`state "b": CallOf has no tools`,
		`state "b": CallOf has no function that picks`,
		`state "c": Catch in a state that performs no effect`,
		`state "c": Undo in a state that performs no effect`,
	}
	var got []string
	for line := range strings.Lines(fmt.Sprint(err)) {
		got = append(got, strings.TrimPrefix(strings.TrimSpace(line), `machine "m" version 1: `))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	missing := sm.New[small]("m", 1)
	missing.State("a", act()).Undo(sm.Call(unbook, (*small).text, nil))
	missing.Succeed("z")
	if err := handled(missing).Check(); err == nil || !strings.Contains(err.Error(), `effect "trip.cancel" has no handler`) {
		t.Errorf("Check = %v", err)
	}
}

// TestUndoProperties drives runs by any outcomes and commands to their ends.
// Whatever happens: an Undo is performed once for each effect whose result was
// recorded, the last first, and never while another effect is pending; unless
// the run succeeds, or is told to end at once.
func TestUndoProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &driver{t: t, d: trips().Definitions()[0]}
		d.apply(sm.Event{Kind: sm.EventStart, Body: json.RawMessage(`{"id":"t1"}`)})
		var stack, started []string // effects to be undone; Undos whose effect was asked for
		for steps := 0; !d.last.Status.Ended(); steps++ {
			if steps > 200 {
				t.Fatalf("the run does not end: %s", d.standing())
			}
			calm := steps > 60 // from now on nothing goes wrong
			r := d.last
			if len(r.Pending) != 1 {
				t.Fatalf("%d effects are pending: %s", len(r.Pending), d.standing())
			}
			p := r.Pending[0]
			if p.Undoes != "" && !slices.Contains(started, p.ID) {
				if started = append(started, p.ID); len(stack) == 0 || stack[len(stack)-1] != p.Undoes {
					t.Fatalf("%s is undone, registered are %v", p.Undoes, stack)
				}
			}
			actions := []string{"pause", "cancel"}
			switch p.Place {
			case sm.Inline, sm.Queued:
				actions = append(actions, "result", "result", "result", "retry", "give up", "doubt", "catch")
			case sm.Retry:
				actions = append(actions, "due", "result")
			case sm.Parked:
				actions = append(actions, "redrive", "result", "resolve")
			case sm.Held:
				actions = append(actions, "resume", "result", "retry", "give up")
			}
			action := rapid.SampledFrom(actions).Draw(t, "action")
			if calm {
				action = map[sm.Place]string{sm.Inline: "result", sm.Queued: "result", sm.Retry: "due", sm.Parked: "redrive", sm.Held: "resume"}[p.Place]
			}
			switch action {
			case "result", "resolve":
				switch {
				case p.Undoes != "":
					stack = stack[:len(stack)-1]
				case p.CanUndo:
					stack = append(stack, p.ID)
				}
				if action == "resolve" {
					d.command(sm.EventResolve, sm.Command{Effect: p.ID, Result: json.RawMessage(`"x"`)})
				} else {
					d.done()
				}
			case "retry":
				at := t1.Add(time.Duration(d.n) * time.Second)
				d.failed("away", &at)
			case "give up":
				d.failed("odd", nil)
			case "doubt":
				d.failed(sm.ClassInDoubt, nil)
			case "catch":
				d.failed("full", nil)
			case "due":
				d.due()
			default:
				d.command(sm.EventKind(action), sm.Command{})
			}
			var of []string
			for _, u := range d.last.Undos {
				of = append(of, u.Of)
			}
			if !d.last.Status.Ended() && !slices.Equal(of, stack) {
				t.Fatalf("after %s registered are %v, want %v", action, of, stack)
			}
			version := 1
			if len(of) > 0 || d.last.Ending != nil || slices.ContainsFunc(d.last.Pending, func(p sm.Pending) bool { return p.CanUndo }) {
				version = 2
			}
			if slices.ContainsFunc(d.last.Pending, func(p sm.Pending) bool { return p.Redrives > 0 }) {
				version = 3
			}
			if d.last.V != version {
				t.Fatalf("version %d, want %d: %s", d.last.V, version, d.standing())
			}
		}
		if len(stack) > 0 && d.last.Status != sm.StatusSucceeded {
			t.Fatalf("%v were not undone: %s", stack, d.standing())
		}
	})
}
