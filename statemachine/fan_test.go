package statemachine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	sm "github.com/pawlrun/pawl/statemachine"
)

// batch is the data of machines that do much at once.
type batch struct {
	sm.Meta
	N      int            `json:"n"`
	Got    []string       `json:"got"`
	Log    sm.Log[string] `json:"log"`
	Caught string         `json:"caught"`
}

const double sm.Effect[int, string] = "double"

func (b *batch) items() []int {
	all := make([]int, b.N)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

func (b *batch) got(i int, r sm.Result[string]) {
	v := fmt.Sprintf("%d=%s", i, r.Value)
	if !r.OK() {
		v = fmt.Sprintf("%d: %s", i, r.Cause.Class)
	}
	b.Got = append(b.Got, v)
	b.Log.Append(v)
}

func batchMachine(a sm.Action[batch], change func(*sm.State[batch])) *sm.Definition {
	m := sm.New[batch]("batch", 1)
	s := m.State("fan", a)
	if change != nil {
		change(s)
	}
	s.Then("done")
	m.Succeed("done")
	if change != nil {
		m.Fail("lost", "lost").Because(func(b *batch) string { return b.Cause().Class })
	}
	return m.Definitions()[0]
}

func eaches(limit int) *sm.EachAction[batch, int] {
	return sm.Each((*batch).items, limit, double, nil, (*batch).got)
}

// told is what a machine's effects come to, by their input: "x" succeeds,
// "!class" is given up.
func answerOf(p *sm.Pending, at time.Time, says func(input string) string) sm.Event {
	said := says(string(p.Input))
	if class, fails := strings.CutPrefix(said, "!"); fails {
		return sm.Event{Kind: sm.EventFailure, Effect: p.ID, Try: p.Try, At: at, Cause: &sm.Cause{Class: class}}
	}
	body, _ := json.Marshal(said)
	return sm.Event{Kind: sm.EventResult, Effect: p.ID, Try: p.Try, At: at, Body: body}
}

func begin(t *testing.T, d *sm.Definition, input string) *sm.Stored {
	t.Helper()
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return next(t, d, nil, sm.Event{ID: sm.StartEventID, Kind: sm.EventStart, At: t0, Body: json.RawMessage(input)})
}

// item returns the pending effect of an item.
func item(t *testing.T, r *sm.Stored, n int) *sm.Pending {
	t.Helper()
	i := slices.IndexFunc(r.Pending, func(p sm.Pending) bool { return p.Item == n })
	if i < 0 {
		t.Fatalf("item %d is not under way: %+v", n, r.Pending)
	}
	return &r.Pending[i]
}

func dataOf(t *testing.T, r *sm.Stored) batch {
	t.Helper()
	var b batch
	if err := json.Unmarshal(r.Data, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func yes(input string) string { return "r" + input }

// TestEachTakesResultsInOrder: so many at once, and out is called in the order
// of the items.
func TestEachTakesResultsInOrder(t *testing.T) {
	t.Parallel()
	d := batchMachine(eaches(3), nil)
	r := begin(t, d, `{"n":6}`)
	if len(r.Pending) != 3 || r.V != 5 {
		t.Fatalf("%d at once, format version %d", len(r.Pending), r.V)
	}
	r = next(t, d, r, answerOf(item(t, r, 3), t1, yes))
	if b := dataOf(t, r); len(b.Got) != 0 || len(r.Pending) != 3 || r.Frames[0].Fan.Held[0].Item != 3 {
		t.Fatalf("after the third: %v, %d under way, fan %+v", b.Got, len(r.Pending), r.Frames[0].Fan)
	}
	r = next(t, d, r, answerOf(item(t, r, 4), t1, yes)) // the window is full
	if len(r.Pending) != 2 {
		t.Fatalf("%d under way where the first holds them up", len(r.Pending))
	}
	r = next(t, d, r, answerOf(item(t, r, 1), t1, yes))
	r = next(t, d, r, answerOf(item(t, r, 2), t1, yes))
	if got := dataOf(t, r).Got; !slices.Equal(got, []string{"1=r1", "2=r2", "3=r3", "4=r4"}) || r.Frames[0].Fan.Taken != 4 {
		t.Fatalf("after four: %v", got)
	}
	r = next(t, d, r, answerOf(item(t, r, 6), t1, yes))
	r = next(t, d, r, answerOf(item(t, r, 5), t1, yes))
	if r.Status != sm.StatusSucceeded || len(dataOf(t, r).Got) != 6 || r.Frames[0].Fan != nil || r.Logs["log"].Count != 6 {
		t.Fatalf("status %s, %v", r.Status, dataOf(t, r).Got)
	}
	if r := begin(t, d, `{"n":0}`); r.Status != sm.StatusSucceeded {
		t.Errorf("no items: %s", r.Status)
	}
}

// TestEachToleratesFailures: a failure is data, one too many is the state's.
func TestEachToleratesFailures(t *testing.T) {
	t.Parallel()
	fails := func(input string) string {
		if input == "1" || input == "2" {
			return "!bad"
		}
		return "r" + input
	}
	all := batchMachine(eaches(4), nil)
	r := begin(t, all, `{"n":3}`)
	for _, n := range []int{3, 2, 1} {
		r = next(t, all, r, answerOf(item(t, r, n), t1, fails))
	}
	if got := dataOf(t, r).Got; r.Status != sm.StatusSucceeded || !slices.Equal(got, []string{"1: bad", "2: bad", "3=r3"}) {
		t.Errorf("all may fail: %s, %v", r.Status, got)
	}

	catches := batchMachine(eaches(4).Tolerate(1), func(s *sm.State[batch]) { s.Catch("bad", "lost") })
	r = begin(t, catches, `{"n":9}`)
	for _, n := range []int{4, 2} {
		r = next(t, catches, r, answerOf(item(t, r, n), t1, fails))
	}
	if r.Status != sm.StatusRunning || len(r.Pending) != 4 {
		t.Fatalf("one failed: %s, %d under way", r.Status, len(r.Pending))
	}
	late := *item(t, r, 3)
	r = next(t, catches, r, answerOf(item(t, r, 1), t1, fails))
	if r.Status != sm.StatusFailed || r.Cause.Message != "bad" || !slices.Equal(dataOf(t, r).Got, []string{"1: bad"}) || len(r.Pending) != 0 {
		t.Errorf("one failed too many: %s, %+v, %v", r.Status, r.Cause, dataOf(t, r).Got)
	}
	if o := outcomeOf(t, catches, r, answerOf(&late, t2, yes)); o != sm.Stale {
		t.Errorf("a late result is %s", o)
	}

	parks := batchMachine(eaches(2).Tolerate(0), nil)
	r = begin(t, parks, `{"n":4}`)
	r = next(t, parks, r, answerOf(item(t, r, 1), t1, fails))
	r = next(t, parks, r, answerOf(item(t, r, 2), t1, yes))
	if r.Status != sm.StatusParked || len(r.Pending) != 2 || r.Pending[1].Item != 3 {
		t.Fatalf("one parked: %s, pending %+v", r.Status, r.Pending)
	}
	c, _ := json.Marshal(sm.Command{Effect: item(t, r, 1).ID})
	r = next(t, parks, r, sm.Event{ID: sm.CommandEventID("1"), Kind: sm.EventRedrive, At: t2, Body: c})
	for _, n := range []int{1, 3, 4} {
		r = next(t, parks, r, answerOf(item(t, r, n), t2, yes))
	}
	if r.Status != sm.StatusSucceeded || len(dataOf(t, r).Got) != 4 {
		t.Errorf("after the redrive: %s, %v", r.Status, dataOf(t, r).Got)
	}
}

// TestEachOfPicks: what is not among the tools is given up, and no more.
func TestEachOfPicks(t *testing.T) {
	t.Parallel()
	pick := func(_ *batch, i int) (string, json.RawMessage) {
		return []string{"a", "b", "c"}[i-1], json.RawMessage(fmt.Sprint(i))
	}
	d := batchMachine(sm.EachOf((*batch).items, 8, sm.ToolNames("a", "c"), pick, func(b *batch, i int, r sm.Result[json.RawMessage]) {
		b.got(i, sm.Result[string]{Value: string(r.Value), Cause: r.Cause})
	}), nil)
	r := begin(t, d, `{"n":3}`)
	for _, n := range []int{3, 1} {
		r = next(t, d, r, answerOf(item(t, r, n), t1, yes))
	}
	if got := dataOf(t, r).Got; !slices.Equal(got, []string{`1="r1"`, "2: unknown_effect", `3="r3"`}) {
		t.Errorf("%v", got)
	}
}

// TestEachEqualsOneAfterTheOther: whatever the order in which handlers return,
// how their results are folded into records, and where effects are performed:
// data, end and calls of out are those of a limit of 1.
func TestEachEqualsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "n")
		bad := map[string]bool{}
		for _, i := range rapid.SliceOfN(rapid.IntRange(1, 30), 0, 4).Draw(t, "bad") {
			bad[fmt.Sprint(i)] = true
		}
		says := func(input string) string {
			if bad[input] {
				return "!bad"
			}
			return strings.Repeat("r", 10*len(input)) + input
		}
		tolerate := rapid.IntRange(0, 3).Draw(t, "tolerate")
		run := func(limit int, choose func(most int) int) (batch, sm.Status) {
			d := batchMachine(eaches(limit).Tolerate(tolerate), func(s *sm.State[batch]) { s.Catch("bad", "lost") })
			e := sm.Env{Now: t0, Place: func(*sm.Pending) sm.Place { return []sm.Place{sm.Inline, sm.Queued}[choose(1)] }}
			start := startEvent(fmt.Sprintf(`{"n":%d}`, n))
			r, _ := fold(t, d, nil, e, []sm.Event{start})
			for !r.Status.Ended() {
				if len(r.Pending) == 0 || len(r.Pending) > limit {
					t.Fatalf("%d under way of at most %d: %+v", len(r.Pending), limit, r.Frames[0].Fan)
				}
				var events []sm.Event
				rest := slices.Clone(r.Pending)
				for range 1 + choose(min(3, len(rest)-1)) {
					i := choose(len(rest) - 1)
					events = append(events, answerOf(&rest[i], t1, says))
					rest = slices.Delete(rest, i, i+1)
				}
				after, _ := fold(t, d, r, e, events)
				if err := d.Refold(r, after.Record, nil); err != nil {
					t.Fatal(err)
				}
				r = after
			}
			var b batch
			if err := json.Unmarshal(r.Data, &b); err != nil {
				t.Fatal(err)
			}
			return b, r.Status
		}
		want, ends := run(1, func(int) int { return 0 })
		got, end := run(rapid.IntRange(1, 12).Draw(t, "limit"), func(most int) int {
			if most <= 0 {
				return 0
			}
			return rapid.IntRange(0, most).Draw(t, "choice")
		})
		if diff := cmp.Diff(want.Got, got.Got); diff != "" || ends != end {
			t.Fatalf("%s where %s is expected, data (-one by one +at once):\n%s", end, ends, diff)
		}
	})
}

// TestEachKeepsRecordsSmall: large results that wait for their turn are
// references, and are asked for when it comes.
func TestEachKeepsRecordsSmall(t *testing.T) {
	t.Parallel()
	d := batchMachine(sm.Each((*batch).items, 50, double, nil, func(b *batch, _ int, r sm.Result[string]) { b.Log.Append(r.Value) }), nil)
	blobs := map[string][]byte{}
	largest, calls := 0, 0
	step := func(from *sm.Stored, e sm.Event) *sm.Stored {
		f := d.Begin("r1", from, sm.Env{Now: t1, Place: func(*sm.Pending) sm.Place { return sm.Queued }})
		if _, err := f.ApplyWith(e, func(hash string) ([]byte, error) { calls++; return blobs[hash], nil }); err != nil {
			t.Fatal(err)
		}
		s, err := f.Seal()
		if err != nil {
			t.Fatal(err)
		}
		for hash, b := range s.Blobs {
			blobs[hash] = b
		}
		if err := d.Refold(from, s.Record, func(hash string) ([]byte, error) { return blobs[hash], nil }); err != nil {
			t.Fatal(err)
		}
		if s.Rev > 1 {
			largest = max(largest, len(s.Bytes))
		}
		s.Seq = s.Rev
		return &s.Stored
	}
	r := step(nil, startEvent(`{"n":1000}`))
	for !r.Status.Ended() { // the youngest first: as many wait as ever may
		p := &r.Pending[len(r.Pending)-1]
		body, _ := json.Marshal(strings.Repeat("x", 1000) + string(p.Input))
		r = step(r, sm.Event{Kind: sm.EventResult, Effect: p.ID, Try: 1, At: t1, Body: body})
	}
	if largest >= 16<<10 || r.Logs["log"].Count != 1000 || calls == 0 {
		t.Errorf("the largest record has %d bytes, the log %d items, %d blobs were read", largest, r.Logs["log"].Count, calls)
	}
	t.Logf("largest record: %d bytes, %d blobs read", largest, calls)

	f := d.Begin("r1", nil, sm.Env{Now: t1})
	var limit *sm.LimitError
	if _, err := f.Apply(startEvent(`{"n":100001}`)); !errors.As(err, &limit) || limit.Error() != "items of 100001 items exceeds the limit of 100000 items" {
		t.Errorf("too many items: %v", err)
	}
}

// TestEachIsCancelledAndPaused: what is asked while the run is paused is held,
// and a cancelled run has nothing under way.
func TestEachIsCancelledAndPaused(t *testing.T) {
	t.Parallel()
	d := batchMachine(eaches(2), nil)
	r := begin(t, d, `{"n":5}`)
	r = next(t, d, r, sm.Event{ID: sm.CommandEventID("p"), Kind: sm.EventPause, At: t1})
	r = next(t, d, r, answerOf(item(t, r, 1), t1, yes))
	if p := item(t, r, 3); r.Status != sm.StatusPaused || p.Place != sm.Held || len(dataOf(t, r).Got) != 1 {
		t.Fatalf("paused: %s, %+v", r.Status, p)
	}
	r = next(t, d, r, sm.Event{ID: sm.CommandEventID("q"), Kind: sm.EventResume, At: t1})
	if p := item(t, r, 3); p.Place != sm.Queued {
		t.Fatalf("resumed: %+v", p)
	}
	r = next(t, d, r, sm.Event{ID: sm.CommandEventID("c"), Kind: sm.EventCancel, At: t2})
	if r.Status != sm.StatusCancelled || len(r.Pending) > 0 || r.Frames[0].Fan != nil {
		t.Fatalf("cancelled: %s, %+v", r.Status, r.Pending)
	}
}

// fanRecords are a record of an Each, and one of branches.
func fanRecords(t *testing.T) (each, waits *sm.Stored) {
	t.Helper()
	d := batchMachine(eaches(40), nil)
	each = begin(t, d, `{"n":50}`)
	each = next(t, d, each, givenUp(item(t, each, 1), "bad"))
	each = next(t, d, each, givenUp(item(t, each, 3), "bad"))
	each = next(t, d, each, done(item(t, each, 4), "short"))
	f := d.Begin("r1", each, sm.Env{Now: t1})
	if _, err := f.Apply(done(item(t, each, 6), strings.Repeat("long ", 50))); err != nil {
		t.Fatal(err)
	}
	each = &seal(t, f).Stored
	d = batchMachine(sm.All(branches()...), func(s *sm.State[batch]) { s.Forever().Catch("full", "lost") })
	waits = begin(t, d, `{}`)
	return each, next(t, d, waits, done(item(t, waits, 1), "sent"))
}
