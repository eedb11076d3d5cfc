package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// tally counts the results of an effect up to four; add is what its code
// makes of one.
type tally struct{ N, Sum int }

func counters(version, add int) *statemachine.Catalog {
	const count statemachine.Effect[int, int] = "count"
	m := statemachine.New[tally]("counter", version)
	m.State("count", statemachine.Call(count, func(c *tally) int { return c.N }, func(c *tally, n int) { c.N++; c.Sum += n + add })).
		Visits(9, "done").When(func(c *tally) bool { return c.N == 4 }, "done").Then("count")
	m.Succeed("done")
	return new(statemachine.Catalog).Add(m)
}

// tallied records a run of the first version of a catalog's machine until it
// ends.
func (w *twin) tallied(c *statemachine.Catalog, run, input string) {
	w.t.Helper()
	d, _ := c.Definition("counter", 1)
	e := statemachine.Event{Kind: statemachine.EventStart, Body: json.RawMessage(input)}
	for n := 1; ; n++ {
		last, _ := w.Look(context.Background(), run)
		w.now = w.now.Add(time.Second)
		f := d.Begin(run, last, statemachine.Env{Now: w.now})
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
		if s.Status.Ended() {
			return
		}
		e = statemachine.Event{Kind: statemachine.EventResult, Effect: s.Pending[0].ID, Body: json.RawMessage(fmt.Sprint(10 * n))}
	}
}

// A run is folded again page by page; what comes out differently is named, and
// so is a machine that is not there.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.tallied(counters(1, 0), "r", `{}`)
	ask := func(c *statemachine.Catalog, q string) (*Replayed, error) {
		a := w.answers()
		if c != nil {
			a.Definitions = c
		}
		b, err := NewServer(a, ServerOptions{}).Do(t.Context(), Caller{Role: RoleView}, RunsReplay, []byte(q))
		if err != nil {
			return nil, err
		}
		out := new(Replayed)
		return out, json.Unmarshal(b, out)
	}
	whole, err := ask(counters(1, 0), `{"id":"r"}`)
	if err != nil || whole.From != 1 || whole.To != 5 || whole.Change != nil || whole.Next != 0 || whole.Status != statemachine.StatusSucceeded {
		t.Errorf("replayed: %+v, %v", whole, err)
	}
	first, err := ask(counters(1, 0), `{"id":"r","limit":2}`)
	if err != nil || first.From != 1 || first.To != 2 || first.Next != w.runs["r"][1].Seq {
		t.Errorf("the first page: %+v, %v", first, err)
	}
	second, err := ask(counters(1, 0), fmt.Sprintf(`{"id":"r","limit":3,"after":%d}`, first.Next))
	if err != nil || second.From != 3 || second.To != 5 || second.Next != 0 {
		t.Errorf("the second page: %+v, %v", second, err)
	}
	changed, err := ask(counters(1, 1), `{"id":"r"}`)
	if want := (Change{Revision: 2, Field: "data.Sum", Recorded: "10", Replayed: "11"}); err != nil || changed.Change == nil || *changed.Change != want {
		t.Errorf("by other code: %+v, %v, want %+v", changed, err, want)
	}
	for _, of := range []struct {
		c       *statemachine.Catalog
		q, says string
	}{
		{counters(2, 0), `{"id":"r"}`, `run "r" is of machine counter: its version 1: no such machine here`},
		{nil, `{"id":"r"}`, `run "r" is of machine counter version 1: no such machine here`},
	} {
		var e *Error
		if _, err := ask(of.c, of.q); !errors.As(err, &e) || e.Class != ClassUnknownMachine || !strings.Contains(err.Error(), of.says) {
			t.Errorf("without the machine: %v, want %s", err, of.says)
		}
	}
	if _, err := ask(counters(1, 0), `{"id":"nosuch"}`); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
}
