package statemachine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sm "github.com/pawlrun/pawl/statemachine"
)

// forkEvent is what begins a fork at a record.
func forkEvent(t *testing.T, at *sm.Record, change func(k *sm.Fork)) sm.Event {
	t.Helper()
	k, err := at.Fork()
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(k)
	}
	body, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	return sm.Event{Kind: sm.EventFork, At: t1, Seq: 9, Body: body}
}

// play folds a run until it has ended or waits for what there is no result of;
// results are by effect type.
func play(t *testing.T, d *sm.Definition, run string, first sm.Event, results map[string]string) []*sm.Stored {
	t.Helper()
	var all []*sm.Stored
	for e, now := first, t1; ; now = now.Add(time.Second) {
		var last *sm.Stored
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		f := d.Begin(run, last, sm.Env{Now: now, Place: inline})
		if o, err := f.Apply(e); err != nil || o != sm.Applied {
			t.Fatalf("Apply(%s) = %v, %v", e.Kind, o, err)
		}
		s := seal(t, f)
		if err := d.Refold(last, s.Record, nil); err != nil {
			t.Error(err)
		}
		s.Seq = uint64(len(all) + 1)
		if all = append(all, &s.Stored); s.Status.Ended() {
			return all
		}
		body, ok := results[s.Pending[0].Effect]
		if !ok {
			return all
		}
		e = sm.Event{Kind: sm.EventResult, Effect: s.Pending[0].ID, Body: json.RawMessage(body)}
	}
}

func ordered(t *testing.T) []*sm.Stored {
	t.Helper()
	return play(t, orders().Definitions()[0], "o", startEvent(`{"id":"o1","total":12}`), map[string]string{"card.pay": `{"ok":true}`, "parcel.ship": `1`})
}

// TestForkEntersTheStateAgain: the same visit, of the same data but for what is
// set; the run, and what it asks, is another.
func TestForkEntersTheStateAgain(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	all := ordered(t) // pay, ship, ship, ship, done
	if len(all) != 5 || all[3].Frames[0].Visit != 3 {
		t.Fatalf("%d records", len(all))
	}
	f := play(t, d, "f", forkEvent(t, all[3].Record, func(k *sm.Fork) { k.Set = json.RawMessage(`{"note":"forked","parcels":0}`) }), nil)[0]
	p, was := f.Pending[0], all[3].Pending[0]
	if f.V != 5 || f.To != "ship" || f.Frames[0].Visit != 3 || f.Frames[0].Visits["ship"] != 3 || f.Rev != 1 || f.Status != sm.StatusRunning {
		t.Errorf("the fork is %+v", f.Record)
	}
	if diff := cmp.Diff(&sm.Origin{Run: "o", Rev: 4}, f.Origin); diff != "" {
		t.Errorf("origin (-want +got):\n%s", diff)
	}
	if p.ID == was.ID || p.Print != was.Print || f.Spot(&p) != all[3].Spot(&was) || p.Wake != sm.StartEventID {
		t.Errorf("asked is %+v, was %+v", p, was)
	}
	if want := `{"id":"o1","total":12,"note":"forked","paid":true,"seen":`; !strings.HasPrefix(string(f.Data), want) {
		t.Errorf("data %s, want %s…", f.Data, want)
	}
}

// TestForkIsBegunOnce: the same is a duplicate, whatever has become of the
// original since; another is a conflict, and so is a start.
func TestForkIsBegunOnce(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	all := ordered(t)
	f := play(t, d, "f", forkEvent(t, all[1].Record, nil), nil)[0]
	for name, tt := range map[string]struct {
		e    sm.Event
		want sm.Outcome
	}{
		"the same":         {forkEvent(t, all[1].Record, func(k *sm.Fork) { k.Origin.Answers, k.By = "later", "jo" }), sm.Duplicate},
		"another revision": {forkEvent(t, all[2].Record, nil), sm.Conflict},
		"other data":       {forkEvent(t, all[1].Record, func(k *sm.Fork) { k.Set = json.RawMessage(`{"total":1}`) }), sm.Conflict},
		"performing":       {forkEvent(t, all[1].Record, func(k *sm.Fork) { k.Origin.Perform = true }), sm.Conflict},
		"no fork":          {sm.Event{Kind: sm.EventFork, Body: json.RawMessage(`{}`)}, sm.Conflict},
		"a start":          {startEvent(`{"id":"o1","total":12}`), sm.Conflict},
	} {
		if o, err := d.Begin("f", f, env()).Apply(tt.e); o != tt.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", name, o, err, tt.want)
		}
	}
	if o, err := d.Begin("o", all[0], env()).Apply(forkEvent(t, all[1].Record, nil)); o != sm.Conflict || err != nil {
		t.Errorf("a fork of a run that exists: %v, %v", o, err)
	}
}

// TestForkIsRefused: where nothing can begin, and what does not fit.
func TestForkIsRefused(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	all := ordered(t)
	for name, tt := range map[string]struct {
		change func(r *sm.Record)
		want   string
	}{
		"an end":      {func(r *sm.Record) { r.Status = sm.StatusFailed }, `run "o", revision 2: the run has ended there: nothing follows from it`},
		"unwinding":   {func(r *sm.Record) { r.Ending = &sm.Ending{Status: sm.StatusFailed} }, `run "o", revision 2: the run was about to be failed there, and took back what it did`},
		"a tombstone": {func(r *sm.Record) { r.Tomb = &sm.Tombstone{} }, `run "o": its records were removed, only the last is left`},
		"many at once": {func(r *sm.Record) {
			r.Frames = []sm.Frame{{Kind: sm.FrameRoot, State: "each", Fan: &sm.Fan{Size: 3, Asked: 2, Held: []sm.FanItem{{Item: 2}}}}}
		}, `run "o", revision 2: state each does many at once, and some of it was done there: take a revision before it, or after`},
		"not begun": {func(r *sm.Record) { r.Waits = []sm.Wait{{Kind: sm.WaitStart}} }, `run "o", revision 2: the run has not begun there`},
		"branches":  {func(r *sm.Record) { r.Frames = append(r.Frames, sm.Frame{ID: 1}) }, `run "o", revision 2: the run is in several branches there: take a revision before them, or after`},
	} {
		r := *all[1].Record
		r.Frames = r.Frames[:1:1]
		tt.change(&r)
		if _, err := r.Fork(); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	set := func(s string) func(k *sm.Fork) { return func(k *sm.Fork) { k.Set = json.RawMessage(s) } }
	for name, tt := range map[string]struct {
		change func(k *sm.Fork)
		want   string
	}{
		"an unknown field": {set(`{"colour":"red"}`), `unknown field "colour"`},
		"another type":     {set(`{"total":"much"}`), `field total: string given where int is expected`},
		"no object":        {set(`[1]`), `what is set is no JSON object`},
		"null":             {set(`null`), `what is set is no JSON object`},
		"a state":          {func(k *sm.Fork) { k.State = "nosuch" }, `the machine has no state "nosuch"`},
		"a version":        {func(k *sm.Fork) { k.Version = 2 }, `of machine order version 2`},
		"nothing":          {func(k *sm.Fork) { *k = sm.Fork{} }, `it names no machine`},
	} {
		if _, err := d.Begin("f", nil, env()).Apply(forkEvent(t, all[1].Record, tt.change)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	c := chats().Definitions()[0]
	said := play(t, c, "c", startEvent(`{"messages":["hello"]}`), nil)[0]
	if _, err := c.Begin("f", nil, env()).Apply(forkEvent(t, said.Record, func(k *sm.Fork) {
		k.Logs, k.Set = map[string]sm.LogRef{"messages": {Count: 1, Sealed: 1, Head: "chunk"}}, json.RawMessage(`{"Messages":["bye"]}`)
	})); err == nil || !strings.Contains(err.Error(), "a log cannot be set") {
		t.Errorf("a log: %v", err)
	}
}

// TestAnswers: what effects came to from a checkpoint on, where they were asked.
func TestAnswers(t *testing.T) {
	t.Parallel()
	all := ordered(t)
	var a sm.Answering
	for _, r := range all[2:] {
		a.Add(r.Record)
	}
	want := []sm.Recalled{
		{Spot: "/0:ship:2", Print: sm.Fingerprint("parcel.ship", []byte(`"o1"`)), Body: json.RawMessage(`1`)},
		{Spot: "/0:ship:3", Print: sm.Fingerprint("parcel.ship", []byte(`"o1"`)), Body: json.RawMessage(`1`)},
	}
	if diff := cmp.Diff(want, a.Answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}

	// A failure is an outcome if the run went on from it; one that waits is none.
	d := orders().Definitions()[0]
	first := play(t, d, "o", startEvent(`{"id":"o1","total":12}`), nil)[0]
	for class, outcomes := range map[string]int{"declined": 1, "http": 0} {
		f := d.Begin("o", first, env())
		e := sm.Event{Kind: sm.EventFailure, Effect: first.Pending[0].ID, Try: 1, Cause: &sm.Cause{Class: class}}
		if _, err := f.Apply(e); err != nil {
			t.Fatal(err)
		}
		var a sm.Answering
		a.Add(first.Record)
		a.Add(seal(t, f).Record)
		if len(a.Answers) != outcomes || outcomes == 1 && (a.Answers[0].Cause == nil || a.Answers[0].Cause.Class != class) {
			t.Errorf("%s: answers %+v", class, a.Answers)
		}
	}
}

// TestForkTakesBackOnlyItsOwn: what is answered from the record is not undone,
// and what the original did before the checkpoint is not, either.
func TestForkTakesBackOnlyItsOwn(t *testing.T) {
	t.Parallel()
	d := trips().Definitions()[0]
	all := play(t, d, "t", startEvent(`{"id":"t1"}`), map[string]string{})
	for _, recorded := range []bool{true, false} {
		f := play(t, d, "f", forkEvent(t, all[0].Record, nil), nil)[0]
		e := sm.Event{Kind: sm.EventResult, Effect: f.Pending[0].ID, Body: json.RawMessage(`"flight-7"`), Recorded: recorded}
		fold := d.Begin("f", f, env())
		if _, err := fold.Apply(e); err != nil {
			t.Fatal(err)
		}
		r := seal(t, fold)
		if len(r.Undos) == 1 == recorded {
			t.Errorf("recorded %v: undos %+v", recorded, r.Undos)
		}
		g := play(t, d, "g", forkEvent(t, r.Record, nil), nil)[0]
		if len(g.Undos) > 0 {
			t.Errorf("a fork has the undos of another: %+v", g.Undos)
		}
	}
}

// TestUnconfirmed: a person lets an effect be performed, or says what it comes
// to. A redrive means what was given up, and this was not.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	f := play(t, d, "f", forkEvent(t, ordered(t)[0].Record, nil), nil)[0]
	apply := func(from *sm.Stored, e sm.Event) *sm.Stored {
		t.Helper()
		fold := d.Begin("f", from, env())
		if o, err := fold.Apply(e); err != nil || o != sm.Applied {
			t.Fatalf("Apply(%s) = %v, %v", e.Kind, o, err)
		}
		s := seal(t, fold)
		if err := d.Refold(from, s.Record, nil); err != nil {
			t.Error(err)
		}
		s.Seq = from.Seq + 1
		return &s.Stored
	}
	id := f.Pending[0].ID
	held := apply(f, sm.Event{Kind: sm.EventFailure, Effect: id, Try: 1, Cause: &sm.Cause{Class: sm.ClassUnconfirmed, Message: "it is new"}})
	if held.Status != sm.StatusParked || !held.Pending[0].Unconfirmed() || len(held.Outbox) > 0 || held.Cause.Class != sm.ClassUnconfirmed {
		t.Errorf("held: %+v", held.Record)
	}
	if same := apply(held, commandEvent(sm.EventRedrive, "r", sm.Command{})); !same.Pending[0].Unconfirmed() || same.Status != sm.StatusParked {
		t.Errorf("redriven: %+v", same.Record)
	}
	if other := apply(held, commandEvent(sm.EventConfirm, "c", sm.Command{Effect: "other"})); !other.Pending[0].Unconfirmed() || other.Status != sm.StatusParked {
		t.Errorf("another is confirmed: %+v", other.Record)
	}
	on := apply(held, commandEvent(sm.EventConfirm, "c", sm.Command{Effect: id}))
	if p := on.Pending[0]; on.Status != sm.StatusRunning || p.Place != sm.Queued || p.Try != 2 || !p.Told() || len(on.Outbox) != 1 {
		t.Errorf("confirmed: %+v", on.Record)
	}
	said := apply(held, commandEvent(sm.EventResolve, "s", sm.Command{Effect: id, Result: json.RawMessage(`{"ok":true}`)}))
	if said.To != "ship" || said.Status != sm.StatusRunning {
		t.Errorf("resolved: %+v", said.Record)
	}
}

// TestForkHasKeysOfItsOwn: a business key of the original stands for what the
// original did.
func TestForkHasKeysOfItsOwn(t *testing.T) {
	t.Parallel()
	m := sm.New[order]("keyed", 1)
	m.State("pay", sm.Call(pay, (*order).payment, (*order).paid).Key((*order).id))
	m.Succeed("done")
	d := m.Definitions()[0]
	first := play(t, d, "o", startEvent(`{"id":"o1","total":12}`), nil)[0]
	keys := map[string]bool{first.Pending[0].Key: true}
	for _, run := range []string{"f", "g"} {
		key := play(t, d, run, forkEvent(t, first.Record, nil), nil)[0].Pending[0].Key
		if !strings.HasPrefix(key, "o1~") || keys[key] {
			t.Errorf("fork %s has the key %q", run, key)
		}
		keys[key] = true
	}
}

// TestForkStartsNoChild: not before a person says so.
func TestForkStartsNoChild(t *testing.T) {
	t.Parallel()
	d := studies(false)
	asking, _ := askedChild(t, d, `{"site":"Kraków","id":"visit 7"}`)
	f := play(t, d, "f", forkEvent(t, asking.Record, func(k *sm.Fork) { k.Origin.Perform = true }), nil)[0]
	if !f.Pending[0].Unconfirmed() || f.Status != sm.StatusParked || len(f.Outbox) != 1 || f.Outbox[0].Kind != sm.EntryTimer {
		t.Errorf("the fork is %s: %+v, outbox %+v", f.Status, f.Pending, f.Outbox)
	}
	on := foldOne(t, d, "f", f, commandEvent(sm.EventConfirm, "c", sm.Command{}), inline)
	if p := on.Pending[0]; p.Place != sm.ChildRun || on.Status != sm.StatusRunning || len(on.Outbox) != 1 {
		t.Errorf("confirmed: %+v", on.Record)
	}
}

// TestAnswersOfAPerson: what a person said an effect came to is what it came
// to; a fork that performs what the original did not ask has it, too.
func TestAnswersOfAPerson(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	asked := play(t, d, "o", startEvent(`{"id":"o1","total":12}`), nil)[0]
	p := asked.Pending[0]
	parked := foldOne(t, d, "o", asked, sm.Event{Kind: sm.EventFailure, Effect: p.ID, Try: 1, Cause: &sm.Cause{Class: "http"}}, inline)
	said := foldOne(t, d, "o", parked, commandEvent(sm.EventResolve, "s", sm.Command{Effect: p.ID, Result: json.RawMessage(`{"ok":true}`)}), inline)
	var a sm.Answering
	for _, r := range []*sm.Stored{asked, parked, said} {
		a.Add(r.Record)
	}
	want := []sm.Recalled{{Spot: "/0:pay:1", Print: p.Print, Body: json.RawMessage(`{"ok":true}`)}}
	if diff := cmp.Diff(want, a.Answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// TestForkAsksBeforeItTells: approvers are not told of a fork before a person
// says so, without a letter; the approval waits all the same.
func TestForkAsksBeforeItTells(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna"}})
	f := play(t, d, "f", forkEvent(t, r.Record, nil), nil)[0]
	p := f.Pending[0]
	held := foldOne(t, d, "f", f, sm.Event{Kind: sm.EventFailure, Effect: p.ID, Try: 1, Cause: &sm.Cause{Class: sm.ClassUnconfirmed, Message: "it is new"}}, inline)
	if !held.Pending[0].Unconfirmed() || held.Status != sm.StatusRunning || len(held.Outbox) > 0 {
		t.Errorf("the fork is %s: %+v, outbox %+v", held.Status, held.Pending, held.Outbox)
	}
	on := foldOne(t, d, "f", held, commandEvent(sm.EventConfirm, "c", sm.Command{}), inline)
	if p := on.Pending[0]; p.Place != sm.Queued || p.Tells == "" || outboxOf(on) != "effect" {
		t.Errorf("confirmed: %+v, outbox %s", on.Pending, outboxOf(on))
	}
	if done := foldOne(t, d, "f", held, saysOf(t, held, "1", "anna", sm.Approved, t1), inline); done.To != "act" || done.Pending[0].Effect != goAhead.Name() {
		t.Errorf("decided: %s, %+v", done.To, done.Pending)
	}
}
