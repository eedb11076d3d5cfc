package statemachine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sm "github.com/pawlrun/pawl/statemachine"
)

// study is the data of a machine that has visits made.
type study struct {
	sm.Meta
	ID      string `json:"id,omitempty"` // of the child, if it is given
	Site    string `json:"site"`
	Report  string `json:"report,omitempty"`
	Caught  string `json:"caught,omitempty"`
	Visited int    `json:"visited,omitempty"`
}

type visit struct {
	Site   string         `json:"site"`
	Report string         `json:"report,omitempty"`
	Notes  sm.Log[string] `json:"notes"`
}

const visits sm.Ref[visitInput, visitResult] = "visit"

type visitInput struct {
	Site string `json:"site"`
}
type visitResult struct {
	Report string `json:"report"`
}

func (s *study) site() visitInput      { return visitInput{s.Site} }
func (s *study) visited(v visitResult) { s.Report, s.Visited = v.Report, s.Visited+1 }
func (s *study) child() string         { return s.ID }
func (s *study) told() string {
	return s.Cause().Class + ": " + s.Cause().Message
}

// studies has a visit made, and tells of it. An abandoned one lives on.
func studies(abandon bool) *sm.Definition {
	m := sm.New[study]("study", 1)
	a := sm.Child(visits, (*study).site, (*study).visited).ID((*study).child)
	if abandon {
		a = a.Abandon()
	}
	m.State("visit", a).Within(time.Hour, "late").Catch("lost", "failed")
	m.State("tell", sm.Call(tick, (*study).told, nil)).Then("done")
	m.State("late", sm.Signal("word", func(*study, word) {})).Forever().Then("done")
	m.Succeed("done")
	m.Fail("failed", "no_visit")
	return m.Definitions()[0]
}

// visitors makes a visit.
func visitors() *sm.Definition {
	m := sm.New[visit]("visit", 1)
	m.State("go", sm.Call(tick, func(v *visit) string { return v.Site }, func(v *visit, s string) {
		v.Report = s
		v.Notes.Append(s)
	})).Catch("lost", "lost")
	m.Succeed("done")
	m.Fail("lost", "lost")
	return m.Definitions()[0]
}

// foldOne folds one event, and folds it again.
func foldOne(t *testing.T, d *sm.Definition, run string, from *sm.Stored, e sm.Event, place func(*sm.Pending) sm.Place) *sm.Stored {
	t.Helper()
	if e.At.IsZero() {
		e.At = t1
	}
	f := d.Begin(run, from, sm.Env{Now: e.At, Build: "v1", By: "w", Place: place})
	if o, err := f.Apply(e); err != nil || o != sm.Applied {
		t.Fatalf("Apply(%s) = %v, %v", e.Kind, o, err)
	}
	s := seal(t, f).Stored
	s.Seq = 10
	if from != nil {
		s.Seq = from.Seq + 1
	}
	again, err := sm.Decode(s.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Refold(from, again, nil); err != nil {
		t.Error(err)
	}
	return &s
}

// cameOf is what came of the pending effect: a result, or a failure for good.
func cameOf(r *sm.Stored, result, class string) sm.Event {
	p := r.Pending[0]
	if class == "" {
		return sm.Event{Kind: sm.EventResult, Effect: p.ID, Body: json.RawMessage(result)}
	}
	return sm.Event{Kind: sm.EventFailure, Effect: p.ID, Try: p.Try, Cause: &sm.Cause{Class: class, Message: "no"}}
}

// outcome is what an event would do.
func outcome(t *testing.T, d *sm.Definition, from *sm.Stored, e sm.Event) sm.Outcome {
	t.Helper()
	e.At = t1
	o, err := d.Begin(from.Run, from, sm.Env{Now: t1}).Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// outboxOf is a record's outbox in short.
func outboxOf(r *sm.Stored) string {
	var all []string
	for _, e := range r.Outbox {
		all = append(all, string(e.Kind))
	}
	return strings.Join(all, " ")
}

// askedChild is a parent that waits for its child, and the child's start.
func askedChild(t *testing.T, d *sm.Definition, input string) (*sm.Stored, sm.Event) {
	t.Helper()
	r := foldOne(t, d, "s1", nil, startEvent(input), inline)
	if len(r.Pending) != 1 || r.Pending[0].Place != sm.ChildRun || outboxOf(r) != "child timer" {
		t.Fatalf("the parent asks: %+v, outbox %s", r.Pending, outboxOf(r))
	}
	p := r.Pending[0]
	return r, sm.Event{Kind: sm.EventStart, Name: p.Child.Machine, Body: p.Input, Parent: &sm.Parent{Run: r.Run, Effect: p.ID, Asked: r.Seq, Level: 1}}
}

// endOf is what the parent is told by the last record of its child.
func endOf(t *testing.T, child *sm.Stored) sm.Event {
	t.Helper()
	a, ok := child.Answer()
	if !ok {
		t.Fatalf("run %s has no answer at %s", child.Run, child.Status)
	}
	return sm.Event{Kind: sm.EventChild, Effect: a.Effect, Name: a.Child, Body: a.Result, Cause: a.Cause}
}

// TestChild lets a child do its work, and the parent go on with what it came to,
// once.
func TestChild(t *testing.T) {
	t.Parallel()
	parent, child := studies(false), visitors()
	asked, start := askedChild(t, parent, `{"site":"Kraków"}`)
	id := asked.Pending[0].Child.Run
	if want := "s1:" + asked.Pending[0].ID; id != want {
		t.Errorf("the child is %s, want %s", id, want)
	}
	c := foldOne(t, child, id, nil, start, inline)
	if c.V != 5 || c.Parent == nil || c.Parent.Run != "s1" {
		t.Errorf("the child's record: version %d, parent %+v", c.V, c.Parent)
	}
	if _, ok := c.Answer(); ok {
		t.Error("a child under way has an answer")
	}
	c = foldOne(t, child, id, c, cameOf(c, `"all well"`, ""), inline)
	if c.Status != sm.StatusSucceeded || outboxOf(c) != "answer finished" {
		t.Fatalf("the child: %s, outbox %s", c.Status, outboxOf(c))
	}
	answer := endOf(t, c)
	if diff := cmp.Diff(`{"report":"all well","site":"Kraków"}`, string(answer.Body)); diff != "" {
		t.Errorf("what it came to (-want +got):\n%s", diff)
	}
	told := foldOne(t, parent, "s1", asked, answer, inline)
	p := told.Pending[0]
	if told.To != "tell" || p.Place != sm.Inline || p.Wake != sm.ChildEventID(answer.Effect, id) || len(told.Waits) != 0 {
		t.Errorf("the parent is in %s, with %+v", told.To, p)
	}
	if o := outcome(t, parent, told, answer); o != sm.Stale {
		t.Errorf("the answer again: %v", o)
	}
	if o := outcome(t, child, c, start); o != sm.Duplicate {
		t.Errorf("the start again: %v", o)
	}
}

// TestChildOfAnother checks that a run is the child of one parent only.
func TestChildOfAnother(t *testing.T) {
	t.Parallel()
	child := visitors()
	asked, start := askedChild(t, studies(false), `{"site":"a","id":"visit a"}`)
	if p := asked.Pending[0]; p.Child.Run != "visit a" || !p.Child.Given {
		t.Fatalf("the child is %+v", p.Child)
	}
	c := foldOne(t, child, "visit a", nil, start, inline)
	other := start
	other.Parent = &sm.Parent{Run: "s2", Effect: "e", Level: 1}
	if o := outcome(t, child, c, other); o != sm.Conflict {
		t.Errorf("the start by another parent: %v", o)
	}
	other = start
	other.Body = json.RawMessage(`{"site":"b"}`)
	if o := outcome(t, child, c, other); o != sm.Conflict {
		t.Errorf("the start with another input: %v", o)
	}
	free := foldOne(t, child, "visit a", nil, startEvent(string(start.Body)), inline)
	if o := outcome(t, child, free, start); o != sm.Conflict {
		t.Errorf("the start of a run that is nobody's child: %v", o)
	}
	other = start
	other.Parent = nil
	if o := outcome(t, child, c, other); o != sm.Duplicate {
		t.Errorf("the same start by a producer: %v", o)
	}
	stop := commandEvent(sm.EventCancel, "c", sm.Command{})
	stop.Effect = "another"
	if o := outcome(t, child, c, stop); o != sm.Stale {
		t.Errorf("a cancel by another parent: %v", o)
	}
	stop.Effect = start.Parent.Effect
	if o := outcome(t, child, c, stop); o != sm.Applied {
		t.Errorf("a cancel by its parent: %v", o)
	}
	if o := outcome(t, child, free, stop); o != sm.Stale {
		t.Errorf("a cancel of a run that is nobody's child: %v", o)
	}
}

// TestChildFails checks what the parent makes of a child that fails: it catches
// the class, or is parked, and a redrive begins another run.
func TestChildFails(t *testing.T) {
	t.Parallel()
	parent, child := studies(false), visitors()
	asked, start := askedChild(t, parent, `{"site":"a"}`)
	id := asked.Pending[0].Child.Run
	c := foldOne(t, child, id, nil, start, inline)
	lost := foldOne(t, child, id, c, cameOf(c, "", "lost"), inline)
	if r := foldOne(t, parent, "s1", asked, endOf(t, lost), inline); r.Status != sm.StatusFailed || r.Cause.Class != "no_visit" {
		t.Errorf("a parent that catches the class is %s: %+v", r.Status, r.Cause)
	}
	cancelled := foldOne(t, child, id, c, commandEvent(sm.EventCancel, "c", sm.Command{Reason: "rain"}), inline)
	answer := endOf(t, cancelled)
	parked := foldOne(t, parent, "s1", asked, answer, inline)
	if p := parked.Pending[0]; parked.Status != sm.StatusParked || p.Place != sm.Parked || p.Cause.Class != sm.ClassCancelled || outboxOf(parked) != "letter" {
		t.Fatalf("a parent that does not is %s: %+v, outbox %s", parked.Status, p, outboxOf(parked))
	}
	if o := outcome(t, parent, parked, answer); o != sm.Stale {
		t.Errorf("the failure again: %v", o)
	}
	again := foldOne(t, parent, "s1", parked, commandEvent(sm.EventRedrive, "r", sm.Command{}), inline)
	if p := again.Pending[0]; again.Status != sm.StatusRunning || p.Place != sm.ChildRun || p.Child.Run != id+":2" || outboxOf(again) != "child" {
		t.Fatalf("after the redrive: %s, %+v, outbox %s", again.Status, p, outboxOf(again))
	}
	if o := outcome(t, parent, again, answer); o != sm.Stale {
		t.Errorf("the failure of the child before: %v", o)
	}
	edited := foldOne(t, parent, "s1", parked, commandEvent(sm.EventRedrive, "r", sm.Command{Effect: parked.Pending[0].ID, Input: json.RawMessage(`{"site":"b"}`)}), inline)
	if p := edited.Pending[0]; p.Print != sm.Fingerprint("visit", []byte(`{"site":"b"}`)) {
		t.Errorf("the fingerprint of an edited start: %s", p.Print)
	}
	odd := sm.Event{Kind: sm.EventChild, Effect: asked.Pending[0].ID, Name: id, Body: json.RawMessage(`{"report":7}`)}
	f := parent.Begin("s1", asked, sm.Env{Now: t1})
	if _, err := f.Apply(odd); sm.ClassOf(err) != sm.ClassInvalidResult {
		t.Errorf("a result of another type: %v", err)
	}
}

// TestChildIsStopped checks what becomes of a child whose parent does not wait
// for it any more.
func TestChildIsStopped(t *testing.T) {
	t.Parallel()
	for _, abandon := range []bool{false, true} {
		parent := studies(abandon)
		asked, _ := askedChild(t, parent, `{"site":"a"}`)
		for kind, want := range map[sm.EventKind]sm.EventKind{sm.EventCancel: sm.EventCancel, sm.EventTerminate: sm.EventTerminate, sm.EventDue: sm.EventCancel} {
			e := commandEvent(kind, "x", sm.Command{By: "anna", Reason: "enough"})
			if kind == sm.EventDue {
				e = dueOf(asked.Waits[0], asked.Waits[0].Due.Add(time.Second))
			}
			r := foldOne(t, parent, "s1", asked, e, inline)
			if len(r.Pending) != 0 {
				t.Errorf("%s: it waits for %+v", kind, r.Pending)
			}
			var got []sm.EventKind
			for _, e := range r.Outbox {
				var stop sm.Stop
				if e.Kind == sm.EntryStop && json.Unmarshal(e.Body, &stop) == nil && stop.Run == asked.Pending[0].Child.Run {
					got = append(got, stop.Kind)
				}
			}
			if abandon && len(got) > 0 || !abandon && (len(got) != 1 || got[0] != want) {
				t.Errorf("%s, abandoned %v: the child is told %v", kind, abandon, got)
			}
			if kind == sm.EventTerminate && (r.Status != sm.StatusCancelled || r.Cause.Class != sm.ClassTerminated || r.Cause.By != "anna" || r.Cause.Message != "enough") {
				t.Errorf("terminated: %s, %+v", r.Status, r.Cause)
			}
		}
	}
}

// TestChildNeverBegun checks that a child that the same record asks for and
// drops is neither started nor stopped, and one asked for in a pause waits.
func TestChildNeverBegun(t *testing.T) {
	t.Parallel()
	d := studies(false)
	f := d.Begin("s1", nil, sm.Env{Now: t1})
	for _, e := range []sm.Event{startEvent(`{"site":"a"}`), commandEvent(sm.EventCancel, "c", sm.Command{})} {
		if o, err := f.Apply(e); o != sm.Applied || err != nil {
			t.Fatal(o, err)
		}
	}
	if s := seal(t, f).Stored; outboxOf(&s) != "finished" {
		t.Errorf("started and cancelled: outbox %s", outboxOf(&s))
	}
	f = d.Begin("s1", nil, sm.Env{Now: t1})
	if _, err := f.Apply(startEvent(`{"site":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Apply(commandEvent(sm.EventPause, "p", sm.Command{})); err != nil {
		t.Fatal(err)
	}
	asked := seal(t, f).Stored
	asked.Seq = 10
	p := asked.Pending[0]
	paused := foldOne(t, d, "s1", &asked, sm.Event{Kind: sm.EventChild, Effect: p.ID, Name: p.Child.Run, Body: json.RawMessage(`{"report":"x"}`)}, inline)
	if paused.Status != sm.StatusPaused || paused.Pending[0].Place != sm.Held || paused.Pending[0].Effect != string(tick) {
		t.Errorf("an end that comes in a pause: %s, %+v", paused.Status, paused.Pending)
	}
}

// TestChildLimits checks what cannot be asked for.
func TestChildLimits(t *testing.T) {
	t.Parallel()
	deep := startEvent(`{"site":"a"}`)
	deep.Parent = &sm.Parent{Run: "p", Effect: "e", Level: sm.MaxLevels}
	_, err := studies(false).Begin("s1", nil, sm.Env{Now: t1}).Apply(deep)
	if sm.ClassOf(err) != sm.ClassTooDeep {
		t.Errorf("one level too deep: %v", err)
	}
	_, err = studies(false).Begin("s1", nil, sm.Env{Now: t1}).Apply(startEvent(fmt.Sprintf(`{"site":"a","id":%q}`, strings.Repeat("x", sm.MaxID+1))))
	var limit *sm.LimitError
	if !errors.As(err, &limit) || limit.What != "id" {
		t.Errorf("an id that is too long: %v", err)
	}
	m := sm.New[study]("s", 1)
	m.State("big", sm.ChildOf(func(*study) (string, json.RawMessage) {
		return "visit", json.RawMessage(`"` + strings.Repeat("x", sm.MaxChild) + `"`)
	}, nil))
	m.Succeed("done")
	_, err = m.Definitions()[0].Begin("s1", nil, sm.Env{Now: t1}).Apply(startEvent(`{}`))
	if !errors.As(err, &limit) || limit.What != "input of a child" {
		t.Errorf("an input that is too large: %v", err)
	}
	long := strings.Repeat("r", sm.MaxID)
	r := foldOne(t, studies(false), long, nil, startEvent(`{"site":"a"}`), inline)
	if id := r.Pending[0].Child.Run; id != r.Pending[0].ID {
		t.Errorf("the child of a run with the longest id is %s", id)
	}
}

// TestChildFaults checks what a catalog says of children.
func TestChildFaults(t *testing.T) {
	t.Parallel()
	m := sm.New[study]("s", 1)
	m.State("a", sm.Child(visits, (*study).site, nil))
	m.State("b", sm.Child[study](sm.Ref[visitInput, visitResult]("No name"), nil, nil))
	m.State("c", sm.ChildOf[study](nil, nil))
	m.Succeed("done")
	err := new(sm.Catalog).Add(m).Check()
	for _, want := range []string{
		`state "a": child of machine "visit", which is not in the catalog`,
		`state "b": child of machine "No name": not a name`,
		`state "c": ChildOf has no function that picks`,
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("Check() = %v, want %s", err, want)
		}
	}
}

// TestChildrenAtOnce has two visits made at once: their ends come in one record,
// one after the other, or of only one the other is stopped.
func TestChildrenAtOnce(t *testing.T) {
	t.Parallel()
	at := func(site string) sm.BranchAction[study] {
		return sm.Branch(site, sm.Child(visits, func(*study) visitInput { return visitInput{site} }, func(s *study, v visitResult) { s.Report += v.Report }))
	}
	all, any := sm.New[study]("all", 1), sm.New[study]("any", 1)
	all.State("visit", sm.All(at("a"), at("b"))).Catch("*", "failed")
	any.State("visit", sm.Any(at("a"), at("b"))).Catch("*", "failed")
	for _, m := range []*sm.Machine[study]{all, any} {
		m.Succeed("done")
		m.Fail("failed", "no_visit")
	}
	ends := func(r *sm.Stored, i int, result string) sm.Event {
		p := r.Pending[i]
		return sm.Event{Kind: sm.EventChild, At: t1, Effect: p.ID, Name: p.Child.Run, Body: json.RawMessage(result)}
	}
	d := all.Definitions()[0]
	asked := foldOne(t, d, "s1", nil, startEvent(`{"site":"x"}`), inline)
	if len(asked.Pending) != 2 || asked.Pending[0].Child.Run == asked.Pending[1].Child.Run || outboxOf(asked) != "child child" {
		t.Fatalf("it waits for %+v, outbox %s", asked.Pending, outboxOf(asked))
	}
	f := d.Begin("s1", asked, sm.Env{Now: t1})
	for i, result := range []string{`{"report":"1"}`, `{"report":"2"}`} {
		if o, err := f.Apply(ends(asked, 1-i, result)); o != sm.Applied || err != nil {
			t.Fatal(o, err)
		}
	}
	if r := seal(t, f); r.Status != sm.StatusSucceeded || !strings.Contains(string(r.Data), `"report":"21"`) {
		t.Errorf("both at once: %s, %s", r.Status, r.Data)
	}
	one := foldOne(t, d, "s1", asked, ends(asked, 0, `{"report":"1"}`), inline)
	failed := ends(asked, 1, "")
	failed.Cause = &sm.Cause{Class: "lost"}
	if r := foldOne(t, d, "s1", one, failed, inline); r.Status != sm.StatusFailed {
		t.Errorf("one of two fails: %s", r.Status)
	}
	if r := foldOne(t, d, "s1", asked, failed, inline); r.Status != sm.StatusFailed || outboxOf(r) != "stop finished" {
		t.Errorf("the first of two fails: %s, outbox %s", r.Status, outboxOf(r))
	}
	d = any.Definitions()[0]
	asked = foldOne(t, d, "s1", nil, startEvent(`{"site":"x"}`), inline)
	if r := foldOne(t, d, "s1", asked, ends(asked, 1, `{"report":"2"}`), inline); r.Status != sm.StatusSucceeded || outboxOf(r) != "stop finished" {
		t.Errorf("one is enough: %s, outbox %s", r.Status, outboxOf(r))
	}
}
