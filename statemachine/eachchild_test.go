package statemachine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	sm "github.com/pawlrun/pawl/statemachine"
)

const doubles sm.Ref[int, string] = "doubles"

func eachChildren(limit int) *sm.EachChildAction[batch, int] {
	return sm.EachChild((*batch).items, limit, doubles, nil, (*batch).got)
}

// ending is how the child of an item ends.
func ending(p *sm.Pending, says func(input string) string) sm.Event {
	e := answerOf(p, t1, says)
	return sm.Event{Kind: sm.EventChild, Effect: p.ID, Name: p.Child.Run, At: t1, Body: e.Body, Cause: e.Cause}
}

// TestEachChildTakesEndsInOrder: so many runs at once, and out is called in the
// order of the items, with the cause of those that failed.
func TestEachChildTakesEndsInOrder(t *testing.T) {
	t.Parallel()
	fails := func(input string) string {
		if input == "2" {
			return "!bad"
		}
		return "r" + input
	}
	d := batchMachine(eachChildren(3).ID(func(_ *batch, i int) string { return strings.Repeat("x", i) }), nil)
	r := begin(t, d, `{"n":5}`)
	if len(r.Pending) != 3 || r.Pending[2].Child.Run != "xxx" || r.Pending[2].Place != sm.ChildRun || outboxOf(r) != "child child child" {
		t.Fatalf("under way: %+v, outbox %s", r.Pending, outboxOf(r))
	}
	for _, n := range []int{3, 2, 1, 5, 4} {
		answer := ending(item(t, r, n), fails)
		r = next(t, d, r, answer)
		if o := outcomeOf(t, d, r, answer); o != sm.Stale && o != sm.Ended {
			t.Errorf("the end of %d again is %s", n, o)
		}
	}
	if got := dataOf(t, r).Got; r.Status != sm.StatusSucceeded || !slices.Equal(got, []string{"1=r1", "2: bad", "3=r3", "4=r4", "5=r5"}) {
		t.Errorf("%s, %v", r.Status, got)
	}
}

// TestEachChildStopsTheRest: one that fails too many ends the others, and so does
// the end of the run.
func TestEachChildStopsTheRest(t *testing.T) {
	t.Parallel()
	d := batchMachine(eachChildren(3).Tolerate(0), func(s *sm.State[batch]) { s.Catch("*", "lost") })
	r := begin(t, d, `{"n":5}`)
	lost := next(t, d, r, ending(item(t, r, 1), func(string) string { return "!bad" }))
	if lost.Status != sm.StatusFailed || lost.Cause.Message != "bad" || outboxOf(lost) != "stop stop finished" {
		t.Errorf("one failed: %s, %+v, outbox %s", lost.Status, lost.Cause, outboxOf(lost))
	}
	for _, kind := range []sm.EventKind{sm.EventCancel, sm.EventTerminate} {
		end := next(t, d, r, sm.Event{ID: sm.CommandEventID("c"), Kind: kind, At: t2})
		if end.Status != sm.StatusCancelled || outboxOf(end) != "stop stop stop finished" {
			t.Errorf("%s: %s, outbox %s", kind, end.Status, outboxOf(end))
		}
	}
	free := batchMachine(eachChildren(3).Abandon(), nil)
	r = begin(t, free, `{"n":2}`)
	if end := next(t, free, r, sm.Event{ID: sm.CommandEventID("c"), Kind: sm.EventCancel, At: t2}); outboxOf(end) != "finished" {
		t.Errorf("abandoned ones: outbox %s", outboxOf(end))
	}
	paused := next(t, d, begin(t, d, `{"n":5}`), sm.Event{ID: sm.CommandEventID("p"), Kind: sm.EventPause, At: t1})
	paused = next(t, d, paused, ending(item(t, paused, 1), yes))
	if p := item(t, paused, 4); p.Place != sm.Held || outboxOf(paused) != "" {
		t.Errorf("asked while the run is paused: %+v", p)
	}
}

// TestEachChildParks: a child that failed and is not tolerated is started anew
// when a person says so, as another run.
func TestEachChildParks(t *testing.T) {
	t.Parallel()
	d := batchMachine(eachChildren(2).Tolerate(0), nil)
	r := begin(t, d, `{"n":2}`)
	first := item(t, r, 1).Child.Run
	r = next(t, d, r, ending(item(t, r, 1), func(string) string { return "!bad" }))
	r = next(t, d, r, ending(item(t, r, 2), yes))
	if r.Status != sm.StatusParked || len(r.Pending) != 1 {
		t.Fatalf("%s, %+v", r.Status, r.Pending)
	}
	c, _ := json.Marshal(sm.Command{Effect: r.Pending[0].ID})
	r = next(t, d, r, sm.Event{ID: sm.CommandEventID("1"), Kind: sm.EventRedrive, At: t2, Body: c})
	if p := item(t, r, 1); p.Child.Run != first+":2" || outboxOf(r) != "child" {
		t.Fatalf("redriven: %+v, outbox %s", p, outboxOf(r))
	}
	r = next(t, d, r, ending(item(t, r, 1), yes))
	if got := dataOf(t, r).Got; r.Status != sm.StatusSucceeded || !slices.Equal(got, []string{"1=r1", "2=r2"}) {
		t.Errorf("%s, %v", r.Status, got)
	}
}

// TestEachChildOfPicks: the machine is chosen for each item.
func TestEachChildOfPicks(t *testing.T) {
	t.Parallel()
	pick := func(_ *batch, i int) (string, json.RawMessage) {
		return []string{"odd", "even"}[(i+1)%2], json.RawMessage(`{ "i": 1 }`)
	}
	d := batchMachine(sm.EachChildOf((*batch).items, 2, pick, func(b *batch, _ int, r sm.Result[json.RawMessage]) { b.Got = append(b.Got, string(r.Value)) }).
		LimitOf(func(b *batch) int { return b.N }), nil)
	r := begin(t, d, `{"n":3}`)
	if len(r.Pending) != 3 || r.Pending[1].Child.Machine != "even" || string(r.Pending[1].Input) != `{"i":1}` {
		t.Fatalf("%+v", r.Pending)
	}
	for n := 3; n > 0; n-- {
		r = next(t, d, r, ending(item(t, r, n), yes))
	}
	if got := dataOf(t, r).Got; !slices.Equal(got, []string{`"r{\"i\":1}"`, `"r{\"i\":1}"`, `"r{\"i\":1}"`}) {
		t.Errorf("%s, %q", r.Status, got)
	}
}

// TestEachChildIsChecked reports what is wrong when the fleet starts, and
// describes what is right.
func TestEachChildIsChecked(t *testing.T) {
	t.Parallel()
	m := sm.New[batch]("batch", 1)
	m.State("fan", sm.EachChild((*batch).items, 201, sm.Ref[int, string]("No Name"), nil, (*batch).got))
	m.State("none", sm.EachChildOf[batch, int](nil, 3, nil, nil))
	m.Succeed("done")
	err := m.Definitions()[0].Check()
	for _, want := range []string{`Each of 201 at once: it is 1 to 200`, `child of machine "No Name": not a name`, `Each has no function that gives the items, or none that picks a machine`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no fault says %q:\n%v", want, err)
		}
	}
	missing := new(sm.Catalog).Add(machines{batchMachine(eachChildren(3), nil)}).Check()
	if missing == nil || !strings.Contains(missing.Error(), `child of machine "doubles", which is not in the catalog`) {
		t.Errorf("a machine that nobody has: %v", missing)
	}
	all := batchMachine(sm.All(sm.Branch("a", sm.Child(doubles, (*batch).first, nil))), func(s *sm.State[batch]) { s.Catch("*", "lost") })
	if err := all.Check(); err != nil {
		t.Errorf("a Catch of a child that is a branch: %v", err)
	}
	d := batchMachine(eachChildren(3), nil)
	if s := d.States()[0]; s.Machine != "doubles" || s.Limit != 3 || !strings.Contains(d.Diagram(), "fan: runs doubles for each, 3 at once") {
		t.Errorf("described as %+v", s)
	}
}

func (b *batch) first() int { return 1 }

// machines are compiled.
type machines []*sm.Definition

func (m machines) Definitions() []*sm.Definition { return m }
