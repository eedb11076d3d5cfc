package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/statemachine"
)

// A fork has what a person said that an effect came to, however large: the
// command lies in a blob of the original, its result in one of the fork.
func TestForkHasWhatAPersonSaid(t *testing.T) {
	t.Parallel()
	const mail statemachine.Effect[int, string] = "mail"
	m := statemachine.New[tally]("mailer", 1)
	m.State("mail", statemachine.Call(mail, func(c *tally) int { return c.N }, nil)).Then("done")
	m.Succeed("done")
	w, d := newTwin(t), m.Definitions()[0]
	var last *statemachine.Stored
	apply := func(e statemachine.Event) {
		t.Helper()
		f := d.Begin("r", last, statemachine.Env{Now: w.now})
		if o, err := f.Apply(e); err != nil || o != statemachine.Applied {
			t.Fatal(o, err)
		}
		s, err := f.Seal()
		if err != nil {
			t.Fatal(err)
		}
		for hash, b := range s.Blobs {
			w.blobs[hash] = b
		}
		s.Seq = uint64(len(w.runs["r"]) + 1)
		last = &s.Stored
		w.runs["r"] = append(w.runs["r"], last)
	}
	apply(statemachine.Event{Kind: statemachine.EventStart, Body: []byte(`{}`)})
	effect := last.Pending[0].ID
	apply(statemachine.Event{Kind: statemachine.EventFailure, Effect: effect, Try: 1, Cause: &statemachine.Cause{Class: "lost"}})
	result := json.RawMessage(`"` + strings.Repeat("x", 9000) + `"`)
	body, err := json.Marshal(statemachine.Command{Effect: effect, Result: result})
	if err != nil {
		t.Fatal(err)
	}
	apply(statemachine.Event{ID: statemachine.CommandEventID("1"), Kind: statemachine.EventResolve, Body: body})
	if _, ok := statemachine.AsBlobRef(last.Events[0].Body); !ok {
		t.Fatalf("the command lies in the record: %.80s", last.Events[0].Body)
	}
	b := &branch{answers: w.answers(), q: &ForkRequest{ID: "r", Revision: 1, Fork: "f"}, blobs: map[string][]byte{}}
	if err := b.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.outcomes(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all statemachine.AnswersOf
	if err := json.Unmarshal(b.blobs[b.fork.Origin.Answers], &all); err != nil || len(all.Answers) != 1 {
		t.Fatalf("answers %+v, %v", all, err)
	}
	if ref, ok := statemachine.AsBlobRef(all.Answers[0].Body); !ok || string(b.blobs[ref.Hash]) != string(result) {
		t.Errorf("the answer is %.80s", all.Answers[0].Body)
	}
}
