package statemachine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

const mail, sms sm.Effect[string, string] = "mail", "sms"

func (b *batch) heard(v any) {
	if v != nil {
		b.Got = append(b.Got, "s")
	}
}

// branches are two effects, a sleep and a signal.
func branches() []sm.BranchAction[batch] {
	note := func(name string) func(*batch, string) {
		return func(b *batch, v string) { b.Got = append(b.Got, name+"="+v) }
	}
	return []sm.BranchAction[batch]{
		sm.Branch("mail", sm.Call(mail, nil, note("mail")).Key(func(b *batch) string { return b.RunID() + ":mail" })),
		sm.Branch("sms", sm.Call(sms, nil, note("sms"))),
		sm.Branch("pause", sm.Sleep(func(*batch) time.Duration { return time.Minute }, func(b *batch) { b.Got = append(b.Got, "woke") })),
		sm.Branch("word", sm.Signal("s", (*batch).heard)),
	}
}

func says(id, name string) sm.Event {
	return sm.Event{ID: sm.SignalEventID(id), Kind: sm.EventSignal, Name: name, At: t1, Body: json.RawMessage(`"hi"`)}
}

func done(p *sm.Pending, v string) sm.Event {
	return sm.Event{Kind: sm.EventResult, Effect: p.ID, At: t1, Body: json.RawMessage(`"` + v + `"`)}
}

func givenUp(p *sm.Pending, class string) sm.Event {
	return sm.Event{Kind: sm.EventFailure, Effect: p.ID, Try: p.Try, At: t1, Cause: &sm.Cause{Class: class, Message: "no"}}
}

func got(t *testing.T, r *sm.Stored) string { t.Helper(); return strings.Join(dataOf(t, r).Got, " ") }

// TestAllTakesEveryOutcomeInOrder: effects, a time and a signal, in whatever
// order; the last two at once.
func TestAllTakesEveryOutcomeInOrder(t *testing.T) {
	t.Parallel()
	d := batchMachine(sm.All(branches()...), func(s *sm.State[batch]) { s.Catch("full", "lost").Forever() })
	start := begin(t, d, `{}`)
	if len(start.Pending) != 2 || kinds(start) != "sleep signal" || start.Pending[0].Key != "r1:mail" {
		t.Fatalf("pending %+v, waits %+v", start.Pending, start.Waits)
	}
	r := next(t, d, start, says("1", "s"))
	r = next(t, d, r, done(item(t, r, 2), "two"))
	if got(t, r) != "" || len(r.Waits) != 1 {
		t.Fatalf("before the last: %q, waits %+v", got(t, r), r.Waits)
	}
	f := d.Begin("r1", r, env())
	for _, e := range []sm.Event{dueOf(of(t, r, sm.WaitSleep), t0.Add(time.Minute)), done(item(t, r, 1), "one")} {
		if o, err := f.Apply(e); o != sm.Applied || err != nil {
			t.Fatalf("%v, %v", o, err)
		}
	}
	both := &seal(t, f).Stored
	if got(t, both) != "mail=one sms=two woke s" || both.Status != sm.StatusSucceeded {
		t.Errorf("%s: %q", both.Status, got(t, both))
	}

	lost := next(t, d, r, givenUp(item(t, r, 1), "full"))
	if lost.Status != sm.StatusFailed || got(t, lost) != "" || len(lost.Waits)+len(lost.Pending) != 0 {
		t.Errorf("a branch failed: %s, %q, %+v", lost.Status, got(t, lost), lost.Waits)
	}
	parked := next(t, d, r, givenUp(item(t, r, 1), "odd"))
	parked = next(t, d, parked, dueOf(of(t, parked, sm.WaitSleep), t0.Add(time.Minute)))
	if parked.Status != sm.StatusParked {
		t.Fatalf("nothing catches it: %s", parked.Status)
	}
	c, _ := json.Marshal(sm.Command{Effect: parked.Pending[0].ID, Result: json.RawMessage(`"told"`)})
	r = next(t, d, parked, sm.Event{ID: sm.CommandEventID("1"), Kind: sm.EventResolve, At: t2, Body: c})
	if r.Status != sm.StatusSucceeded || got(t, r) != "mail=told sms=two woke s" {
		t.Errorf("resolved: %s, %q", r.Status, got(t, r))
	}
}

// TestFirstNAbandonsTheRest: late results are stale, timers are gone.
func TestFirstNAbandonsTheRest(t *testing.T) {
	t.Parallel()
	d := batchMachine(sm.FirstN(2, branches()...), func(s *sm.State[batch]) { s.Catch("full", "lost").Forever() })
	start := begin(t, d, `{}`)
	r := next(t, d, start, done(item(t, start, 2), "two"))
	if got(t, r) != "sms=two" || len(r.Pending) != 1 {
		t.Fatalf("after one: %q, %+v", got(t, r), r.Pending)
	}
	r = next(t, d, r, says("1", "s"))
	if got(t, r) != "sms=two s" || r.Status != sm.StatusSucceeded || len(r.Pending)+len(r.Waits) != 0 {
		t.Fatalf("after two: %s, %q, %+v %+v", r.Status, got(t, r), r.Pending, r.Waits)
	}
	if o := outcomeOf(t, d, r, done(item(t, start, 1), "late")); o != sm.Stale {
		t.Errorf("a late result is %s", o)
	}
	early := next(t, d, start, done(item(t, start, 2), "two"))
	early = next(t, d, early, givenUp(item(t, early, 1), "odd")) // two are left of which one is needed
	if early.Status != sm.StatusRunning || early.Frames[0].Fan.Failed != 1 {
		t.Errorf("one that does not count: %s, %+v", early.Status, early.Frames[0].Fan)
	}
}

// TestAnyFailsWithItsLast: only if no branch is left that may succeed.
func TestAnyFailsWithItsLast(t *testing.T) {
	t.Parallel()
	d := batchMachine(sm.Any(branches()[:2]...), func(s *sm.State[batch]) { s.Catch("full", "lost") })
	start := begin(t, d, `{}`)
	r := next(t, d, start, givenUp(item(t, start, 1), "full"))
	if r.Status != sm.StatusRunning {
		t.Fatalf("one failed: %s", r.Status)
	}
	if ok := next(t, d, r, done(item(t, r, 2), "two")); ok.Status != sm.StatusSucceeded || got(t, ok) != "sms=two" {
		t.Errorf("the other succeeded: %s, %q", ok.Status, got(t, ok))
	}
	if lost := next(t, d, r, givenUp(item(t, r, 2), "full")); lost.Status != sm.StatusFailed {
		t.Errorf("both failed: %s", lost.Status)
	}
	parked := next(t, d, r, givenUp(item(t, r, 2), "odd"))
	if parked.Status != sm.StatusParked || parked.Pending[0].Item != 2 {
		t.Fatalf("the last is not caught: %s", parked.Status)
	}
	parked = next(t, d, parked, sm.Event{ID: sm.CommandEventID("1"), Kind: sm.EventRedrive, At: t2})
	if r := next(t, d, parked, done(item(t, parked, 2), "two")); r.Status != sm.StatusSucceeded {
		t.Errorf("redriven: %s", r.Status)
	}
}

// TestBranchesTakeWhatIsThere: a signal that came before is taken at once.
func TestBranchesTakeWhatIsThere(t *testing.T) {
	t.Parallel()
	m := sm.New[batch]("batch", 1)
	m.State("first", sm.Call[batch](mail, nil, nil))
	m.State("any", sm.Any(sm.Branch("word", sm.Signal("s", (*batch).heard)), sm.Branch("sms", sm.Call[batch](sms, nil, nil)))).Within(time.Hour, "done")
	m.Succeed("done")
	d := m.Definitions()[0]
	r := next(t, d, begin(t, d, `{}`), says("1", "s"))
	r = next(t, d, r, done(&r.Pending[0], "sent"))
	if r.Status != sm.StatusSucceeded || got(t, r) != "s" || slices.ContainsFunc(r.Outbox, func(e sm.Entry) bool { return e.Kind == sm.EntryEffect }) {
		t.Errorf("%s, %q, outbox %+v", r.Status, got(t, r), r.Outbox)
	}
}

// TestManyFaults: what cannot be meant is said at the start.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	b := func(name string) sm.BranchAction[batch] { return sm.Branch(name, sm.Call[batch](mail, nil, nil)) }
	for want, a := range map[string]sm.Action[batch]{
		"Each of 0 at once: it is 1 to 200":            eaches(0),
		"Each of 201 at once: it is 1 to 200":          eaches(201),
		"Tolerate of -1 items: it is 0 or more":        eaches(1).Tolerate(-1),
		"EachOf has no tools":                          sm.EachOf[batch, int]((*batch).items, 1, nil, nil, nil),
		"Each has no function that gives the items":    sm.Each[batch, int](nil, 1, double, nil, (*batch).got),
		"has 0 branches, it may have 1 to 200":         sm.All[batch](),
		`branch "A": not a name`:                       sm.All(b("A")),
		`branch "a": declared twice`:                   sm.All(b("a"), b("a")),
		`branch "a": has no action`:                    sm.All(sm.Branch[batch]("a", nil)),
		`branch "a": does many at once`:                sm.All(sm.Branch("a", sm.All(b("b")))),
		"is done when 3 of 2 branches are":             sm.FirstN(3, b("a"), b("b")),
		"waits for a signal: for how long? Say Within": sm.Any(b("a"), sm.Branch("s", sm.Signal[batch, any]("s", nil))),
	} {
		err := batchMachine(a, nil).Check()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %q is missing", err, want)
		}
	}
	for want, change := range map[string]func(*sm.State[batch]){
		"Undo in a state that does many at once": func(s *sm.State[batch]) {
			s.Undo(sm.Call[batch](mail, nil, nil))
		},
		"never reached without Tolerate": func(s *sm.State[batch]) { s.Catch("*", "done") },
	} {
		if err := batchMachine(eaches(2), change).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %q is missing", err, want)
		}
	}
}
