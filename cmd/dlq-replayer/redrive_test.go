package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
)

var (
	killLetters = flag.Int("redrive.letters", 120, "letters that are re-driven while the tool is killed")
	killTimes   = flag.Int("redrive.kills", 5, "how often it is killed")
)

// TestMain lets the test binary be dlq-replayer, for what only a process can
// show.
func TestMain(m *testing.M) {
	if os.Getenv("PAWL_TEST_AS_PROCESS") != "" {
		main()
	}
	os.Exit(m.Run())
}

// parcel is the data, and the effect's input, of the machine under test.
type parcel struct {
	To   string `json:"to"`
	Note string `json:"note,omitempty"`
}

func (p *parcel) self() parcel { return *p }

const ship statemachine.Effect[parcel, bool] = "parcel.ship"

// shop is a fleet whose handler fails until it is mended, and which refuses
// orders to nowhere until it is told not to.
type shop struct {
	t     *testing.T
	url   string
	queue *natsqueue.Queue

	mu      sync.Mutex
	broken  func(key string, p parcel) error // nil: it works
	closed  bool                             // starts are refused
	shipped map[string][]string              // addresses by key
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, shipped: map[string][]string{}}
	s.broken = func(string, parcel) error {
		return statemachine.Terminal("no_van", errors.New("the van is broken"))
	}
	m := statemachine.New[parcel]("order", 1)
	m.Check(func(p *parcel) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return errors.New("the shop is closed")
		}
		return nil
	})
	m.State("ship", statemachine.Call(ship, (*parcel).self, nil))
	m.Succeed("done")
	c := new(statemachine.Catalog).Add(m)
	statemachine.Handle(c, ship, func(_ context.Context, key string, p parcel) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.broken != nil {
			if err := s.broken(key, p); err != nil {
				return false, err
			}
		}
		s.shipped[key] = append(s.shipped[key], p.To)
		return true, nil
	})
	cfg := pawl.Default()
	cfg.Mode = "embedded"
	cfg.DataDir, cfg.NATS.Listen, cfg.Redis.Listen, cfg.HTTP.Addr = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", ""
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p, err := pawl.Open(ctx, cfg, c, pawl.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the fleet ended with %v", err)
		}
	})
	s.url = p.NATSURL()
	nc, err := nats.Connect(s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	natstest.Await(t, "the streams", func() bool {
		s.queue, err = natsqueue.Open(t.Context(), nc, natsqueue.Options{})
		return err == nil
	})
	t.Cleanup(func() { _ = s.queue.Close() })
	return s
}

// set changes how the shop works.
func (s *shop) set(broken func(string, parcel) error, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.closed = broken, closed
}

// order starts a run.
func (s *shop) order(id, input string) {
	s.t.Helper()
	if _, err := s.queue.Sender.Start(s.t.Context(), api.Start{Machine: "order", Run: id, Input: []byte(input)}); err != nil {
		s.t.Fatal(err)
	}
}

// letters counts the letters there are.
func (s *shop) letters() (n int) {
	s.t.Helper()
	for _, err := range s.queue.Letters.All(s.t.Context()) {
		if err != nil {
			s.t.Fatal(err)
		}
		n++
	}
	return n
}

// await waits until there are so many letters.
func (s *shop) await(letters int) {
	s.t.Helper()
	natstest.Await(s.t, fmt.Sprintf("%d letters", letters), func() bool { return s.letters() == letters })
}

// run is a run as it is now; nil if there is none.
func (s *shop) run(id string) *statemachine.Stored {
	s.t.Helper()
	r, err := s.queue.Log.Look(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *shop) succeeds(id string) *statemachine.Stored {
	s.t.Helper()
	natstest.Await(s.t, id, func() bool { r := s.run(id); return r != nil && r.Status == statemachine.StatusSucceeded })
	return s.run(id)
}

func (s *shop) tool(args ...string) outcome {
	s.t.Helper()
	return replayer(s.t, append(args, "-s", s.url)...)
}

// says checks what a command line comes to.
func (s *shop) says(code int, text string, args ...string) outcome {
	s.t.Helper()
	got := s.tool(args...)
	if got.code != code || !strings.Contains(got.stdout+got.stderr, text) {
		s.t.Errorf("dlq-replayer %s = %d\n%s%s\nwant %d, %q", strings.Join(args, " "), got.code, got.stdout, got.stderr, code, text)
	}
	return got
}

// What was given up is tried anew once its handler works, and comes back with
// its count if it does not.
func TestRedriveFinishesRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const orders = 12
	for i := range orders {
		s.order(fmt.Sprint("o-", i), fmt.Sprintf(`{"to":"street %d"}`, i))
	}
	s.await(orders)
	s.set(s.broken, true)
	s.order("late-1", `{"to":"street 99"}`)
	s.await(orders + 1)

	// The plan is what would be done, and does nothing.
	s.says(0, "13 letters selected, 13 would be re-driven, 0 refused", "plan")
	got := s.says(0, `"perform parcel.ship again"`, "plan", "--kind", "effect", "--limit", "5", "-o", "json")
	var plan bulk.Report
	if err := json.Unmarshal([]byte(got.stdout), &plan); err != nil || plan.Changed != 5 || !plan.Planned {
		t.Errorf("plan = %+v, %v", plan, err)
	}

	// Nothing is changed by a command line that is wrong.
	for _, args := range [][]string{
		{"redrive", "--machine", "order", "--yes"},
		{"redrive", "--reason", "why", "--yes"},
		{"redrive", "--all", "--machine", "order", "--reason", "why", "--yes"},
		{"redrive", "--machine", "order", "--reason", "why"},
		{"redrive", "--machine", "order", "--reason", "why", "--yes", "--edit", "{to:1}"},
		{"redrive", "--machine", "order", "--reason", "why", "--yes", "--stop-on-failure-ratio", "2"},
		{"redrive", "1", "--machine", "order", "--reason", "why"},
		{"discard", "--machine", "order", "--reason", "why"},
		{"discard", "--machine", "order", "--yes"},
	} {
		s.says(2, "dlq-replayer: ", args...)
	}
	s.says(2, "the input is not JSON: invalid character 't' looking for beginning of object key string (--edit, line 1, column 2)", "redrive", "1", "--reason", "x", "--edit", "{to:1}")
	s.says(2, "12 letters are selected, and nothing was changed", "redrive", "--kind", "effect", "--reason", "why")
	s.says(1, "no letters are selected", "redrive", "--machine", "nosuch", "--reason", "why", "--yes")
	s.says(1, "letter 9999: not found", "redrive", "9999", "--reason", "why")
	if n := s.letters(); n != orders+1 {
		t.Fatalf("%d letters are left, want all", n)
	}

	// It still fails: the canary shows it, and the letter counts its redrive.
	got = s.says(7, "stopped: of the first 2, 2 failed", "redrive", "--kind", "effect", "--reason", "try", "--yes", "--canary", "2", "--wait", "20s")
	s.await(orders + 1)
	if !strings.Contains(got.stderr, "2 letters selected, 2 re-driven") {
		t.Errorf("with a canary: %+v", got)
	}
	counted := 0
	for l, err := range s.queue.Letters.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		counted += l.Redrives
	}
	if counted != 2 {
		t.Errorf("letters count %d redrives, want 2", counted)
	}
	s.says(0, "1 letter selected, 1 re-driven, 0 refused", "redrive", "--kind", "start", "--reason", "try")
	natstest.Await(t, "the start that is refused again", func() bool {
		got := s.tool("ls", "--kind", "start", "-o", "json")
		return strings.Contains(got.stdout, `"redrives":1`)
	})

	// Mended: all of them, at a rate, a few first.
	s.set(nil, false)
	s.says(0, "13 letters selected, 13 re-driven, 0 refused; of those looked at, 13 went well, 0 failed, 0 are undecided",
		"redrive", "--all", "--reason", "the van is mended", "--by", "anna", "--yes", "--canary", "3", "--stop-on-failure-ratio", "0.5", "--rate", "500")
	s.await(0)
	for i := range orders {
		r := s.succeeds(fmt.Sprint("o-", i))
		found := false
		for rec, err := range s.queue.Log.Read(t.Context(), r.Run, 0) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range rec.Events {
				found = found || e.Kind == statemachine.EventRedrive && strings.Contains(string(e.Body), `"by":"unverified:anna","reason":"the van is mended"`)
			}
		}
		if !found {
			t.Errorf("the history of %s does not say who re-drove it, and why", r.Run)
		}
	}
	s.succeeds("late-1")
	if len(s.shipped) != orders+1 {
		t.Errorf("%d parcels were shipped, want %d", len(s.shipped), orders+1)
	}
	for key, to := range s.shipped {
		if len(to) != 1 {
			t.Errorf("%s was shipped %d times", key, len(to))
		}
	}
	got = s.says(0, "the van is mended", "audit")
	if strings.Count(got.stdout, "redrive letters") != 8 { // four, with beginning and end
		t.Errorf("the audit record is\n%s", got.stdout)
	}
	s.says(0, `"letter `, "audit", "-o", "json")
}

// What a run or a fleet no longer takes is refused with the reason, and stays.
func TestRedriveRefuses(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, id := range []string{"moved", "cancelled", "again"} {
		s.order(id, `{"to":"a"}`)
	}
	s.await(3)
	nc, err := nats.Connect(s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for _, subject := range []string{"pawl.start.nosuch", "pawl.start.order"} {
		if err := nc.PublishMsg(&nats.Msg{Subject: subject, Header: nats.Header{"Pawl-Run-Id": {"x-" + subject}}, Data: []byte(`{`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.PublishMsg(&nats.Msg{Subject: "pawl.start.nosuch", Header: nats.Header{"Pawl-Run-Id": {"x"}}, Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	s.await(6)
	tell := func(kind statemachine.EventKind, run string) {
		t.Helper()
		if err := s.queue.Sender.Command(t.Context(), api.Command{Run: run, Kind: kind, ID: "c-" + run}); err != nil {
			t.Fatal(err)
		}
	}
	tell(statemachine.EventCancel, "cancelled")
	tell(statemachine.EventRedrive, "again")
	s.await(7)
	s.set(nil, false)
	tell(statemachine.EventRedrive, "moved")
	natstest.Await(t, "the cancel", func() bool { return s.run("cancelled").Status == statemachine.StatusCancelled })
	s.succeeds("moved")

	got := s.says(0, "1 would be re-driven, 6 refused", "plan")
	for _, reason := range []string{
		"refused: its run has ended (succeeded)", "refused: its run has ended (cancelled)", "refused: it was tried anew since, and given up again: there is a newer letter",
		"refused: no worker has registered its machine nosuch", "refused: its body is not JSON",
	} {
		if !strings.Contains(got.stdout, reason) {
			t.Errorf("the plan does not say %q:\n%s", reason, got.stdout)
		}
	}
	s.says(1, "1 re-driven, 6 refused", "redrive", "--all", "--reason", "why", "--yes")
	s.succeeds("again")
	s.await(6)
	s.says(0, "6 letters", "export")
	s.says(0, `"count":2`, "summary", "--by", "class,kind", "-o", "json")
	s.says(0, "6 letters selected, 6 discarded, 0 refused", "discard", "--all", "--reason", "seen to", "--yes")
	s.await(0)
	s.says(0, "no letters", "summary")
	if len(s.shipped) != 2 {
		t.Errorf("%d parcels were shipped, want 2", len(s.shipped))
	}
}

// An edited effect is another request under another key; an edited start is
// the start of the same run.
func TestRedriveEdited(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.set(func(_ string, p parcel) error {
		if p.To == "nowhere" {
			return statemachine.Terminal("bad_address", errors.New("there is no such street"))
		}
		return nil
	}, false)
	long := strings.Repeat("x", 20_000) // kept apart from the record
	s.order("short", `{"to":"nowhere","note":"n"}`)
	s.order("long", `{"to":"nowhere","note":"`+long+`"}`)
	s.await(2)
	s.set(s.broken, true)
	s.order("refused", `{"to":"nowhere"}`)
	s.await(3)
	s.set(s.broken, false)
	s.says(0, "perform parcel.ship again, edited", "plan", "--edit", `{"to":"a street"}`)
	s.says(0, "3 re-driven", "redrive", "--all", "--reason", "they wrote", "--yes", "--edit", `{"to":"a street","note":null}`)
	for _, id := range []string{"short", "long", "refused"} {
		s.succeeds(id)
	}
	s.await(0)
	keys := 0
	for key, to := range s.shipped {
		if len(to) != 1 || to[0] != "a street" {
			t.Errorf("%s was shipped to %v", key, to)
		}
		if strings.HasSuffix(key, "~1") {
			keys++
		}
	}
	if len(s.shipped) != 3 || keys != 2 {
		t.Errorf("shipped: %v", s.shipped)
	}
}

// Letters are printed as they come.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("before", `{"to":"a"}`)
	s.await(1)
	var stdout, stderr lockedBuffer
	c := exec.CommandContext(t.Context(), os.Args[0], "watch", "--machine", "order", "-o", "json", "-s", s.url)
	c.Env = append(os.Environ(), "PAWL_TEST_AS_PROCESS=1")
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "it to watch", func() bool { return strings.Contains(stderr.String(), "watching") })
	s.order("after", `{"to":"a"}`)
	natstest.Await(t, "the letter", func() bool { return strings.HasSuffix(stdout.String(), "\n") })
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := c.Wait()
	e, ok := errors.AsType[*exec.ExitError](err)
	var l map[string]any
	if !ok || e.ExitCode() != 130 || json.Unmarshal([]byte(stdout.String()), &l) != nil || l["run"] != "after" {
		t.Errorf("watch ended with %v:\n%s%s", err, stdout.String(), stderr.String())
	}
}

// lockedBuffer is what a process says, readable while it speaks.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// The tool is killed at many moments of a redrive, and given again each time:
// no letter is lost, and nothing is done twice.
func TestRedriveKilled(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	n, starts := *killLetters, *killLetters/3
	for i := range n {
		s.set(s.broken, i < starts)
		s.order(fmt.Sprint("o-", i), `{"to":"a"}`)
		if i == starts-1 || i == n-1 {
			s.await(i + 1)
		}
	}
	s.set(nil, false)
	args := []string{"redrive", "--machine", "order", "--reason", "mended", "--yes", "--rate", fmt.Sprint(max(50, n/4)), "-s", s.url}
	killed := 0
	for k := range *killTimes {
		before := s.letters()
		c := exec.CommandContext(t.Context(), os.Args[0], args...)
		c.Env = append(os.Environ(), "PAWL_TEST_AS_PROCESS=1")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// A few letters later each time, and not at the same place of a letter's steps.
		goal := max(0, before-1-k%7)
		natstest.Await(t, "it to re-drive", func() bool { return s.letters() <= goal })
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if c.Wait() != nil && s.letters() > 0 {
			killed++
		}
	}
	if killed < *killTimes {
		t.Errorf("it was killed in the middle %d times, want %d: there are too few letters", killed, *killTimes)
	}
	s.says(0, ", 0 refused", args[:len(args)-2]...)
	s.await(0)
	redrives := 0
	for i := range n {
		r := s.succeeds(fmt.Sprint("o-", i))
		for rec, err := range s.queue.Log.Read(t.Context(), r.Run, 0) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range rec.Events {
				if e.Kind == statemachine.EventRedrive {
					redrives++
				}
			}
		}
	}
	twice := 0
	for _, to := range s.shipped {
		twice += len(to) - 1
	}
	t.Logf("%d letters, %d of them starts, killed %d times: %d redrives applied, %d parcels shipped, %d twice", n, starts, killed, redrives, len(s.shipped), twice)
	if redrives != n-starts || len(s.shipped) != n || twice != 0 {
		t.Errorf("of %d letters, %d effects were re-driven and %d parcels shipped, %d twice", n, redrives, len(s.shipped), twice)
	}
}

// A handler that always fails, with the policy that there is without any
// configuration: five attempts, with growing waits between them, then one
// letter for each run; nothing waits in any queue. Mended, and re-driven, the
// runs finish, each parcel shipped once.
func TestFiveAttemptsThenARedrive(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var mu sync.Mutex
	called := map[string][]time.Time{} // by key
	s.set(func(key string, _ parcel) error {
		mu.Lock()
		defer mu.Unlock()
		called[key] = append(called[key], time.Now())
		return errors.New("the van is broken")
	}, false)
	const orders = 20
	for i := range orders {
		s.order(fmt.Sprint("o-", i), `{"to":"a"}`)
	}
	s.await(orders)
	mu.Lock()
	if len(called) != orders {
		t.Errorf("it was called under %d keys, want %d", len(called), orders)
	}
	for key, at := range called {
		if len(at) != 5 {
			t.Errorf("%s: %d attempts, want 5", key, len(at))
			continue
		}
		for i, least := 0, 500*time.Millisecond; i < 4; i, least = i+1, 2*least {
			// How late it may be is what the records say, below; the rest is the machine's business.
			if wait := at[i+1].Sub(at[i]); wait < least {
				t.Errorf("%s: attempt %d came %s after the one before, want %s at least", key, i+2, wait, least)
			}
		}
	}
	mu.Unlock()
	ids := map[string]bool{}
	for l, err := range s.queue.Letters.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids[l.ID] = true
		if l.Attempts != 5 || l.Run == "" || !strings.Contains(l.Cause, "the van is broken") {
			t.Errorf("letter %+v", l)
		}
		r := s.run(l.Run)
		if r.Status != statemachine.StatusParked {
			t.Errorf("run %s is %s, want parked", l.Run, r.Status)
		}
		wait := time.Second
		for rec, err := range s.queue.Log.Read(t.Context(), l.Run, 0) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range rec.Events {
				if e.Kind != statemachine.EventFailure || e.RetryAt == nil {
					continue
				}
				if d := e.RetryAt.Sub(e.At); d < wait/2 || d > wait*3/2 {
					t.Errorf("run %s waits %s after try %d, want %s to %s", l.Run, d, e.Try, wait/2, wait*3/2)
				}
				wait *= 2
			}
		}
	}
	if len(ids) != orders {
		t.Errorf("%d letters of different ids, want %d", len(ids), orders)
	}
	natstest.Await(t, "empty queues", func() bool {
		all, err := s.queue.Streams(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range all {
			if strings.HasSuffix(st.Name, "_START") || strings.HasSuffix(st.Name, "_EVENTS") || strings.HasSuffix(st.Name, "_EFFECTS") || strings.HasSuffix(st.Name, "_TIMERS") {
				if st.Messages > 0 {
					return false
				}
			}
		}
		return true
	})
	s.set(nil, false)
	s.says(0, "20 re-driven, 0 refused", "redrive", "--all", "--reason", "the van is mended", "--yes")
	for i := range orders {
		s.succeeds(fmt.Sprint("o-", i))
	}
	s.await(0)
	for key, to := range s.shipped {
		if len(to) != 1 {
			t.Errorf("%s was shipped %d times", key, len(to))
		}
	}
	if len(s.shipped) != orders {
		t.Errorf("%d parcels were shipped, want %d", len(s.shipped), orders)
	}
}
