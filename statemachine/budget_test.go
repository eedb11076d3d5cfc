package statemachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sm "github.com/pawlrun/pawl/statemachine"
)

// talk is the data of a machine that thinks until its tokens are used up.
type talk struct {
	Tokens int `json:"tokens"`
}

func (d *talk) tokens() int    { return d.Tokens }
func (d *talk) spend(n int)    { d.Tokens += n }
func (d *talk) finished() bool { return d.Tokens == 7 }

const think sm.Effect[int, int] = "think"

func talks(over string) *sm.Definition {
	m := sm.New[talk]("talk", 1)
	m.Budget("tokens", (*talk).tokens, 10, over)
	m.State("think", sm.Call(think, nil, (*talk).spend)).Visits(9, "tired").When((*talk).finished, "done").Then("think")
	m.Succeed("done")
	m.State("apologise", sm.Call(think, nil, (*talk).spend)).Then("over_budget")
	m.Fail("over_budget", "budget")
	m.Fail("tired", "visits")
	return m.Definitions()[0]
}

// TestBudget lets a run use what it may, and then sends it to where it is over,
// once: what it does there costs something, too.
func TestBudget(t *testing.T) {
	t.Parallel()
	d := talks("apologise")
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	r := foldOne(t, d, "t1", nil, startEvent(`{"tokens":0}`), inline)
	for i, want := range []struct {
		spends int
		state  string
		spent  sm.Spent
	}{
		{6, "think", sm.Spent{Used: 6, Most: 10}},
		{4, "think", sm.Spent{Used: 10, Most: 10}},
		{1, "apologise", sm.Spent{Used: 11, Most: 10, Over: true}},
	} {
		r = foldOne(t, d, "t1", r, cameOf(r, fmt.Sprint(want.spends), ""), inline)
		if diff := cmp.Diff(map[string]sm.Spent{"tokens": want.spent}, r.Budgets); r.To != want.state || r.V != 5 || diff != "" {
			t.Errorf("step %d: in %s, version %d, budgets (-want +got):\n%s", i, r.To, r.V, diff)
		}
	}
	paused := foldOne(t, d, "t1", r, commandEvent(sm.EventPause, "p", sm.Command{}), inline)
	if !paused.Budgets["tokens"].Over {
		t.Error("a record that computes nothing forgets that it is over")
	}
	r = foldOne(t, d, "t1", r, cameOf(r, "5", ""), inline)
	if r.Status != sm.StatusFailed || r.Cause.Class != "budget" || r.Budgets["tokens"].Used != 16 {
		t.Errorf("it is %s, %+v, %+v", r.Status, r.Cause, r.Budgets)
	}
	if !strings.Contains(d.Diagram(), "think --> apologise: over budget tokens") {
		t.Errorf("it is drawn as\n%s", d.Diagram())
	}
}

// TestBudgetFaults checks what is wrong with budgets.
func TestBudgetFaults(t *testing.T) {
	t.Parallel()
	m := sm.New[talk]("talk", 1)
	m.Budget("Tokens", (*talk).tokens, 10, "done")
	m.Budget("a", nil, 10, "done")
	m.Budget("b", (*talk).tokens, -1, "dome")
	m.Budget("b", (*talk).tokens, 1, "done")
	m.State("think", sm.Call(think, nil, (*talk).spend))
	m.Succeed("done")
	err := m.Definitions()[0].Check()
	for _, want := range []string{
		`budget "Tokens": not a name`, `budget "a": has no function that tells what is used`, `budget "b": -1 is not 0 or more`,
		`budget "b": declared twice`, `Budget names no state: "dome" (did you mean "done"?)`,
	} {
		if n := strings.Count(fmt.Sprint(err), want); n != 1 {
			t.Errorf("%q is said %d times in %v", want, n, err)
		}
	}
}
