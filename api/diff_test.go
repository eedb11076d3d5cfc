package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/statemachine"
)

// parcel goes a way that its data says.
type parcel struct {
	statemachine.Meta
	Weight int                      `json:"weight"`
	Fare   int                      `json:"fare,omitempty"`
	To     map[string]string        `json:"to,omitempty"`
	Notes  statemachine.Log[string] `json:"notes"`
}

func parcels() *statemachine.Catalog {
	const rate, ship statemachine.Effect[int, int] = "rate", "ship"
	weight := func(p *parcel) int { return p.Weight }
	m := statemachine.New[parcel]("parcel", 1)
	m.State("rate", statemachine.Call(rate, weight, func(p *parcel, fare int) { p.Fare = fare; p.Notes.Append(fmt.Sprint("fare ", fare)) })).
		When(func(p *parcel) bool { return p.Fare > 50 }, "freight").Then("post")
	m.State("post", statemachine.Call(ship, weight, nil)).Then("done")
	m.State("freight", statemachine.Call(ship, weight, nil)).Then("pack")
	m.State("pack", statemachine.Each(func(*parcel) []int { return []int{1, 2, 3} }, 3, ship, func(_ *parcel, n int) int { return n },
		func(p *parcel, _ int, r statemachine.Result[int]) { p.Notes.Append(fmt.Sprint("packed ", r.Value)) })).Then("done")
	m.Succeed("done")
	return new(statemachine.Catalog).Add(m)
}

// goes records a run whose effects come to what is given, and fail where that is
// an error.
func (w *twin) goes(d *statemachine.Definition, run string, begin statemachine.Event, outcomes ...any) {
	w.t.Helper()
	last := func() *statemachine.Stored { r, _ := w.Look(w.t.Context(), run); return r }
	apply := func(e statemachine.Event) {
		w.now = w.now.Add(time.Second)
		f := d.Begin(run, last(), statemachine.Env{Now: w.now, By: run})
		if o, err := f.Apply(e); err != nil || o != statemachine.Applied {
			w.t.Fatalf("apply %s: %s, %v", e.Kind, o, err)
		}
		s, err := f.Seal()
		if err != nil {
			w.t.Fatal(err)
		}
		w.seq++
		s.Seq = w.seq
		w.runs[run] = append(w.runs[run], &s.Stored)
	}
	apply(begin)
	for _, o := range outcomes {
		p := &last().Pending[0]
		if of, is := o.(ofItem); is {
			p, o = &last().Pending[slices.IndexFunc(last().Pending, func(p statemachine.Pending) bool { return p.Item == of.item })], of.outcome
		}
		e := statemachine.Event{Kind: statemachine.EventResult, Effect: p.ID, Try: p.Try, Body: json.RawMessage(fmt.Sprint(o))}
		if err, failed := o.(error); failed {
			at := w.now.Add(time.Second)
			e.Kind, e.Body, e.RetryAt, e.Cause = statemachine.EventFailure, nil, &at, &statemachine.Cause{Class: "error", Message: err.Error()}
		}
		apply(e)
		if e.Kind == statemachine.EventFailure {
			apply(statemachine.Event{Kind: statemachine.EventDue, Effect: p.ID, Try: p.Try + 1})
		}
	}
}

// ofItem is what the effect of one of many items comes to.
type ofItem struct {
	item    int
	outcome any
}

func started(input string) statemachine.Event {
	return statemachine.Event{Kind: statemachine.EventStart, Body: json.RawMessage(input)}
}

// Two runs are compared where they were in the same state for the same time, and
// all that counts is said once.
func TestDiff(t *testing.T) {
	t.Parallel()
	d, _ := parcels().Definition("parcel", 1)
	w := newTwin(t)
	w.goes(d, "a", started(`{"weight":1,"to":{"city":"Bonn","zip":"53111"}}`), 7, 100)
	w.goes(d, "same", started(`{"to":{"zip":"53111","city":"Bonn"},"weight":1}`), 7, 100)
	w.goes(d, "tried", started(`{"weight":1,"to":{"city":"Bonn","zip":"53111"}}`), fmt.Errorf("no line"), 7, 100)
	w.goes(d, "elsewhere", started(`{"weight":1,"to":{"city":"Köln"}}`), 7, 100)
	w.goes(d, "heavy", started(`{"weight":90,"to":{"city":"Bonn","zip":"53111"}}`), 70, 100, ofItem{1, 10}, ofItem{2, 20}, ofItem{3, 30})
	w.goes(d, "begun", started(`{"weight":1,"to":{"city":"Bonn","zip":"53111"}}`), 7)
	rate := func(what, field, a, b string) Difference {
		return Difference{State: "rate", Visit: 1, RevA: 1, RevB: 1, What: what, Field: field, A: a, B: b}
	}
	tests := []struct {
		b    string
		want []Difference
	}{
		{"same", nil},
		{"tried", []Difference{rate("failure rate", "", "", `{"class":"error","message":"no line"}`)}},
		{"elsewhere", []Difference{rate("data", "to.city", `"Bonn"`, `"Köln"`), rate("data", "to.zip", `"53111"`, "")}},
		{"heavy", []Difference{
			rate("data", "weight", "1", "90"),
			rate("asked rate", "", "1", "90"),
			rate("result rate", "", "7", "70"),
			rate("log notes", "0", `"fare 7"`, `"fare 70"`),
			rate("to", "", `"post"`, `"freight"`),
			{State: "post", Visit: 1, RevA: 2, What: "visit", A: "true"},
			{State: "freight", Visit: 1, RevB: 2, What: "visit", B: "true"},
			{State: "pack", Visit: 1, RevB: 3, What: "visit", B: "true"},
			{State: "done", Visit: 1, RevA: 3, RevB: 6, What: "data", Field: "fare", A: "7", B: "70"},
			{State: "done", Visit: 1, RevA: 3, RevB: 6, What: "data", Field: "notes.to", A: "1", B: "4"},
		}},
		{"begun", []Difference{
			{State: "post", Visit: 1, RevA: 2, RevB: 2, What: "result ship", A: "100"},
			{State: "post", Visit: 1, RevA: 2, RevB: 2, What: "to", A: `"done"`},
			{State: "done", Visit: 1, RevA: 3, What: "visit", A: "true"},
		}},
	}
	for _, tt := range tests {
		c, err := w.answers().Compare(t.Context(), "a", tt.b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Diff(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got.Same != (tt.want == nil) || got.More {
			t.Errorf("a and %s: same %t, more %t", tt.b, got.Same, got.More)
		}
		if diff := cmp.Diff(append([]Difference{}, tt.want...), got.Differences); diff != "" {
			t.Errorf("a and %s (-want +got):\n%s", tt.b, diff)
		}
	}
}

// What is done many times at once is compared item by item, in whatever order the
// handlers returned.
func TestDiffOfMany(t *testing.T) {
	t.Parallel()
	d, _ := parcels().Definition("parcel", 1)
	w := newTwin(t)
	for run, outcomes := range map[string][]any{
		"a":     {70, 100, ofItem{1, 10}, ofItem{2, 20}, ofItem{3, 30}},
		"same":  {70, 100, ofItem{3, 30}, ofItem{1, 10}, ofItem{2, 20}},
		"other": {70, 100, ofItem{2, 21}, ofItem{3, 30}, ofItem{1, 10}},
	} {
		w.goes(d, run, started(`{"weight":90}`), outcomes...)
	}
	pack := Difference{State: "pack", Visit: 1, RevA: 3, RevB: 3, A: "20", B: "21"}
	result, note := pack, pack
	result.What = "result ship #2"
	note.What, note.Field, note.A, note.B = "log notes", "1", `"packed 20"`, `"packed 21"`
	for b, want := range map[string][]Difference{"same": {}, "other": {result, note}} {
		c, err := w.answers().Compare(t.Context(), "a", b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Diff(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Differences); diff != "" {
			t.Errorf("a and %s (-want +got):\n%s", b, diff)
		}
	}
}

// A fork is compared with its original from where it was forked, whichever is
// named first, and however often the original had rolled.
func TestDiffOfAFork(t *testing.T) {
	t.Parallel()
	d, _ := parcels().Definition("parcel", 1)
	w := newTwin(t)
	w.goes(d, "a", started(`{"weight":1}`), 7, 100)
	for _, r := range w.of("a")[1:] {
		r.Epoch = 3
	}
	k, err := w.of("a")[1].Fork()
	if err != nil {
		t.Fatal(err)
	}
	k.Logs = map[string]statemachine.LogRef{"notes": {Count: 1, Sealed: 1, Head: "chunk"}}
	for run, set := range map[string]string{"same": `{}`, "other": `{"weight":2}`} {
		k.Set = json.RawMessage(set)
		body, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		w.goes(d, run, statemachine.Event{Kind: statemachine.EventFork, Body: body}, 100)
	}
	for _, pair := range [][2]string{{"a", "same"}, {"same", "a"}} {
		c, err := w.answers().Compare(t.Context(), pair[0], pair[1])
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Diff(t.Context(), 0, 0)
		if err != nil || !got.Same {
			t.Errorf("%v: %+v, %v", pair, got, err)
		}
	}
	c, err := w.answers().Compare(t.Context(), "a", "other")
	if err != nil {
		t.Fatal(err)
	}
	if c.A.From != 2 || c.B.From != 1 || c.B.Origin == nil {
		t.Errorf("compared: %+v and %+v", c.A, c.B)
	}
	got, err := c.Diff(t.Context(), 0, 0)
	post := Difference{State: "post", Visit: 1, RevA: 2, RevB: 1, A: "1", B: "2"}
	data, asked := post, post
	data.What, data.Field, asked.What = "data", "weight", "asked ship"
	if diff := cmp.Diff([]Difference{data, asked}, got.Differences); err != nil || diff != "" {
		t.Errorf("a and other: %v (-want +got):\n%s", err, diff)
	}
}

// The API answers so many differences, and says what cannot be compared.
func TestDiffAnswered(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	d, _ := parcels().Definition("parcel", 1)
	w.goes(d, "a", started(`{"weight":1}`), 7, 100)
	w.goes(d, "b", started(`{"weight":90}`), 70, 100)
	w.tallied(counters(1, 0), "count", `{}`)
	ask := func(q string) (*Diff, error) {
		b, err := NewServer(w.answers(), ServerOptions{}).Do(t.Context(), Caller{Role: RoleView}, RunsDiff, []byte(q))
		if err != nil {
			return nil, err
		}
		out := new(Diff)
		return out, json.Unmarshal(b, out)
	}
	if got, err := ask(`{"a":"a","b":"b","limit":2}`); err != nil || len(got.Differences) != 2 || !got.More || got.Same {
		t.Errorf("diff: %+v, %v", got, err)
	}
	for q, want := range map[string]string{
		`{"a":"a","b":"a"}`:                `"a" is one run: two are compared`,
		`{"a":"a","b":"nosuch"}`:           `run "nosuch": not found`,
		`{"a":"a","b":"count"}`:            `run "a" is of machine parcel, and "count" of counter: only runs of one machine are compared`,
		`{"a":"a","b":""}`:                 "b: ",
		`{"a":"a","b":"b","limit":100000}`: "limit 100000 is not 1 to ",
	} {
		if _, err := ask(q); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", q, err, want)
		}
	}
}
