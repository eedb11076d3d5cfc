package statemachine_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sm "github.com/pawlrun/pawl/statemachine"
)

var update = flag.Bool("update", false, "write the golden files anew")

func nop(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil }

// handled returns a catalog in which every effect of the tests has a handler.
func handled(machines ...sm.Machines) *sm.Catalog {
	c := new(sm.Catalog).Add(machines...)
	for _, e := range []string{"card.pay", "parcel.ship", "email.send", "model.chat", "tool.search", "tool.clock"} {
		sm.HandleRaw(c, e, nop)
	}
	return c
}

type small struct {
	N int `json:"n"`
}

func (s *small) yes() bool    { return true }
func (s *small) text() string { return "" }

func act() sm.Action[small] { return sm.Call(tell, (*small).text, nil) }

// TestCheck is the table of faults: what is declared, and all that is said
// about it.
func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		make func(m *sm.Machine[small])
		want []string // after the name of the machine
	}{
		{"none", func(m *sm.Machine[small]) { m.State("a", act()); m.Succeed("z") }, nil},
		{"no states", func(m *sm.Machine[small]) {}, []string{`: has no states`}},
		{"no end", func(m *sm.Machine[small]) { m.State("a", act()).Then("b"); m.State("b", act()).Then("a") },
			[]string{
				`: has no end: no Succeed and no Fail`,
				`: state "a": the loop a → b → a has no bound: a state in it needs Visits`,
			}},
		{"bad state name", func(m *sm.Machine[small]) { m.State("A b", act()); m.Succeed("z") },
			[]string{`: state "A b": not a name ([a-z][a-z0-9_-]{0,63})`}},
		{"state twice", func(m *sm.Machine[small]) { m.State("a", act()); m.State("a", act()); m.Succeed("z") },
			[]string{`: state "a": declared twice`, `: state "a": the loop a → a has no bound: a state in it needs Visits`}},
		{"misspelt target", func(m *sm.Machine[small]) {
			m.State("a", act()).Then("shiped")
			m.State("shipped", act())
			m.Succeed("z")
		},
			[]string{`: state "a": Then names no state: "shiped" (did you mean "shipped"?)`}},
		{"unknown targets", func(m *sm.Machine[small]) {
			m.State("a", act()).When((*small).yes, "w").Catch("x", "nowhere").Visits(2, "far_away")
			m.Succeed("z")
		}, []string{
			`: state "a": When names no state: "w"`,
			`: state "a": Catch names no state: "nowhere"`,
			`: state "a": Visits names no state: "far_away"`,
		}},
		{"unreachable", func(m *sm.Machine[small]) { m.State("a", act()).Then("z"); m.State("island", act()); m.Succeed("z") },
			[]string{`: state "island": cannot be reached from "a"`}},
		{"unreachable end", func(m *sm.Machine[small]) { m.State("a", act()); m.Succeed("z"); m.Fail("f", "x") },
			[]string{`: state "f": cannot be reached from "a"`}},
		{"last state goes nowhere", func(m *sm.Machine[small]) {
			m.State("a", act()).When((*small).yes, "b")
			m.Succeed("z")
			m.State("b", act())
		}, []string{`: state "b": has no Then, and no state follows in the file`}},
		{"dead end", func(m *sm.Machine[small]) {
			m.State("a", act()).When((*small).yes, "pit").Then("z")
			m.State("pit", act()).Visits(3, "hole").Then("hole")
			m.State("hole", act()).Then("pit")
			m.Succeed("z")
		}, []string{
			`: state "pit": is a dead end: no way leads from it to an end`,
			`: state "hole": is a dead end: no way leads from it to an end`,
		}},
		{"loop", func(m *sm.Machine[small]) {
			m.State("a", act())
			m.State("b", act()).When((*small).yes, "a")
			m.Succeed("z")
		}, []string{`: state "a": the loop a → b → a has no bound: a state in it needs Visits`}},
		{"loop through a catch", func(m *sm.Machine[small]) { m.State("a", act()).Catch("*", "a"); m.Succeed("z") },
			[]string{`: state "a": the loop a → a has no bound: a state in it needs Visits`}},
		{"loop with a bound", func(m *sm.Machine[small]) {
			m.State("a", act())
			m.State("b", act()).When((*small).yes, "a").Visits(9, "z")
			m.Succeed("z")
		}, nil},
		{"bound that leads back", func(m *sm.Machine[small]) {
			m.State("a", act()).Visits(9, "b").Then("b")
			m.Decide("b").When((*small).yes, "z").Then("a")
			m.Succeed("z")
		}, []string{`: state "a": the loop a → b → a has no bound: a state in it needs Visits`}},
		{"odd exits", func(m *sm.Machine[small]) {
			m.Decide("a").Catch("x", "z").When(nil, "z").Then("z").Then("z").Visits(0, "z")
			m.Succeed("z")
		}, []string{
			`: state "a": has more than one Then`,
			`: state "a": Visits allows 0 visits, it must be 1 or more`,
			`: state "a": When to "z" has no predicate`,
			`: state "a": Catch in a state that performs no effect`,
		}},
		{"odd catches", func(m *sm.Machine[small]) {
			m.State("a", act()).Catch("x", "z").Catch("x", "f").Catch("", "z").Catch("*", "f").Catch("y", "z")
			m.Succeed("z")
			m.Fail("f", "")
		}, []string{
			`: state "a": Catch of "x" to "f" is never reached: an earlier one catches it`,
			`: state "a": Catch to "z" names no class`,
			`: state "a": Catch of "y" to "z" is never reached: an earlier one catches it`,
			`: state "f": Fail names no class`,
		}},
		{"effects", func(m *sm.Machine[small]) {
			m.State("a", sm.Call(sm.Effect[string, int]("no.such"), (*small).text, nil))
			m.State("b", sm.Call(sm.Effect[string, int]("Bad"), (*small).text, nil).Timeout(-1))
			m.State("c", sm.CallOf[small](nil, nil, nil))
			m.Succeed("z")
		}, []string{
			`: state "b": Timeout is negative`,
			`: state "b": effect "Bad": not a name ([a-z][a-z0-9_-]{0,63}, and single dots)`,
			`: state "c": CallOf has no tools`,
			`: state "c": CallOf has no function that picks`,
			`: state "a": effect "no.such" has no handler`,
		}},
		{"index", func(m *sm.Machine[small]) {
			m.Index("n", (*small).text)
			m.Index("n", (*small).text)
			m.Index("N", (*small).text)
			m.Index("nil", nil)
			m.State("a", act())
			m.Succeed("z")
		}, []string{
			`: index "n": declared twice`,
			`: index "N": not a name ([a-z][a-z0-9_-]{0,63})`,
			`: index "nil": has no function`,
		}},
		{"many indexes", func(m *sm.Machine[small]) {
			for i := range 9 {
				m.Index(fmt.Sprintf("i%d", i), (*small).text)
			}
			m.State("a", act())
			m.Succeed("z")
		}, []string{`: has 9 index fields, at most 8 are allowed`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := sm.New[small]("m", 1)
			tt.make(m)
			var want []string
			for _, w := range tt.want {
				want = append(want, `machine "m" version 1`+w)
			}
			if diff := cmp.Diff(want, lines(handled(m).Check())); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// TestCheckCatalog checks that the faults of several machines are told at
// once, each with its name.
func TestCheckCatalog(t *testing.T) {
	t.Parallel()
	a := sm.New[small]("alpha", 1)
	a.State("go", act()).Then("nowhere")
	a.Succeed("end")
	b := sm.New[small]("beta", 3)
	b.State("go", sm.Call(sm.Effect[string, int]("no.such"), (*small).text, nil))
	b.Succeed("end")
	again := sm.New[small]("beta", 3)
	again.Decide("go")
	again.Succeed("end")
	c := handled(orders(), chats()).Add(a, b, again)
	want := []string{
		`machine "beta" version 3: declared twice with different graphs`,
		`machine "alpha" version 1: state "go": Then names no state: "nowhere"`,
		`machine "alpha" version 1: state "end": cannot be reached from "go"`,
		`machine "beta" version 3: state "go": effect "no.such" has no handler`,
	}
	if diff := cmp.Diff(want, lines(c.Check())); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
	if err := handled(orders(), chats()).Check(); err != nil {
		t.Errorf("Check of sound machines: %v", err)
	}
	if err := handled(orders(), orders()).Check(); err != nil {
		t.Errorf("Check of a machine that was added twice: %v", err)
	}
}

// TestCheckNames checks what else a catalog says about names and handlers.
func TestCheckNames(t *testing.T) {
	t.Parallel()
	m := sm.New[small]("Bad Name", 0)
	m.State("a", act())
	m.Succeed("z")
	c := handled(m)
	sm.HandleRaw(c, "email.send", nop)
	sm.HandleRaw(c, "a..b", nop)
	sm.HandleRaw(c, "x", nil)
	sm.HandleRaw(c, "y", nop, sm.Policy{}, sm.Policy{})
	want := []string{
		`effect "email.send": has two handlers`,
		`effect "a..b": not a name ([a-z][a-z0-9_-]{0,63}, and single dots)`,
		`effect "x": the handler is nil`,
		`effect "y": has two policies`,
		`machine "Bad Name" version 0: not a name ([a-z][a-z0-9_-]{0,63})`,
		`machine "Bad Name" version 0: a version is 1 or more`,
	}
	if diff := cmp.Diff(want, lines(c.Check())); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
}

// TestCheckData checks that data which would be forgotten is found.
func TestCheckData(t *testing.T) {
	t.Parallel()
	type forgetful struct {
		sm.Meta
		Kept   int
		hidden int
		Cache  int            `json:"-"`
		log    sm.Log[string] //nolint:unused // that is the fault
		Gone   sm.Log[string] `json:"-"`
		Deep   map[string][]struct{ L *sm.Log[int] }
	}
	m := sm.New[forgetful]("m", 1)
	m.State("a", sm.Call(tell, func(f *forgetful) string { return fmt.Sprint(f.hidden, f.log.Len()) }, nil))
	m.Succeed("z")
	const T = "statemachine_test.forgetful"
	want := []string{
		`machine "m" version 1: field hidden of ` + T + ` is not stored: a run would forget it between two records`,
		`machine "m" version 1: field Cache of ` + T + ` is not stored: a run would forget it between two records`,
		`machine "m" version 1: log log of ` + T + ` is not stored: it needs an exported field`,
		`machine "m" version 1: log Gone of ` + T + ` is not stored: it needs an exported field`,
		`machine "m" version 1: field Deep of ` + T + ` contains a log: only a field of the data itself can be one`,
	}
	if diff := cmp.Diff(want, lines(handled(m).Check())); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
}

// TestHash checks what makes another graph.
func TestHash(t *testing.T) {
	t.Parallel()
	hash := func(change func(s *sm.State[small])) string {
		m := sm.New[small]("m", 1)
		change(m.State("a", act()))
		m.Succeed("z")
		m.Succeed("y")
		return m.Definitions()[0].Hash
	}
	plain := hash(func(*sm.State[small]) {})
	if got := hash(func(s *sm.State[small]) { s.Then("z") }); got != plain {
		t.Error("Then to the next state changes the hash")
	}
	other := map[string]bool{plain: true}
	for i, change := range []func(s *sm.State[small]){
		func(s *sm.State[small]) { s.Then("y") },
		func(s *sm.State[small]) { s.When((*small).yes, "y") },
		func(s *sm.State[small]) { s.Catch("x", "y") },
		func(s *sm.State[small]) { s.Catch("*", "y") },
		func(s *sm.State[small]) { s.Visits(3, "y") },
	} {
		h := hash(change)
		if other[h] {
			t.Errorf("change %d does not change the hash", i)
		}
		other[h] = true
	}
	if !other[hash(func(s *sm.State[small]) { s.Visits(4, "y") })] {
		t.Error("another bound changes the hash")
	}
}

// TestCatalog checks the look-ups of a catalog.
func TestCatalog(t *testing.T) {
	t.Parallel()
	two := sm.New[small]("m", 2)
	ten := sm.New[small]("m", 10)
	c := new(sm.Catalog).Add(ten, orders(), two)
	sm.Handle(c, ship, func(_ context.Context, key, in string) (int, error) { return len(key + in), nil }, sm.Policy{Timeout: time.Minute})
	var names []string
	for _, d := range c.Definitions() {
		names = append(names, fmt.Sprint(d.Name, d.Version))
	}
	if diff := cmp.Diff([]string{"m2", "m10", "order1"}, names); diff != "" {
		t.Errorf("Definitions (-want +got):\n%s", diff)
	}
	for version, want := range map[int]int{0: 10, 2: 2, 10: 10} {
		if d, ok := c.Definition("m", version); !ok || d.Version != want {
			t.Errorf("Definition(m, %d) = %v, %t, want version %d", version, d, ok, want)
		}
	}
	if _, ok := c.Definition("m", 3); ok {
		t.Error("Definition(m, 3) found one")
	}
	h, ok := c.Handler("parcel.ship")
	if !ok || h.Policy.Timeout != time.Minute || h.Effect != "parcel.ship" {
		t.Fatalf("Handler = %+v, %t", h, ok)
	}
	if out, err := h.Call(t.Context(), "key", json.RawMessage(`"in"`)); string(out) != "5" || err != nil {
		t.Errorf("Call = %s, %v, want 5", out, err)
	}
	if _, err := h.Call(t.Context(), "key", json.RawMessage(`7`)); !sm.IsTerminal(err) || sm.ClassOf(err) != sm.ClassInvalidInput {
		t.Errorf("Call with a wrong input = %v, want a terminal error of class invalid_input", err)
	}
	if diff := cmp.Diff([]string{"parcel.ship"}, c.Effects()); diff != "" {
		t.Errorf("Effects (-want +got):\n%s", diff)
	}
}

// TestDiagrams compares the drawings with golden files; -update writes them.
func TestDiagrams(t *testing.T) {
	t.Parallel()
	hyphens := sm.New[small]("odd", 1)
	hyphens.State("send-mail", act()).When(func(*small) bool { return true }, "end").Catch("*", "note")
	hyphens.Succeed("end")
	hyphens.Fail("note", "odd")
	for _, m := range []sm.Machines{orders(), chats(), trips(), hyphens} {
		d := m.Definitions()[0]
		golden(t, filepath.Join("testdata", "diagrams", d.Name+".mmd"), []byte(d.Diagram()))
	}
}

// TestStates compares the description of a machine's states.
func TestStates(t *testing.T) {
	t.Parallel()
	got, err := json.MarshalIndent(orders().Definitions()[0].States(), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "diagrams", "order.json"), append(got, '\n'))
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
