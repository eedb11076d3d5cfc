package statemachine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// trial is the data of a machine that sleeps, listens and is late.
type trial struct {
	sm.Meta
	Nap    sm.Duration `json:"nap"`
	Limit  sm.Duration `json:"limit"`
	Said   []string    `json:"said"`
	Caught string      `json:"caught"`
	Broken bool        `json:"broken"`
}

type word struct {
	Text string `json:"text"`
}

const tick sm.Effect[string, string] = "tick"

func (d *trial) nap() time.Duration   { return time.Duration(d.Nap) }
func (d *trial) limit() time.Duration { return time.Duration(d.Limit) }
func (d *trial) hear(w word) {
	if d.Broken && w.Text == "boom" {
		panic("cannot hear that")
	}
	d.Said = append(d.Said, w.Text)
}

// trials sleeps, then waits for "word", then calls an effect that may take a
// second.
func trials() *sm.Machine[trial] {
	m := sm.New[trial]("trial", 1)
	m.Deadline(time.Hour)
	m.State("sleep", sm.Sleep((*trial).nap, nil)).Then("listen")
	m.State("listen", sm.Signal("word", (*trial).hear)).WithinOf((*trial).limit, "late")
	m.State("call", sm.Call[trial](tick, nil, nil)).Within(time.Second, "late").Catch("*", "late")
	m.Succeed("done")
	m.State("late", sm.SignalOf(func(*trial) string { return "anything" }, func(d *trial, v json.RawMessage) {
		d.Said, d.Caught = append(d.Said, string(v)), d.Cause().Class+": "+d.Cause().Message
	})).Forever().Then("done")
	return m
}

func dueOf(w sm.Wait, at time.Time) sm.Event {
	return sm.Event{Kind: sm.EventDue, Effect: w.ID, Try: w.Try, At: at}
}

func word1(id, text string, at time.Time) sm.Event {
	return sm.Event{ID: sm.SignalEventID(id), Kind: sm.EventSignal, Name: "word", At: at, Body: json.RawMessage(`{"text":"` + text + `"}`)}
}

// of returns the wait of a kind.
func of(t *testing.T, r *sm.Stored, kind sm.WaitKind) sm.Wait {
	t.Helper()
	i := slices.IndexFunc(r.Waits, func(w sm.Wait) bool { return w.Kind == kind })
	if i < 0 {
		t.Fatalf("the run waits for no %s: %+v", kind, r.Waits)
	}
	return r.Waits[i]
}

func kinds(r *sm.Stored) string {
	var all []string
	for _, w := range r.Waits {
		all = append(all, string(w.Kind))
	}
	return strings.Join(all, " ")
}

// next folds one event, and folds it again.
func next(t *testing.T, d *sm.Definition, from *sm.Stored, e sm.Event) *sm.Stored {
	t.Helper()
	f := d.Begin("r1", from, sm.Env{Now: e.At, Build: "v1", By: "w"})
	if o, err := f.Apply(e); err != nil || o != sm.Applied {
		t.Fatalf("Apply(%s) = %v, %v", e.Kind, o, err)
	}
	r := seal(t, f)
	again, err := sm.Decode(r.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	r.Record = again
	if err := d.Refold(from, again, nil); err != nil {
		t.Error(err)
	}
	r.Seq = 7
	if from != nil {
		r.Seq = from.Seq + 1
	}
	return &r.Stored
}

// TestADelayedStart makes a run that begins later: until then it is nowhere and
// does nothing, it can be told things, and be cancelled.
func TestADelayedStart(t *testing.T) {
	d := trials().Definitions()[0]
	in := func(body string, at time.Time) sm.Event {
		e := startEvent(body)
		e.At, e.Due = t0, &at
		return e
	}
	later := t0.Add(48 * time.Hour)
	r := next(t, d, nil, in(`{"nap":"1s","limit":"1m"}`, later))
	if r.V != 5 || r.Status != sm.StatusRunning || r.To != "sleep" || r.Frames[0].Visit != 0 || kinds(r) != "start" || len(r.Outbox) != 1 || !r.Outbox[0].Due.Equal(later) {
		t.Fatalf("the record of the start: %s", r.Bytes)
	}
	w := of(t, r, sm.WaitStart)
	if o := outcomeOf(t, d, r, dueOf(w, later.Add(-time.Nanosecond))); o != sm.Early {
		t.Errorf("before its time: %v", o)
	}
	for at, want := range map[time.Time]sm.Outcome{later: sm.Duplicate, t0.Add(time.Hour): sm.Duplicate} {
		if o := outcomeOf(t, d, r, in(`{"nap":"1s","limit":"1m"}`, at)); o != want {
			t.Errorf("the same start, for %s: %v, want %v", at, o, want)
		}
	}
	if o := outcomeOf(t, d, r, in(`{"nap":"2s"}`, later)); o != sm.Conflict {
		t.Errorf("another start: %v", o)
	}
	told := next(t, d, r, word1("s1", "early", t0.Add(time.Hour)))
	if len(told.Inbox) != 1 || kinds(told) != "start" {
		t.Errorf("told something: %s", told.Bytes)
	}
	begun := next(t, d, told, dueOf(w, later))
	if kinds(begun) != "deadline sleep" || begun.Frames[0].Visit != 1 || len(begun.Inbox) != 1 || !of(t, begun, sm.WaitDeadline).Due.Equal(later.Add(time.Hour)) {
		t.Errorf("begun: %s", begun.Bytes)
	}
	cancel := commandEvent(sm.EventCancel, "c1", sm.Command{By: "anna"})
	cancel.At = t0.Add(time.Hour)
	if c := next(t, d, r, cancel); c.Status != sm.StatusCancelled || len(c.Waits) != 0 {
		t.Errorf("cancelled: %s", c.Bytes)
	}
	if now := next(t, d, nil, in(`{"nap":"1s","limit":"1m"}`, t0)); now.V != 5 || kinds(now) != "deadline sleep" {
		t.Errorf("a start whose time has passed: %s", now.Bytes)
	}
	_, err := d.Begin("r1", nil, sm.Env{Now: t0}).Apply(in(`{"nap":"1s"}`, t0.AddDate(11, 0, 0)))
	if sm.ClassOf(err) != sm.ClassInvalidInput {
		t.Errorf("in eleven years: %v", err)
	}
}

// outcomeOf applies an event that does nothing.
func outcomeOf(t *testing.T, d *sm.Definition, from *sm.Stored, e sm.Event) sm.Outcome {
	t.Helper()
	o, err := d.Begin("r1", from, sm.Env{Now: e.At}).Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func trialStart(t *testing.T, d *sm.Definition, input string) *sm.Stored {
	t.Helper()
	return next(t, d, nil, sm.Event{ID: sm.StartEventID, Kind: sm.EventStart, At: t0, Body: json.RawMessage(input)})
}

// TestSleepIsOverAtItsTime: not before, and once.
func TestSleepIsOverAtItsTime(t *testing.T) {
	t.Parallel()
	d := trials().Definitions()[0]
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	r := trialStart(t, d, `{"nap":"250ms","limit":"1m"}`)
	if kinds(r) != "deadline sleep" || len(r.Outbox) != 2 || r.V != 4 {
		t.Fatalf("waits %q, outbox %+v, version %d", kinds(r), r.Outbox, r.V)
	}
	w := of(t, r, sm.WaitSleep)
	if want := t0.Add(250 * time.Millisecond); !w.Due.Equal(want) {
		t.Errorf("due %s, want %s", w.Due, want)
	}
	if e := r.Outbox[1]; e.Kind != sm.EntryTimer || e.ID != w.ID || e.Try != 1 || !e.Due.Equal(*w.Due) || e.Effect != sm.TimerEffect {
		t.Errorf("outbox %+v", e)
	}
	if o := outcomeOf(t, d, r, dueOf(w, w.Due.Add(-time.Nanosecond))); o != sm.Early {
		t.Errorf("before its time: %v", o)
	}
	after := next(t, d, r, dueOf(w, *w.Due))
	if after.To != "listen" || kinds(after) != "deadline signal within" {
		t.Errorf("state %s waits for %q", after.To, kinds(after))
	}
	if o := outcomeOf(t, d, after, dueOf(w, w.Due.Add(time.Second))); o != sm.Stale {
		t.Errorf("once more: %v", o)
	}
}

// TestSleepOfNothing passes at once; what is no time is refused.
func TestSleepOfNothing(t *testing.T) {
	t.Parallel()
	d := trials().Definitions()[0]
	if r := trialStart(t, d, `{"nap":"0s","limit":"1m"}`); r.To != "listen" {
		t.Errorf("state %s", r.To)
	}
	for _, input := range []string{`{"nap":"-1s"}`, `{"nap":"87601h"}`, `{"nap":"0s","limit":"-1s"}`, `{"nap":"0s","limit":"87601h"}`} {
		_, err := d.Begin("r1", nil, env()).Apply(sm.Event{ID: sm.StartEventID, Kind: sm.EventStart, At: t0, Body: json.RawMessage(input)})
		if sm.ClassOf(err) != sm.ClassInvalidData || !strings.Contains(fmt.Sprint(err), "it is 0 to 87600h0m0s") {
			t.Errorf("%s: %v", input, err)
		}
	}
}

// TestASignalIsTakenOnce: before the wait, in it, twice; the oldest first.
func TestASignalIsTakenOnce(t *testing.T) {
	t.Parallel()
	d := trials().Definitions()[0]
	r := trialStart(t, d, `{"nap":"1s","limit":"1m"}`)
	early := word1("s2", "second", t1)
	early.Seq = 20
	r = next(t, d, r, early)
	early = word1("s1", "first", t1)
	early.Seq = 10
	r = next(t, d, r, early)
	if o := outcomeOf(t, d, r, early); o != sm.Duplicate {
		t.Errorf("the same signal again: %v", o)
	}
	if len(r.Inbox) != 2 || r.To != "sleep" {
		t.Fatalf("inbox %+v in state %s", r.Inbox, r.To)
	}
	r = next(t, d, r, dueOf(of(t, r, sm.WaitSleep), t0.Add(time.Second)))
	if r.To != "call" || len(r.Inbox) != 1 || !strings.Contains(string(r.Data), `"said":["first"]`) || kinds(r) != "deadline within" {
		t.Errorf("state %s waits for %q, inbox %+v, data %s", r.To, kinds(r), r.Inbox, r.Data)
	}
	if o := outcomeOf(t, d, r, early); o != sm.Duplicate {
		t.Errorf("the same signal after it was taken: %v", o)
	}

	r = trialStart(t, d, `{"nap":"0s","limit":"1m"}`)
	r = next(t, d, r, word1("s1", "now", t1))
	if r.To != "call" || len(r.Inbox) != 0 || !slices.Contains(r.Applied, "signal:s1") || r.Pending[0].ID != sm.EffectID("r1", "signal:s1", 0) {
		t.Errorf("state %s, inbox %+v, applied %v, pending %+v", r.To, r.Inbox, r.Applied, r.Pending)
	}
}

// TestASignalThatDoesNotFitIsRefused when it comes, whether or not the run
// waits for it.
func TestASignalThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	d := trials().Definitions()[0]
	for _, nap := range []string{"0s", "1s"} {
		r := trialStart(t, d, `{"nap":"`+nap+`","limit":"1m","broken":true}`)
		bad := word1("s1", "x", t1)
		bad.Body = json.RawMessage(`{"text":7}`)
		f := d.Begin("r1", r, env())
		_, err := f.Apply(bad)
		if want := "invalid_input in state listen: signal word: field text: number given where string is expected"; fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
		if o, err := f.Apply(word1("s1", "x", t1)); o != sm.Applied || err != nil {
			t.Errorf("one that fits: %v, %v", o, err)
		}
	}
	r := trialStart(t, d, `{"nap":"0s","limit":"1m","broken":true}`)
	if _, err := d.Begin("r1", r, env()).Apply(word1("s1", "boom", t1)); sm.ClassOf(err) != sm.ClassPanic {
		t.Errorf("a callback that panics: %v", err)
	}
}

// TestAStateThatTakesTooLong is left, whatever it waits for; what comes later is
// stale.
func TestAStateThatTakesTooLong(t *testing.T) {
	t.Parallel()
	d := trials().Definitions()[0]
	r := trialStart(t, d, `{"nap":"0s","limit":"1m"}`)
	late := next(t, d, r, dueOf(of(t, r, sm.WaitWithin), t0.Add(time.Minute)))
	if late.To != "late" || kinds(late) != "deadline signal" || late.Frames[0].Cause.Class != sm.ClassDeadline {
		t.Errorf("state %s waits for %q, cause %+v", late.To, kinds(late), late.Frames[0].Cause)
	}
	heard := sm.Event{ID: "signal:a", Kind: sm.EventSignal, Name: "anything", At: t0.Add(time.Minute)}
	if end := next(t, d, late, heard); end.Status != sm.StatusSucceeded || len(end.Waits) != 0 || !strings.Contains(string(end.Data), `"caught":"deadline: state listen was not done within 1m0s"`) {
		t.Errorf("status %s, waits %+v, data %s", end.Status, end.Waits, end.Data)
	}

	call := next(t, d, r, word1("s1", "go", t1))
	id := call.Pending[0].ID
	w := of(t, call, sm.WaitWithin)
	for name, before := range map[string]*sm.Stored{
		"under way":                call,
		"waiting for its next try": next(t, d, call, sm.Event{Kind: sm.EventFailure, Effect: id, Try: 1, At: t1, RetryAt: w.Due}),
		"held":                     next(t, d, call, sm.Event{ID: "cmd:p", Kind: sm.EventPause, At: t1}),
	} {
		after := next(t, d, before, dueOf(w, *w.Due))
		if after.To != "late" || len(after.Pending) != 0 || kinds(after) != "deadline signal" {
			t.Errorf("%s: state %s waits for %q, pending %+v", name, after.To, kinds(after), after.Pending)
		}
		if o := outcomeOf(t, d, after, sm.Event{Kind: sm.EventResult, Effect: id, At: *w.Due, Body: json.RawMessage(`""`)}); o != sm.Stale {
			t.Errorf("%s: a result that is late: %v", name, o)
		}
	}
	done := next(t, d, call, sm.Event{Kind: sm.EventResult, Effect: id, At: t1, Body: json.RawMessage(`""`)})
	if done.Status != sm.StatusSucceeded || len(done.Waits) != 0 {
		t.Errorf("in time: %s, waits %+v", done.Status, done.Waits)
	}
	if o := outcomeOf(t, d, done, dueOf(w, *w.Due)); o != sm.Stale {
		t.Errorf("the bound of a run that has ended: %v", o)
	}
}

// TestARunThatTakesTooLong fails, from wherever it is.
func TestARunThatTakesTooLong(t *testing.T) {
	t.Parallel()
	d := trials().Definitions()[0]
	r := trialStart(t, d, `{"nap":"2h","limit":"1m"}`)
	w := of(t, r, sm.WaitDeadline)
	end := next(t, d, r, dueOf(w, t0.Add(time.Hour)))
	if end.Status != sm.StatusFailed || end.Cause.Class != sm.ClassDeadline || end.Cause.Message != "the run was not over within 1h0m0s" || len(end.Waits) != 0 {
		t.Errorf("status %s, cause %+v, waits %+v", end.Status, end.Cause, end.Waits)
	}
	if last := end.Outbox[len(end.Outbox)-1]; last.Kind != sm.EntryFinished || len(end.Outbox) != 1 {
		t.Errorf("outbox %+v", end.Outbox)
	}
	if cancelled := next(t, d, r, sm.Event{ID: "cmd:c", Kind: sm.EventCancel, At: t1}); len(cancelled.Waits) != 0 {
		t.Errorf("a cancelled run waits: %+v", cancelled.Waits)
	}
}

// TestAWaitAfterWhichTheMachineCannotGoOn parks the run, with a letter; it goes
// on when it is redriven.
func TestAWaitAfterWhichTheMachineCannotGoOn(t *testing.T) {
	t.Parallel()
	d := stucks()
	r := trialStart(t, d, `{"nap":"1s"}`)
	w := of(t, r, sm.WaitSleep)
	parked := next(t, d, r, dueOf(w, *w.Due))
	if parked.Status != sm.StatusParked || parked.Cause.Class != sm.ClassPanic || parked.To != "sleep" || parked.Waits[0].Cause == nil {
		t.Fatalf("status %s, cause %+v, waits %+v", parked.Status, parked.Cause, parked.Waits)
	}
	var letter sm.Letter
	if err := json.Unmarshal(parked.Outbox[0].Body, &letter); err != nil || parked.Outbox[0].Kind != sm.EntryLetter || letter.EffectID != w.ID || letter.Effect != sm.TimerEffect || letter.Class != sm.ClassPanic {
		t.Errorf("letter %+v, %v", letter, err)
	}
	if o := outcomeOf(t, d, parked, dueOf(w, *w.Due)); o != sm.Stale {
		t.Errorf("its timer once more: %v", o)
	}
	mended := trialStuck(false)
	again := next(t, d, parked, sm.Event{ID: "cmd:r", Kind: sm.EventRedrive, At: w.Due.Add(time.Minute), Body: json.RawMessage(`{"effect":"` + w.ID + `","try":1}`)})
	if again.Status != sm.StatusRunning || again.Cause != nil || again.Waits[0].Try != 2 || again.Outbox[0].Kind != sm.EntryTimer {
		t.Fatalf("status %s, waits %+v, outbox %+v", again.Status, again.Waits, again.Outbox)
	}
	if end := next(t, mended, again, dueOf(again.Waits[0], w.Due.Add(time.Minute))); end.Status != sm.StatusSucceeded {
		t.Errorf("status %s", end.Status)
	}
}

// TestFaultsOfWaits are reported at start.
func TestFaultsOfWaits(t *testing.T) {
	t.Parallel()
	m := sm.New[trial]("trial", 1)
	m.Deadline(-time.Second)
	m.State("a", sm.Sleep[trial](nil, nil)).Catch("x", "done").Forever()
	m.State("b", sm.Signal("Word", (*trial).hear))
	m.State("c", sm.SignalOf[trial](nil, nil)).Within(time.Hour, "nowhere").Forever()
	m.State("d", sm.Call[trial](tick, nil, nil)).Within(-time.Second, "done").Within(time.Second, "done").Undo(sm.Sleep((*trial).nap, nil))
	m.Decide("e").WithinOf(nil, "done")
	m.State("f", sm.Call[trial](tick, nil, nil)).WithinOf((*trial).limit, "done").WithinOf((*trial).limit, "done")
	m.State("g", sm.Signal("order.paid", (*trial).hear)).Forever()
	m.Succeed("done")
	got := fmt.Sprint(m.Definitions()[0].Check())
	for _, want := range []string{
		`Deadline of -1s: it is more than 0, at most 87600h0m0s`,
		`state "a": Catch in a state that performs no effect`,
		`state "a": Sleep has no function that says how long`,
		`state "a": Forever in a state that waits for no signal`,
		`state "b": signal "Word": not a name`,
		`state "b": waits for a signal: for how long? Say Within, or Forever`,
		`state "c": SignalOf has no function that names the signal`,
		`state "c": waits Forever, and Within a time`,
		`state "c": Within names no state: "nowhere"`,
		`state "d": has more than one Within`,
		`state "d": Undo that performs no effect`,
		`state "d": Within in a state with an Undo`,
		`state "e": Within in a state that waits for nothing`,
		`state "f": has more than one Within`,
		`state "g": signal "order.paid": not a name`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// TestARunThatTakesTooLongWaitsForNothing that is under way, unless there is, or
// may be, something to undo.
func TestARunThatTakesTooLongWaitsForNothing(t *testing.T) {
	t.Parallel()
	for _, undoes := range []bool{false, true} {
		m := sm.New[trial]("trial", 1)
		m.Deadline(time.Minute)
		call := m.State("call", sm.Call[trial](tick, nil, nil))
		if undoes {
			call.Undo(sm.Call[trial](tick, nil, nil))
		}
		m.Succeed("done")
		d := m.Definitions()[0]
		r := trialStart(t, d, `{}`)
		w := of(t, r, sm.WaitDeadline)
		end := next(t, d, r, dueOf(w, *w.Due))
		want := sm.StatusFailed
		if undoes {
			want = sm.StatusRunning
		}
		if end.Status != want || len(end.Waits) != 0 || len(end.Pending) > 0 != undoes {
			t.Errorf("with an Undo: %t; status %s, waits %+v, pending %+v", undoes, end.Status, end.Waits, end.Pending)
		}
	}
}

// TestARunIsNotParkedByAWaitThatIsOver: what could not be gone on from when the
// time had come does not matter once the state is left otherwise.
func TestARunIsNotParkedByAWaitThatIsOver(t *testing.T) {
	t.Parallel()
	m := sm.New[trial]("trial", 1)
	m.State("listen", sm.Signal("word", (*trial).hear)).WithinOf((*trial).limit, "late")
	m.State("sleep", sm.Sleep((*trial).limit, nil)).Then("done")
	m.Decide("late").When(func(*trial) bool { panic("not today") }, "done").Then("done")
	m.Succeed("done")
	d := m.Definitions()[0]
	r := trialStart(t, d, `{"limit":"1m"}`)
	w := of(t, r, sm.WaitWithin)
	parked := next(t, d, r, dueOf(w, *w.Due))
	if parked.Status != sm.StatusParked || parked.To != "listen" {
		t.Fatalf("status %s in state %s", parked.Status, parked.To)
	}
	on := next(t, d, parked, word1("s1", "at last", w.Due.Add(time.Second)))
	if on.Status != sm.StatusRunning || on.Cause != nil || on.To != "sleep" || kinds(on) != "sleep" {
		t.Errorf("status %s, cause %+v, in state %s, waits for %q", on.Status, on.Cause, on.To, kinds(on))
	}
	paused := next(t, d, parked, sm.Event{ID: "cmd:p", Kind: sm.EventPause, At: w.Due.Add(time.Second)})
	on = next(t, d, paused, word1("s1", "at last", w.Due.Add(2*time.Second)))
	if on.Status != sm.StatusPaused || on.Cause.Class != sm.ClassPaused || on.To != "sleep" {
		t.Errorf("while paused: status %s, cause %+v, in state %s", on.Status, on.Cause, on.To)
	}
}

// TestNoTimerIsOfAWaitForASignal, whatever a message claims.
func TestNoTimerIsOfAWaitForASignal(t *testing.T) {
	t.Parallel()
	d := trials().Definitions()[0]
	r := trialStart(t, d, `{"nap":"0s","limit":"1m"}`)
	if o := outcomeOf(t, d, r, dueOf(of(t, r, sm.WaitSignal), t0.Add(time.Hour))); o != sm.Stale {
		t.Errorf("its timer: %v", o)
	}
}
