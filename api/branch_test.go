package api

import (
	"context"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/statemachine"
)

// What a run waits for bears the name of its branch, where its machine is known;
// else its number.
func TestBranchesAreNamed(t *testing.T) {
	t.Parallel()
	const mail statemachine.Effect[int, int] = "mail"
	m := statemachine.New[tally]("asker", 1)
	m.State("ask", statemachine.Any(
		statemachine.Branch("mail", statemachine.Call(mail, func(c *tally) int { return c.N }, nil)),
		statemachine.Branch("desk", statemachine.Signal("word", func(*tally, struct{}) {})),
	)).Forever()
	m.Succeed("done")
	c := new(statemachine.Catalog).Add(m)
	w := newTwin(t)
	d, _ := c.Definition("asker", 1)
	f := d.Begin("r", nil, statemachine.Env{Now: w.now})
	if o, err := f.Apply(statemachine.Event{Kind: statemachine.EventStart, Body: []byte(`{}`)}); err != nil || o != statemachine.Applied {
		t.Fatal(o, err)
	}
	s, err := f.Seal()
	if err != nil {
		t.Fatal(err)
	}
	s.Seq = 1
	w.runs["r"] = []*statemachine.Stored{&s.Stored}
	for _, known := range []bool{true, false} {
		a := w.answers()
		want, says := []string{"mail", "desk"}, "mail (branch mail)"
		if known {
			a.Definitions = c
		} else {
			want, says = []string{"", ""}, "mail (1 of 2)"
		}
		r, err := a.Run(context.Background(), "r", 0)
		if err != nil || r.Pending[0].Branch != want[0] || r.Waits[0].Branch != want[1] {
			t.Errorf("known %t: %+v, %v", known, r, err)
		}
		x, err := a.Explain(context.Background(), "r")
		if err != nil || !strings.Contains(x.Because[0].Text+x.Because[1].Text, says) {
			t.Errorf("known %t: %+v, %v, want %s", known, x, err, says)
		}
	}
}
