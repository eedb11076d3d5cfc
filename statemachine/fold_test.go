package statemachine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	sm "github.com/pawlrun/pawl/statemachine"
)

var (
	t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // the record before
	t1 = t0.Add(time.Second)                         // the event
	t2 = t0.Add(2 * time.Second)                     // the worker's clock
	t3 = t0.Add(time.Minute)                         // when a retry is due

	e1 = sm.EffectID("r1", sm.StartEventID, 0)
)

func inline(*sm.Pending) sm.Place { return sm.Inline }

func env() sm.Env { return sm.Env{Now: t2, Build: "b2", By: "w2", Place: inline} }

// before is the record that the tests fold on: the order waits for its
// payment, at the given place.
func before(place sm.Place) *sm.Stored {
	d := orders().Definitions()[0]
	p := sm.Pending{
		ID: e1, Effect: "card.pay", Input: json.RawMessage(`{"order":"o1","amount":12}`),
		Print: sm.Fingerprint("card.pay", []byte(`{"order":"o1","amount":12}`)),
		Place: place, Rev: 2, At: t0, Try: 2, Attempt: 2, Timeout: sm.Duration(time.Minute),
		Cause: &sm.Cause{Class: "http", Message: "502", State: "pay", Effect: "card.pay", Attempt: 1}, First: &t0,
	}
	r := &sm.Record{
		V: 1, Run: "r1", Machine: "order", Version: 1, Def: d.Hash, Rev: 3, Prev: 40, PrevTxid: strings.Repeat("p", 22),
		Txid: strings.Repeat("t", 22), At: t0, Started: t0.Add(-time.Hour), Build: "b1", By: "w1",
		Events: []sm.Event{{ID: "signal:s0", Kind: sm.EventSignal, At: t0}}, From: "pay", To: "pay", Status: sm.StatusRunning,
		Frames: []sm.Frame{{Kind: sm.FrameRoot, State: "pay", Visit: 1}},
		Data:   json.RawMessage(`{"id":"o1","total":12}`), Index: map[string]string{"id": "o1"},
		Pending: []sm.Pending{p}, Applied: []string{"signal:s0", "cmd:0"},
		Inbox:  []sm.InboxSignal{{ID: "signal:s0", Name: "hurry", At: t0}},
		Outbox: []sm.Entry{{Kind: sm.EntryEffect, ID: "old"}},
		Input:  sm.Fingerprint("order", []byte(`{"id":"o1","total":12}`)),
	}
	switch place {
	case sm.Inline:
		r.Pending[0].Wake, r.Pending[0].Depth = sm.StartEventID, 4
	case sm.Retry:
		r.Pending[0].RetryAt = &t3
	case sm.Parked:
		r.Status, r.Cause = sm.StatusParked, r.Pending[0].Cause
	case sm.Held:
		r.Status, r.Cause = sm.StatusPaused, &sm.Cause{Class: sm.ClassPaused, State: "pay"}
	case "": // nothing pending: the run has ended
		r.Status, r.Pending = sm.StatusSucceeded, nil
		r.Frames[0].State, r.To = "done", "done"
	}
	return &sm.Stored{Record: r, Seq: 41}
}

// after is what the record after has in any case.
func after(b *sm.Stored, e sm.Event) sm.Record {
	return sm.Record{
		V: 1, Run: "r1", Machine: "order", Version: 1, Def: b.Def, Rev: 4, Prev: 41, PrevTxid: b.Txid,
		At: t2, Started: b.Started, Build: "b2", By: "w2", Events: []sm.Event{e},
		From: "pay", To: "pay", Status: b.Status, Frames: b.Frames, Data: b.Data, Index: b.Index,
		Pending: b.Pending, Inbox: b.Inbox, Applied: b.Applied, Cause: b.Cause, Input: b.Input,
	}
}

// The events that the tests apply.
func resultEvent() sm.Event {
	return sm.Event{Kind: sm.EventResult, At: t1, Effect: e1, Body: json.RawMessage(` {"ok": true} `)}
}
func failureEvent(try int, retry *time.Time, class string) sm.Event {
	return sm.Event{Kind: sm.EventFailure, At: t1, Effect: e1, Try: try, RetryAt: retry, Cause: &sm.Cause{Class: class, Message: "no"}}
}
func dueEvent(try int, at time.Time) sm.Event {
	return sm.Event{Kind: sm.EventDue, At: at, Effect: e1, Try: try}
}
func queueEvent() sm.Event { return sm.Event{Kind: sm.EventQueue, At: t1, Effect: e1} }
func signalEvent(id string) sm.Event {
	return sm.Event{ID: sm.SignalEventID(id), Kind: sm.EventSignal, Name: "hurry", At: t1, Seq: 9, Body: json.RawMessage(`[ 1 ]`)}
}
func commandEvent(kind sm.EventKind, id string, c sm.Command) sm.Event {
	body, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return sm.Event{ID: sm.CommandEventID(id), Kind: kind, At: t1, Seq: 11, Body: body}
}
func startEvent(input string) sm.Event {
	return sm.Event{Kind: sm.EventStart, At: t1, Seq: 7, Body: json.RawMessage(input)}
}

// TestOutcomes is the whole table of event kinds and the places they meet.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	const (
		A, D, S, E, C, Y = sm.Applied, sm.Duplicate, sm.Stale, sm.Ended, sm.Conflict, sm.Early
	)
	places := []sm.Place{sm.Inline, sm.Queued, sm.Retry, sm.Parked, sm.Held, ""}
	elsewhere := failureEvent(2, &t3, "http")
	elsewhere.Effect = "other"
	named := startEvent(`{"id":"o1","total":12}`)
	named.Name = "invoice"
	tests := []struct {
		name  string
		event sm.Event
		want  [6]sm.Outcome
	}{
		{"result", resultEvent(), [6]sm.Outcome{A, A, A, A, A, S}},
		{"failure of this try", failureEvent(2, &t3, "http"), [6]sm.Outcome{A, A, S, S, A, S}},
		{"failure of an older try", failureEvent(1, &t3, "http"), [6]sm.Outcome{S, S, S, S, S, S}},
		{"failure of a later try", failureEvent(3, nil, "http"), [6]sm.Outcome{S, S, S, S, S, S}},
		{"failure, given up", failureEvent(2, nil, "http"), [6]sm.Outcome{A, A, S, S, A, S}},
		{"failure of an unknown effect", elsewhere, [6]sm.Outcome{S, S, S, S, S, S}},
		{"due on time", dueEvent(2, t3), [6]sm.Outcome{S, S, A, S, S, S}},
		{"due too early", dueEvent(2, t1), [6]sm.Outcome{S, S, Y, S, S, S}},
		{"due of an older try", dueEvent(1, t3), [6]sm.Outcome{S, S, S, S, S, S}},
		{"queue", queueEvent(), [6]sm.Outcome{A, S, S, S, S, S}},
		{"new signal", signalEvent("s1"), [6]sm.Outcome{A, A, A, A, A, E}},
		{"known signal", signalEvent("s0"), [6]sm.Outcome{D, D, D, D, D, D}},
		{"cancel", commandEvent(sm.EventCancel, "1", sm.Command{Reason: "no"}), [6]sm.Outcome{A, A, A, A, A, E}},
		{"pause", commandEvent(sm.EventPause, "1", sm.Command{}), [6]sm.Outcome{A, A, A, A, A, E}},
		{"resume", commandEvent(sm.EventResume, "1", sm.Command{}), [6]sm.Outcome{A, A, A, A, A, E}},
		{"redrive", commandEvent(sm.EventRedrive, "1", sm.Command{Effect: "other"}), [6]sm.Outcome{A, A, A, A, A, E}},
		{"known command", commandEvent(sm.EventPause, "0", sm.Command{}), [6]sm.Outcome{D, D, D, D, D, D}},
		{"same start", startEvent(`{ "id":"o1", "total":12 }`), [6]sm.Outcome{D, D, D, D, D, D}},
		{"start with another input", startEvent(`{"id":"o1","total":13}`), [6]sm.Outcome{C, C, C, C, C, C}},
		{"start of another machine", named, [6]sm.Outcome{C, C, C, C, C, C}},
		{"start with broken input", startEvent(`{`), [6]sm.Outcome{C, C, C, C, C, C}},
	}
	d := orders().Definitions()[0]
	for _, tt := range tests {
		for i, place := range places {
			got, err := d.Begin("r1", before(place), env()).Apply(tt.event)
			if got != tt.want[i] || err != nil {
				t.Errorf("Apply(%s) at place %q = %v, %v, want %v", tt.name, place, got, err, tt.want[i])
			}
		}
		f := d.Begin("r1", nil, env())
		got, err := f.Apply(tt.event)
		switch {
		case tt.name == "start with broken input":
			if sm.ClassOf(err) != sm.ClassInvalidInput {
				t.Errorf("Apply(%s) on no run = %v, %v, want an error of class %s", tt.name, got, err, sm.ClassInvalidInput)
			}
		case tt.name == "start of another machine":
			if got != sm.Conflict || err != nil {
				t.Errorf("Apply(%s) on no run = %v, %v, want conflict", tt.name, got, err)
			}
		case tt.event.Kind == sm.EventStart:
			if got != sm.Applied || err != nil {
				t.Errorf("Apply(%s) on no run = %v, %v, want applied", tt.name, got, err)
			}
		case got != sm.Unknown || err != nil:
			t.Errorf("Apply(%s) on no run = %v, %v, want unknown", tt.name, got, err)
		}
	}
}

// TestRecords compares whole records after one event.
func TestRecords(t *testing.T) {
	t.Parallel()
	asks := func(wake string, depth int) sm.Pending { // ship, asked for by the result
		id := sm.EffectID("r1", sm.ResultEventID(e1), 0)
		p := sm.Pending{
			ID: id, Effect: "parcel.ship", Input: json.RawMessage(`"o1"`), Print: sm.Fingerprint("parcel.ship", []byte(`"o1"`)),
			Place: sm.Inline, Wake: wake, Depth: depth, Rev: 4, At: t2, Try: 1, Attempt: 1,
		}
		if wake == "" {
			p.Place = sm.Queued
		}
		return p
	}
	paid := func(r *sm.Record) {
		r.To = "ship"
		r.Frames = []sm.Frame{{Kind: sm.FrameRoot, State: "ship", Visit: 1, Visits: map[string]int{"ship": 1}}}
		r.Data = json.RawMessage(`{"id":"o1","total":12,"paid":true,"seen":"2026-01-02T03:04:06Z"}`)
		r.Events[0].Body = json.RawMessage(`{"ok":true}`)
	}
	cause := func(class string) *sm.Cause {
		return &sm.Cause{Class: class, Message: "no", State: "pay", Effect: "card.pay", Attempt: 2}
	}
	retried := func(attempt int) func(r *sm.Record) {
		return func(r *sm.Record) {
			p := r.Pending[0]
			p.Place, p.Wake, p.Depth, p.Rev, p.At, p.Try, p.Attempt, p.RetryAt = sm.Retry, "", 0, 4, t2, 3, attempt, &t3
			p.Cause = cause("http")
			r.Pending = []sm.Pending{p}
			r.Events[0].Cause = cause("http")
			r.Outbox = []sm.Entry{{Kind: sm.EntryTimer, ID: e1, Effect: "card.pay", Try: 3, Due: &t3}}
		}
	}
	queued := func(r *sm.Record) {
		p := r.Pending[0]
		p.Place, p.Wake, p.Depth, p.Rev, p.At, p.RetryAt = sm.Queued, "", 0, 4, t2, nil
		r.Pending = []sm.Pending{p}
		r.Outbox = []sm.Entry{{Kind: sm.EntryEffect, ID: e1, Effect: "card.pay"}}
	}
	parked := func(r *sm.Record) {
		p := r.Pending[0]
		p.Place, p.Wake, p.Depth, p.Rev, p.At, p.Cause = sm.Parked, "", 0, 4, t2, cause("http")
		r.Pending = []sm.Pending{p}
		r.Events[0].Cause, r.Cause, r.Status = cause("http"), cause("http"), sm.StatusParked
		letter := sm.Letter{
			ID: e1 + ":2", Run: "r1", Machine: "order", State: "pay", Effect: "card.pay", EffectID: e1, Key: e1,
			Input: p.Input, Class: "http", Cause: "no", Attempts: 2,
			Print: sm.FaultPrint("order", "pay", "card.pay", "http", "no"), First: t0, Last: t1, Build: "b2",
		}
		body, _ := json.Marshal(letter)
		r.Outbox = []sm.Entry{{Kind: sm.EntryLetter, ID: e1 + ":2", Effect: "card.pay", Body: body}}
	}
	caught := func(wake string, depth int) func(r *sm.Record) {
		return func(r *sm.Record) {
			id := sm.EffectID("r1", sm.FailureEventID(e1, 2), 0)
			p := sm.Pending{
				ID: id, Effect: "email.send", Input: json.RawMessage(`"card refused: declined"`),
				Print: sm.Fingerprint("email.send", []byte(`"card refused: declined"`)),
				Place: sm.Inline, Wake: wake, Depth: depth, Rev: 4, At: t2, Try: 1, Attempt: 1,
			}
			r.To, r.Pending, r.Events[0].Cause = "apology", []sm.Pending{p}, cause("declined")
			r.Frames = []sm.Frame{{Kind: sm.FrameRoot, State: "apology", Visit: 1, Cause: cause("declined")}}
		}
	}
	free := failureEvent(2, &t3, "http")
	free.Free = true
	refused := resultEvent()
	refused.Body = json.RawMessage(`{"ok":false}`)
	tests := []struct {
		name  string
		place sm.Place
		event sm.Event
		want  func(r *sm.Record) // changes what the record after has in any case
	}{
		{"result inline: its wake is inherited", sm.Inline, resultEvent(), func(r *sm.Record) {
			paid(r)
			r.Pending = []sm.Pending{asks(sm.StartEventID, 5)}
		}},
		{"result queued: the effect is the wake", sm.Queued, resultEvent(), func(r *sm.Record) {
			paid(r)
			r.Pending = []sm.Pending{asks(sm.EffectWake(e1), 0)}
		}},
		{"result while it waits: what follows is queued", sm.Retry, resultEvent(), func(r *sm.Record) {
			paid(r)
			r.Pending = []sm.Pending{asks("", 0)}
			r.Outbox = []sm.Entry{{Kind: sm.EntryEffect, ID: r.Pending[0].ID, Effect: "parcel.ship"}}
		}},
		{"result while parked: the run goes on", sm.Parked, resultEvent(), func(r *sm.Record) {
			paid(r)
			r.Status, r.Cause = sm.StatusRunning, nil
			r.Pending = []sm.Pending{asks("", 0)}
			r.Outbox = []sm.Entry{{Kind: sm.EntryEffect, ID: r.Pending[0].ID, Effect: "parcel.ship"}}
		}},
		{"result that ends the run", sm.Queued, refused, func(r *sm.Record) {
			r.To, r.Status, r.Pending = "refused", sm.StatusFailed, nil
			r.Frames = []sm.Frame{{Kind: sm.FrameRoot, State: "refused", Visit: 1}}
			r.Data = json.RawMessage(`{"id":"o1","total":12,"seen":"2026-01-02T03:04:06Z"}`)
			r.Cause = &sm.Cause{Class: "payment_refused", Message: "card refused: ", State: "refused"}
			r.Outbox = []sm.Entry{{Kind: sm.EntryFinished, ID: "finished"}}
		}},
		{"failure inline", sm.Inline, failureEvent(2, &t3, "http"), retried(3)},
		{"failure queued", sm.Queued, failureEvent(2, &t3, "http"), retried(3)},
		{"failure that spends nothing", sm.Queued, free, retried(2)},
		{"given up inline", sm.Inline, failureEvent(2, nil, "http"), parked},
		{"given up queued", sm.Queued, failureEvent(2, nil, "http"), parked},
		{"given up and caught, inline", sm.Inline, failureEvent(2, nil, "declined"), caught(sm.StartEventID, 5)},
		{"given up and caught, queued", sm.Queued, failureEvent(2, nil, "declined"), caught(sm.EffectWake(e1), 0)},
		{"due", sm.Retry, dueEvent(2, t3), func(r *sm.Record) {
			r.At = t3
			queued(r)
			r.Pending[0].At = t3
		}},
		{"queue", sm.Inline, queueEvent(), queued},
		{"signal", sm.Parked, signalEvent("s1"), func(r *sm.Record) {
			r.Events[0].Body = json.RawMessage(`[1]`)
			r.Inbox = append(r.Inbox, sm.InboxSignal{ID: "signal:s1", Name: "hurry", At: t1, Seq: 9, Body: json.RawMessage(`[1]`)})
			r.Applied = append(r.Applied, "signal:s1")
		}},
	}
	d := orders().Definitions()[0]
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			from, untouched := before(tt.place), before(tt.place)
			f := d.Begin("r1", from, env())
			if o, err := f.Apply(tt.event); o != sm.Applied || err != nil {
				t.Fatalf("Apply = %v, %v, want applied", o, err)
			}
			got := seal(t, f)
			e := tt.event
			e.ID, e.Name = got.Events[0].ID, got.Events[0].Name
			want := after(before(tt.place), e)
			tt.want(&want)
			if diff := cmp.Diff(&want, got.Record, cmpopts.IgnoreFields(sm.Record{}, "Txid"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("record after differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(untouched.Record, from.Record); diff != "" {
				t.Errorf("the fold changed the record before (-want +got):\n%s", diff)
			}
			if err := d.Refold(from, got.Record, nil); err != nil {
				t.Errorf("Refold: %v", err)
			}
		})
	}
}

// TestFirstRecord compares the whole record of a start.
func TestFirstRecord(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	f := d.Begin("r1", nil, env())
	if o, err := f.Apply(startEvent(` {"id":"o1", "total":12}`)); o != sm.Applied || err != nil {
		t.Fatalf("Apply = %v, %v, want applied", o, err)
	}
	if o, err := f.Apply(startEvent(`{"id":"o1","total":12}`)); o != sm.Duplicate || err != nil {
		t.Errorf("Apply of the same start again = %v, %v, want duplicate", o, err)
	}
	got := seal(t, f)
	body := json.RawMessage(`{"id":"o1","total":12}`)
	want := &sm.Record{
		V: 1, Run: "r1", Machine: "order", Version: 1, Def: d.Hash, Rev: 1, At: t2, Started: t2, Build: "b2", By: "w2",
		Events: []sm.Event{{ID: "start", Kind: sm.EventStart, At: t1, Seq: 7, Body: body}},
		To:     "pay", Status: sm.StatusRunning, Frames: []sm.Frame{{Kind: sm.FrameRoot, State: "pay", Visit: 1}},
		Data: body, Index: map[string]string{"id": "o1"}, Input: sm.Fingerprint("order", body),
		Pending: []sm.Pending{{
			ID: e1, Effect: "card.pay", Input: json.RawMessage(`{"order":"o1","amount":12}`),
			Print: sm.Fingerprint("card.pay", []byte(`{"order":"o1","amount":12}`)), Place: sm.Inline, Wake: "start",
			Rev: 1, At: t2, Try: 1, Attempt: 1, Timeout: sm.Duration(time.Minute),
		}},
	}
	if diff := cmp.Diff(want, got.Record, cmpopts.IgnoreFields(sm.Record{}, "Txid"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("first record differs (-want +got):\n%s", diff)
	}
	if err := d.Refold(nil, got.Record, nil); err != nil {
		t.Errorf("Refold: %v", err)
	}
}

func seal(t testing.TB, f *sm.Fold) *sm.Sealed {
	t.Helper()
	s, err := f.Seal()
	if err != nil {
		t.Fatalf("Seal: %v", err)
	}
	if !sm.VerifyTxid(s.Bytes) {
		t.Errorf("the txid does not fit the record %s", s.Bytes)
	}
	back, err := sm.Decode(s.Bytes)
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	if diff := cmp.Diff(s.Record, back, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the record does not read back (-want +got):\n%s", diff)
	}
	return s
}
