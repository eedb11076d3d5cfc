package pawltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/pawltest"
	sm "github.com/pawlrun/pawl/statemachine"
)

func TestAttempts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		err      error // of every attempt
		attempts int   // that are made
		status   sm.Status
		state    string
		elapsed  time.Duration
	}{
		{"used up", errors.New("no"), 5, sm.StatusParked, "charge", 15 * time.Second},
		{"terminal", sm.Terminal("bad", errors.New("no")), 1, sm.StatusParked, "charge", 0},
		{"caught", sm.Terminal("declined", errors.New("no")), 1, sm.StatusFailed, "unpaid", 0},
		{"caught when used up", sm.Classed("declined", errors.New("no")), 5, sm.StatusFailed, "unpaid", 15 * time.Second},
		{"waits as asked", sm.RetryAfter(time.Hour, errors.New("no")), 5, sm.StatusParked, "charge", 4 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := pawltest.Start(t, invoice(), Invoice{}, pawltest.On(Charge, func(int) (string, error) { return "", tt.err }))
			calls := r.Calls("card.charge")
			if r.Status() != tt.status || r.State() != tt.state || len(calls) != tt.attempts {
				t.Errorf("run is %s in %s after %d attempts, want %s in %s after %d", r.Status(), r.State(), len(calls), tt.status, tt.state, tt.attempts)
			}
			for i, c := range calls {
				if c.Attempt != i+1 || c.Key != calls[0].Key || !errors.Is(c.Err, tt.err) {
					t.Errorf("attempt %d is %+v", i+1, c)
				}
			}
			if got := r.Now().Sub(calls[0].At); got != tt.elapsed {
				t.Errorf("it took %v, want %v", got, tt.elapsed)
			}
			letters := len(r.Letters())
			if want := map[sm.Status]int{sm.StatusParked: 1}[tt.status]; letters != want {
				t.Errorf("%d letters, want %d", letters, want)
			}
		})
	}
}

func TestLater(t *testing.T) {
	t.Parallel()
	n := 0
	r := pawltest.Start(t, invoice(), Invoice{}, pawltest.Returns(Mail, ""), pawltest.On(Charge, func(int) (string, error) {
		if n++; n < 20 {
			return "", sm.Later(time.Minute, nil)
		}
		return "ok", nil
	}))
	calls := r.Calls("card.charge")
	if r.Status() != sm.StatusSucceeded || len(calls) != 20 || calls[19].Attempt != 1 {
		t.Errorf("run %s after %d calls, the last of attempt %d, want succeeded, 20, 1", r.Status(), len(calls), calls[len(calls)-1].Attempt)
	}
}

// TestCommands redrives a run while it is paused, and lets it go on; another is
// cancelled.
func TestCommands(t *testing.T) {
	t.Parallel()
	n := 0
	start := func() *pawltest.Run {
		n = 0
		return pawltest.Start(t, invoice(), Invoice{}, pawltest.Returns(Mail, ""), pawltest.On(Charge, func(int) (string, error) {
			if n++; n == 1 {
				return "", sm.Terminal("odd", errors.New("something odd"))
			}
			return "ok", nil
		}))
	}
	r := start()
	for i, step := range []struct {
		kind   sm.EventKind
		status sm.Status
		place  sm.Place
	}{
		{sm.EventPause, sm.StatusPaused, sm.Parked},
		{sm.EventRedrive, sm.StatusPaused, sm.Held},
		{sm.EventResume, sm.StatusSucceeded, ""},
	} {
		id := fmt.Sprint(i)
		if o := r.Command(id, step.kind, sm.Command{By: "anna"}); o != sm.Applied {
			t.Errorf("%s = %v", step.kind, o)
		}
		records := r.Records()
		var place sm.Place
		for _, p := range records[len(records)-1].Pending {
			place = p.Place
		}
		if r.Status() != step.status || place != step.place {
			t.Errorf("after %s: %s, effect %s, want %s, %s", step.kind, r.Status(), place, step.status, step.place)
		}
		if o := r.Command(id, step.kind, sm.Command{By: "anna"}); o != sm.Duplicate {
			t.Errorf("%s again = %v", step.kind, o)
		}
	}
	if o := r.Command("late", sm.EventCancel, sm.Command{}); o != sm.Ended {
		t.Errorf("cancel = %v, want ended", o)
	}
	r = start()
	if o := r.Command("c", sm.EventCancel, sm.Command{Reason: "ordered twice"}); o != sm.Applied || r.Status() != sm.StatusCancelled || r.Cause().Message != "ordered twice" {
		t.Errorf("cancel = %v, status %s, cause %+v", o, r.Status(), r.Cause())
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	err := pawltest.Refused(t, invoice(), json.RawMessage(`{"cents":"many"}`))
	if sm.ClassOf(err) != sm.ClassInvalidInput || !strings.Contains(err.Error(), "field cents") {
		t.Errorf("Refused = %v, want a word about cents", err)
	}
}

// TestCatalog checks that handlers perform what no option does.
func TestCatalog(t *testing.T) {
	t.Parallel()
	other := sm.New[Invoice]("other", 1)
	other.Succeed("done")
	c := new(sm.Catalog).Add(invoice(), other)
	sm.Handle(c, Charge, func(_ context.Context, key string, cents int) (string, error) { return key, nil })
	sm.Handle(c, Mail, func(context.Context, string, string) (string, error) { panic("no mail today") }, sm.Policy{Attempts: 2, Queued: true})
	r := pawltest.Start(t, c, Invoice{}, pawltest.Machine("invoice", 0), pawltest.RunID("r7"), pawltest.At(time.Unix(0, 0)))
	if len(r.Calls("email.send")) != 2 || r.Cause().Class != sm.ClassPanic {
		t.Errorf("cause = %+v after %d calls", r.Cause(), len(r.Calls("email.send")))
	}
	var data Invoice
	r.Data(&data)
	if want := sm.EffectID("r7", sm.StartEventID, 0); data.Receipt != want {
		t.Errorf("receipt = %s, want the effect's id %s", data.Receipt, want)
	}
	var places []sm.Place
	for _, rec := range r.Records() {
		if rec.Rev != uint64(len(places)+1) {
			t.Errorf("revision %d at %d", rec.Rev, len(places))
		}
		places = append(places, rec.Pending[0].Place)
	}
	want := []sm.Place{sm.Inline, sm.Queued, sm.Retry, sm.Queued, sm.Parked}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	if o := r.Signal("s1", "hurry", 1); o != sm.Applied {
		t.Errorf("Signal = %v", o)
	}
	if o := r.Signal("s1", "hurry", 1); o != sm.Duplicate {
		t.Errorf("Signal again = %v", o)
	}
}

// agent has a log that grows beyond a chunk.
type agent struct {
	Said  sm.Log[string] `json:"said"`
	Turns int            `json:"turns"`
}

type words struct {
	Said sm.Log[string] `json:"said"`
}

const think sm.Effect[words, string] = "think"

func agents(turns int) *sm.Machine[agent] {
	m := sm.New[agent]("agent", 1)
	m.State("think", sm.Call(think, func(a *agent) words { return words{a.Said} }, func(a *agent, s string) {
		a.Said.Append(s)
		a.Turns++
	})).Visits(1000, "done").When(func(a *agent) bool { return a.Turns < turns }, "think")
	m.Succeed("done")
	return m
}

func TestLog(t *testing.T) {
	t.Parallel()
	const turns = 600
	long := strings.Repeat("x", 9000)
	r := pawltest.Start(t, agents(turns), json.RawMessage(`{"said":["first"]}`), pawltest.On(think, func(w words) (string, error) {
		if n := w.Said.Len(); n == 300 {
			return long, nil
		}
		items := w.Said.Items()
		return fmt.Sprint(len(items), " ", len(items[len(items)-1])), nil
	}))
	items := r.Log("said")
	if len(items) != turns+1 || string(items[0]) != `"first"` || string(items[1]) != `"1 5"` || string(items[301]) != `"301 9000"` {
		t.Fatalf("the log holds %d items: %.20q", len(items), items)
	}
	last := r.Records()[turns]
	if ref := last.Logs["said"]; ref.Count != turns+1 || ref.Sealed < 512 || ref.Head == "" {
		t.Errorf("log = %+v, want it sealed", ref)
	}
	if n := len(last.Bytes); n > 1500 {
		t.Errorf("the last record has %d bytes: it grows with the log", n)
	}
	var data agent
	r.Data(&data)
	if data.Turns != turns || data.Said.Len() != turns+1 {
		t.Errorf("data = %d turns, %d items", data.Turns, data.Said.Len())
	}
}

// probe is a testing.TB that notes what a test would fail with.
type probe struct {
	testing.TB
	failures []string
}

func (p *probe) Helper() {}
func (p *probe) Errorf(format string, args ...any) {
	p.failures = append(p.failures, fmt.Sprintf(format, args...))
}
func (p *probe) Fatalf(format string, args ...any) { p.Errorf(format, args...); panic(p) }
func (p *probe) Fatal(args ...any)                 { p.Errorf("%s", fmt.Sprint(args...)); panic(p) }

// fails runs a test that must fail with a text.
func fails(t *testing.T, want string, test func(t testing.TB)) {
	t.Helper()
	p := &probe{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(p) {
				panic(r)
			}
		}()
		test(p)
	}()
	if len(p.failures) != 1 || !strings.Contains(p.failures[0], want) {
		t.Errorf("the test fails with %q, want %q", p.failures, want)
	}
}

// TestFinds checks what a test is failed for.
func TestFinds(t *testing.T) {
	t.Parallel()
	fails(t, "nothing performs it; use pawltest.On", func(t testing.TB) { pawltest.Start(t, invoice(), Invoice{}) })
	fails(t, "field cents", func(t testing.TB) { pawltest.Start(t, invoice(), json.RawMessage(`{"cents":"x"}`)) })
	fails(t, "was not refused", func(t testing.TB) { _ = pawltest.Refused(t, invoice(), Invoice{}) })
	fails(t, "no way leads", func(t testing.TB) {
		m := sm.New[Invoice]("m", 1)
		m.State("a", sm.Call(Mail, (*Invoice).text, nil)).Visits(2, "b").Then("b")
		m.State("b", sm.Call(Mail, (*Invoice).text, nil)).When(func(*Invoice) bool { return false }, "c").Then("pit")
		m.Succeed("c")
		m.State("pit", sm.Call(Mail, (*Invoice).text, nil)).Visits(1, "pit").Then("pit")
		pawltest.Start(t, m, Invoice{})
	})
	fails(t, `key "k" was used for another input`, func(t testing.TB) {
		m := sm.New[Invoice]("m", 1)
		m.State("a", sm.Call(Mail, func(*Invoice) string { return "a" }, nil).Key(func(*Invoice) string { return "k" }))
		m.State("b", sm.Call(Mail, func(*Invoice) string { return "b" }, nil).Key(func(*Invoice) string { return "k" }))
		m.Succeed("z")
		pawltest.Start(t, m, Invoice{}, pawltest.Returns(Mail, ""))
	})
	count := 0
	fails(t, "not reproducible: run test, revision 2: data.receipt is", func(t testing.TB) {
		m := sm.New[Invoice]("m", 1)
		m.State("a", sm.Call(Mail, (*Invoice).text, func(i *Invoice, _ string) { count++; i.Receipt = fmt.Sprint(count) }))
		m.Succeed("z")
		pawltest.Start(t, m, Invoice{}, pawltest.Returns(Mail, ""))
	})
}

// TestSameKey checks that a key is performed once.
func TestSameKey(t *testing.T) {
	t.Parallel()
	m := sm.New[Invoice]("m", 1)
	key := func(*Invoice) string { return "k" }
	for _, name := range []string{"a", "b"} {
		m.State(name, sm.Call(Charge, (*Invoice).amount, (*Invoice).charged).Key(key))
	}
	m.Succeed("z")
	r := pawltest.Start(t, m, Invoice{}, pawltest.Returns(Charge, "first", "second"))
	var data Invoice
	r.Data(&data)
	if len(r.Calls("card.charge")) != 1 || data.Receipt != "first" {
		t.Errorf("%d calls, receipt %s, want 1, first", len(r.Calls("card.charge")), data.Receipt)
	}
}

// TestResultThatDoesNotFit checks that the run is parked, as a worker does it.
func TestResultThatDoesNotFit(t *testing.T) {
	t.Parallel()
	r := pawltest.Start(t, invoice(), Invoice{}, pawltest.OnRaw("card.charge", func(json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"not":"a string"}`), nil
	}))
	if r.Status() != sm.StatusParked || r.Cause().Class != sm.ClassInvalidResult {
		t.Errorf("run is %s, cause %+v", r.Status(), r.Cause())
	}
}
