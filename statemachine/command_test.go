package statemachine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	sm "github.com/pawlrun/pawl/statemachine"
)

// TestCommands is the whole table of commands and the places they meet.
func TestCommands(t *testing.T) {
	t.Parallel()
	same := func(*sm.Record) {}
	held := func(r *sm.Record) {
		r.Status, r.Cause = sm.StatusPaused, &sm.Cause{Class: sm.ClassPaused, Message: "why", State: "pay", By: "anna"}
		p := r.Pending[0]
		p.Place, p.Wake, p.Depth, p.Rev, p.At = sm.Held, "", 0, r.Rev, r.At
		r.Pending = []sm.Pending{p}
	}
	paused := func(r *sm.Record) {
		r.Status, r.Cause = sm.StatusPaused, &sm.Cause{Class: sm.ClassPaused, Message: "why", State: "pay", By: "anna"}
	}
	queued := func(r *sm.Record) {
		r.Status, r.Cause = sm.StatusRunning, nil
		p := r.Pending[0]
		p.Place, p.Rev, p.At = sm.Queued, r.Rev, r.At
		r.Pending, r.Outbox = []sm.Pending{p}, []sm.Entry{{Kind: sm.EntryEffect, ID: p.ID, Effect: p.Effect}}
	}
	redriven := func(r *sm.Record) {
		r.V = 3
		queued(r)
		r.Pending[0].Try, r.Pending[0].Attempt, r.Pending[0].Cause, r.Pending[0].First, r.Pending[0].Redriven = 3, 1, nil, nil, 3
		r.Pending[0].Redrives++
	}
	edited := func(r *sm.Record) {
		redriven(r)
		p := &r.Pending[0]
		p.Input, p.Print, p.Edits = json.RawMessage(`{"amount":2}`), sm.Fingerprint(p.Effect, []byte(`{"amount":2}`)), 1
	}
	cancelled := func(r *sm.Record) {
		r.Status, r.Pending, r.Inbox = sm.StatusCancelled, nil, nil
		r.Cause = &sm.Cause{Class: sm.ClassCancelled, Message: "why", State: "pay", By: "anna"}
		r.Outbox = []sm.Entry{{Kind: sm.EntryFinished, ID: "finished"}}
	}
	places := []sm.Place{sm.Inline, sm.Queued, sm.Retry, sm.Parked, sm.Held}
	why := sm.Command{By: "anna", Reason: "why"}
	tests := []struct {
		kind sm.EventKind
		c    sm.Command
		want [5]func(*sm.Record) // by place
	}{
		{sm.EventCancel, why, [5]func(*sm.Record){cancelled, cancelled, cancelled, cancelled, cancelled}},
		{sm.EventPause, why, [5]func(*sm.Record){held, held, paused, paused, same}},
		{sm.EventResume, why, [5]func(*sm.Record){same, same, same, same, queued}},
		{sm.EventRedrive, why, [5]func(*sm.Record){same, same, same, redriven, same}},
		{sm.EventRedrive, sm.Command{Effect: e1}, [5]func(*sm.Record){same, same, same, redriven, same}},
		{sm.EventRedrive, sm.Command{Effect: "other"}, [5]func(*sm.Record){same, same, same, same, same}},
		{sm.EventRedrive, sm.Command{Effect: e1, Try: 2}, [5]func(*sm.Record){same, same, same, redriven, same}},
		{sm.EventRedrive, sm.Command{Effect: e1, Try: 1}, [5]func(*sm.Record){same, same, same, same, same}},
		{sm.EventRedrive, sm.Command{Effect: e1, Try: 2, Input: json.RawMessage(`{ "amount": 2 }`)}, [5]func(*sm.Record){same, same, same, edited, same}},
	}
	d := orders().Definitions()[0]
	for _, tt := range tests {
		for i, place := range places {
			from, e := before(place), commandEvent(tt.kind, "c1", tt.c)
			f := d.Begin("r1", from, env())
			if o, err := f.Apply(e); o != sm.Applied || err != nil {
				t.Fatalf("%s at place %s = %v, %v, want applied", tt.kind, place, o, err)
			}
			if o, err := f.Apply(e); err != nil || o != sm.Duplicate && o != sm.Ended {
				t.Errorf("%s at place %s, again = %v, %v, want duplicate", tt.kind, place, o, err)
			}
			got := seal(t, f)
			want := after(from, e)
			want.Applied = append(want.Applied, "cmd:c1")
			tt.want[i](&want)
			if diff := cmp.Diff(&want, got.Record, cmpopts.IgnoreFields(sm.Record{}, "Txid"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s at place %s (-want +got):\n%s", tt.kind, place, diff)
			}
			if diff := cmp.Diff(before(place).Record, from.Record); diff != "" {
				t.Errorf("%s at place %s changed the record before (-want +got):\n%s", tt.kind, place, diff)
			}
			if err := d.Refold(from, got.Record, nil); err != nil {
				t.Errorf("%s at place %s: Refold: %v", tt.kind, place, err)
			}
		}
	}
}

// TestPausedRun checks what a paused run does with what comes to it: it is
// recorded, and nothing new may start.
func TestPausedRun(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	pause := commandEvent(sm.EventPause, "p", sm.Command{Reason: "why"})
	resume := commandEvent(sm.EventResume, "q", sm.Command{})
	redrive := commandEvent(sm.EventRedrive, "r", sm.Command{})
	resolve := commandEvent(sm.EventResolve, "s", sm.Command{Effect: resultEvent().Effect, Result: resultEvent().Body})
	given := failureEvent(2, nil, "http")
	tests := []struct {
		name   string
		place  sm.Place
		events []sm.Event
		status sm.Status
		want   sm.Place
		try    int
		outbox []sm.EntryKind
	}{
		{"a result asks", sm.Queued, []sm.Event{pause, resultEvent()}, sm.StatusPaused, sm.Held, 1, nil},
		{"asked, and paused in the same record", sm.Queued, []sm.Event{resultEvent(), pause}, sm.StatusPaused, sm.Held, 1, nil},
		{"paused and resumed in one record", sm.Inline, []sm.Event{pause, resume}, sm.StatusRunning, sm.Queued, 2, []sm.EntryKind{sm.EntryEffect}},
		{"a failure waits", sm.Inline, []sm.Event{pause, failureEvent(2, &t3, "http")}, sm.StatusPaused, sm.Retry, 3, []sm.EntryKind{sm.EntryTimer}},
		{"its wait is over", sm.Retry, []sm.Event{pause, dueEvent(2, t3)}, sm.StatusPaused, sm.Held, 2, nil},
		{"the wait ends after resume", sm.Retry, []sm.Event{pause, resume, dueEvent(2, t3)}, sm.StatusRunning, sm.Queued, 2, []sm.EntryKind{sm.EntryEffect}},
		{"given up", sm.Inline, []sm.Event{pause, given}, sm.StatusPaused, sm.Parked, 2, []sm.EntryKind{sm.EntryLetter}},
		{"given up, and resumed", sm.Inline, []sm.Event{pause, given, resume}, sm.StatusParked, sm.Parked, 2, []sm.EntryKind{sm.EntryLetter}},
		{"parked, and resumed", sm.Parked, []sm.Event{pause, resume}, sm.StatusParked, sm.Parked, 2, nil},
		{"parked, and redriven", sm.Parked, []sm.Event{pause, redrive}, sm.StatusPaused, sm.Held, 3, nil},
		{"parked, and resolved", sm.Parked, []sm.Event{pause, resolve}, sm.StatusPaused, sm.Held, 1, nil},
		{"parked, resolved, and resumed", sm.Parked, []sm.Event{resolve}, sm.StatusRunning, sm.Queued, 1, []sm.EntryKind{sm.EntryEffect}},
		{"queued, and resolved", sm.Queued, []sm.Event{resolve}, sm.StatusRunning, sm.Queued, 2, nil},
		{"a late result of what was given up", sm.Parked, []sm.Event{pause, resultEvent()}, sm.StatusPaused, sm.Held, 1, nil},
		{"an inline effect is let go", sm.Inline, []sm.Event{queueEvent(), pause}, sm.StatusPaused, sm.Held, 2, nil},
	}
	for _, tt := range tests {
		from := before(tt.place)
		f := d.Begin("r1", from, env())
		for _, e := range tt.events {
			if o, err := f.Apply(e); o != sm.Applied || err != nil {
				t.Fatalf("%s: Apply(%s) = %v, %v", tt.name, e.Kind, o, err)
			}
		}
		r := seal(t, f).Record
		var outbox []sm.EntryKind
		for _, e := range r.Outbox {
			outbox = append(outbox, e.Kind)
		}
		p := r.Pending[0]
		if r.Status != tt.status || p.Place != tt.want || p.Try != tt.try || len(r.Pending) != 1 || !cmp.Equal(outbox, tt.outbox) {
			t.Errorf("%s: status %s, place %s, try %d, outbox %v; want %s, %s, %d, %v", tt.name, r.Status, p.Place, p.Try, outbox, tt.status, tt.want, tt.try, tt.outbox)
		}
		if (r.Cause == nil) != (r.Status == sm.StatusRunning) {
			t.Errorf("%s: a run that is %s has cause %+v", tt.name, r.Status, r.Cause)
		}
		if err := d.Refold(from, r, nil); err != nil {
			t.Errorf("%s: Refold: %v", tt.name, err)
		}
	}
}

// TestCommandThatIsNone checks that what is wrong with a command is said in
// one line.
func TestCommandThatIsNone(t *testing.T) {
	t.Parallel()
	long := `{"reason":"` + strings.Repeat("x", 2049) + `","by":"` + strings.Repeat("x", 257) + `"}`
	for _, tt := range []struct {
		kind       sm.EventKind
		body, want string
	}{
		{"stop", `{}`, `no command is called "stop"`},
		{sm.EventSignal, `{}`, `no command is called "signal"`},
		{sm.EventCancel, `{"reson":"x"}`, `body of a cancel: json: unknown field "reson"`},
		{sm.EventCancel, `{"reason":1}`, `body of a cancel: field reason: number given where string is expected`},
		{sm.EventPause, `{} {}`, `body of a pause: more than one JSON value`},
		{sm.EventPause, `{"effect":"e"}`, `pause: effect is for a redrive, a resolve, a confirm, or a resume that names a state only`},
		{sm.EventCancel, `{"to":"x"}`, `cancel: to is for a resume or a delegate only`},
		{sm.EventResume, `{"to":"x","effect":"e"}`, `resume: to needs the effect that was given up, and a reason`},
		{sm.EventResume, `{"effect":"e"}`, `resume: effect is for a redrive, a resolve, a confirm, or a resume that names a state only`},
		{sm.EventCancel, `{"input":{}}`, `cancel: try and input are for a redrive only`},
		{sm.EventRedrive, `{"try":1}`, `redrive: try and input are of one effect, and none is named`},
		{sm.EventRedrive, `{"effect":"e","try":-1}`, `redrive: try -1 is not 1 or more`},
		{sm.EventRedrive, `{"effect":"e","input":"` + strings.Repeat("x", 512<<10) + `"}`, `redrive: input of 524290 bytes exceeds the limit of 524288 bytes`},
		{sm.EventResume, long, `resume: by of 257 bytes exceeds the limit of 256 bytes`},
		{sm.EventRedrive, `{"effect":"e","result":1}`, `redrive: result is for a resolve only`},
		{sm.EventResolve, `{"effect":"e"}`, `resolve: effect and result are needed`},
		{sm.EventResolve, `{"result":1}`, `resolve: effect and result are needed`},
		{sm.EventRedrive, `x`, `body of a redrive: invalid character 'x' looking for beginning of value`},
	} {
		_, err := sm.ParseCommand(tt.kind, []byte(tt.body))
		if err == nil || err.Error() != tt.want {
			t.Errorf("ParseCommand(%s, %s) = %v, want %q", tt.kind, tt.body, err, tt.want)
		}
	}
	if c, err := sm.ParseCommand(sm.EventCancel, nil); !c.IsZero() || err != nil {
		t.Errorf("ParseCommand of nothing = %v, %v", c, err)
	}
	d := orders().Definitions()[0]
	for _, e := range []sm.Event{
		{ID: "c1", Kind: sm.EventCancel},
		{ID: sm.CommandEventID(strings.Repeat("x", 257)), Kind: sm.EventCancel},
		{ID: sm.CommandEventID("c1"), Kind: sm.EventCancel, Body: json.RawMessage(`{"x":1}`)},
	} {
		if _, err := d.Begin("r1", before(sm.Inline), env()).Apply(e); err == nil {
			t.Errorf("Apply(%q, %s) gave no error", e.ID, e.Body)
		}
	}
}

// TestRefoldOfOlderRecords checks that the end of a run that was recorded
// before ends were told is no difference, nor a redrive that was not counted.
func TestRefoldOfOlderRecords(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"caught", "ended"}, {"parked", "redriven"}} {
		var of [2]*sm.Record
		for i, name := range names {
			b, err := os.ReadFile(filepath.Join("testdata", "records", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if of[i], err = sm.Decode(b); err != nil {
				t.Fatal(err)
			}
		}
		prev := &sm.Stored{Record: of[0], Seq: of[1].Prev}
		if err := orders().Definitions()[0].Refold(prev, of[1], nil); err != nil {
			t.Errorf("Refold of %s: %v", names[1], err)
		}
	}
}
