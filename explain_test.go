package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/internal/natsapi"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/redisstore"
	"github.com/pawlrun/pawl/statemachine"
)

// stuck is a fleet whose runs get stuck, each in its own way.
type stuck struct {
	*fleet
	open chan struct{} // closed: what hangs goes on
}

type nothing struct{}

// machine is one that calls one effect.
func oneCall(name string, effect statemachine.Effect[int, int], key string) *statemachine.Machine[nothing] {
	m := statemachine.New[nothing](name, 1)
	call := statemachine.Call(effect, func(*nothing) int { return 1 }, nil)
	if key != "" {
		call = call.Key(func(*nothing) string { return key })
	}
	m.State("work", call).Then("done")
	m.Succeed("done")
	return m
}

const (
	hangs  statemachine.Effect[int, int] = "hangs"  // inline
	queues statemachine.Effect[int, int] = "queues" // one at a time, and hangs
	fails  statemachine.Effect[int, int] = "fails"  // again and again, with long waits
	breaks statemachine.Effect[int, int] = "breaks" // for good
	putoff statemachine.Effect[int, int] = "putoff"
	other  statemachine.Effect[int, int] = "other"
)

// catalog has a machine for each way to get stuck.
func (s *stuck) catalog() *statemachine.Catalog {
	c := new(statemachine.Catalog).Add(
		oneCall("hangs", hangs, ""), oneCall("queues", queues, ""), oneCall("fails", fails, ""),
		oneCall("breaks", breaks, ""), oneCall("putoff", putoff, ""), oneCall("keyed", hangs, "renewal:4412"))
	hang := func(ctx context.Context, _ string, n int) (int, error) {
		select {
		case <-s.open:
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	statemachine.Handle(c, hangs, hang)
	statemachine.Handle(c, queues, hang, statemachine.Policy{Queued: true})
	returns := func(err error) func(context.Context, string, int) (int, error) {
		return func(context.Context, string, int) (int, error) { return 0, err }
	}
	statemachine.Handle(c, fails, returns(statemachine.RetryAfter(time.Hour, errors.New("503 from the provider"))))
	statemachine.Handle(c, breaks, returns(statemachine.Terminal("broken", errors.New("as the test wants it"))))
	statemachine.Handle(c, putoff, returns(statemachine.Later(time.Hour, errors.New("429 from the provider"))))
	return c
}

// work starts a worker and returns what stops it.
func (s *stuck) work(c *statemachine.Catalog, change ...func(*pawl.Config)) (stop func()) {
	s.t.Helper()
	cfg := pawl.Default()
	cfg.Mode, cfg.NATS.URL, cfg.Redis.Addr = "real", s.env["PAWL_NATS_URL"], s.env["PAWL_REDIS_ADDR"]
	cfg.HTTP.Addr, cfg.Worker.AckWait, cfg.Worker.EffectAckWait, cfg.Worker.StopTimeout = "", 1500*time.Millisecond, 1500*time.Millisecond, time.Millisecond
	cfg.Effects.Queued = map[string]int{"queues": 1}
	for _, f := range change {
		f(&cfg)
	}
	if _, err := natsqueue.Provision(s.t.Context(), s.nc, pawl.Topology(cfg, c)); err != nil {
		s.t.Fatal(err)
	}
	p, err := pawl.Open(s.t.Context(), cfg, c, pawl.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("run: %v", err)
		}
	}
	s.t.Cleanup(stop)
	<-p.Up()
	eventually(s.t, 10*time.Second, "the control API", func() bool {
		_, err := s.nc.Request(api.Subject("pawl", "", api.MachinesList), nil, time.Second)
		return err == nil
	})
	return stop
}

// asked is what a worker says of a run; nil if it says that there is none.
func (s *stuck) asked(run string) *api.Explanation {
	s.t.Helper()
	m, err := s.nc.Request(api.Subject("pawl", "", api.RunsExplain), []byte(`{"id":"`+run+`"}`), 10*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	x := new(api.Explanation)
	if err := json.Unmarshal(m.Data, x); err != nil {
		s.t.Fatal(err)
	}
	if code := m.Header.Get(api.HeaderCode); code != "" {
		if code != "404" {
			s.t.Errorf("explain %s: %s", run, m.Data)
		}
		return nil
	}
	return x
}

// seen is what is said of a run where no worker answers.
func (s *stuck) seen(run string) *api.Explanation {
	s.t.Helper()
	a := &api.Answers{Log: s.queue.Log, Blobs: s.queue.Blobs, Letters: s.queue.Letters, Observers: []api.Observer{
		{What: "messages", See: s.queue.Observe},
		{What: "redis", See: func(context.Context, *explain.Facts) error { return errors.New("nobody asks it") }},
		{What: "workers", See: func(ctx context.Context, f *explain.Facts) (err error) {
			f.Workers, err = natsapi.Workers(ctx, s.nc, "pawl")
			return err
		}},
	}}
	x, err := a.Explain(s.t.Context(), run)
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

// becomes waits until the first reason for a run is the one that is wanted.
func (s *stuck) becomes(run string, look func(string) *api.Explanation, want explain.Code) *explain.Reason {
	s.t.Helper()
	var x *api.Explanation
	if !waits(20*time.Second, func() bool { x = look(run); return x != nil && x.Cause == want }) {
		b, _ := json.MarshalIndent(x, "", " ")
		s.t.Fatalf("run %s is not explained as %s, but\n%s", run, want, b)
	}
	return &x.Because[0]
}

// A worker says of each run why it is stuck, and what would help.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := &stuck{fleet: realServers(t), open: make(chan struct{})}
	stop := s.work(s.catalog())
	for _, m := range []string{"hangs", "queues", "fails", "breaks", "putoff", "keyed"} {
		s.start(m, m, "{}")
	}
	if r := s.becomes("hangs", s.asked, explain.Performing); r.Holder == "" || r.Lease.Before(time.Now()) || !r.Alone {
		t.Errorf("performed: %+v", r)
	} else if by := s.last("hangs"); r.Holder != by.By {
		t.Errorf("performed by %s, committed by %s", r.Holder, by.By)
	}
	s.becomes("queues", s.asked, explain.Performing)
	s.start("queues", "behind", "{}")
	if r := s.becomes("behind", s.asked, explain.InQueue); r.Message == nil || r.Message.Seq == 0 || r.Message.Stream != "PAWL_EFFECTS" {
		t.Errorf("in its queue: %+v", r)
	}
	hour := time.Now().Add(time.Hour)
	if r := s.becomes("fails", s.asked, explain.Retry); r.Until.After(hour) || r.Until.Before(hour.Add(-time.Minute)) || r.Attempt != 2 || r.Message.Place != explain.Scheduled || !r.Message.Due.Equal(r.Until) {
		t.Errorf("to be tried again: %+v %+v", r, r.Message)
	}
	if r := s.becomes("putoff", s.asked, explain.Throttled); r.Until.IsZero() || !strings.Contains(r.Text, "429") {
		t.Errorf("put off: %+v", r)
	}
	if r := s.becomes("breaks", s.asked, explain.GivenUp); r.Letter == 0 || !strings.HasPrefix(r.Help, "pawl run retry breaks; pawl run resume breaks --to ") || r.Error == nil || r.Error.Class != "broken" || r.Alone {
		t.Errorf("given up: %+v", r)
	}
	s.becomes("keyed", s.asked, explain.Performing)
	s.start("keyed", "second", "{}")
	if r := s.becomes("second", s.asked, explain.KeyHeld); r.Holder != "keyed" || r.Key != "renewal:4412" || r.Help != "pawl run explain keyed" {
		t.Errorf("its key is held: %+v", r)
	}
	if err := s.queue.Flow.Post(t.Context(), flow.Notice{Kind: flow.KindEffect, Effect: "queues", Held: true, By: "ann", Reason: "the bill", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if r := s.becomes("behind", s.asked, explain.EffectPaused); r.Alone || !strings.Contains(r.Text, "paused by ann: the bill") {
		t.Errorf("its type is paused: %+v", r)
	}
	if x := s.asked("nosuch"); x != nil {
		t.Errorf("a run that is none: %+v", x)
	}
	s.start("breaks", "bad", `{"what":1}`)
	if r := s.becomes("bad", s.asked, explain.StartRefused); r.Letter == 0 || !strings.Contains(r.Text, "invalid_input") {
		t.Errorf("a start that was refused: %+v", r)
	}
	s.command(statemachine.EventPause, "fails", "p1", statemachine.Command{By: "ann", Reason: "the provider is down"})
	if r := s.becomes("fails", s.asked, explain.Paused); !strings.Contains(r.Text, "by ann: the provider is down") || r.Help != "pawl run resume fails" {
		t.Errorf("paused: %+v", r)
	}
	close(s.open)
	s.ended("hangs")
	if r := s.becomes("hangs", s.asked, explain.Ended); !strings.Contains(r.Text, "succeeded") {
		t.Errorf("ended: %+v", r)
	}

	// Another build takes over, that has neither the machine nor the handler.
	stop()
	c := new(statemachine.Catalog).Add(oneCall("other", other, ""))
	statemachine.Handle(c, other, func(context.Context, string, int) (int, error) { return 1, nil })
	s.work(c)
	s.command(statemachine.EventResume, "fails", "r1", statemachine.Command{})
	s.command(statemachine.EventRedrive, "breaks", "r2", statemachine.Command{})
	if r := s.becomes("fails", s.asked, explain.Paused); r.Alone {
		t.Errorf("a run whose machine nobody has goes on by itself: %+v", r)
	}
	x := s.asked("putoff")
	if x.Cause != explain.NoMachine || x.Because[0].Alone || !strings.Contains(x.Because[0].Text, "putoff version 1") {
		t.Errorf("a run whose machine nobody has: %+v", x)
	}
}

// Without a worker, and without Redis, the answer is right all the same, and
// says what was not seen.
func TestExplainAlone(t *testing.T) {
	t.Parallel()
	s := &stuck{fleet: realServers(t), open: make(chan struct{})}
	stop := s.work(s.catalog())
	for _, m := range []string{"queues", "fails", "breaks"} {
		s.start(m, m, "{}")
		s.becomes(m, s.asked, map[string]explain.Code{"queues": explain.Performing, "fails": explain.Retry, "breaks": explain.GivenUp}[m])
	}
	stop()
	x := s.seen("queues")
	if x.Cause != explain.NoWorkers || x.Because[0].Alone || len(x.Because) != 2 || len(x.Unseen) != 1 || x.Unseen[0].What != "redis" {
		t.Errorf("a queued effect: %+v", x)
	}
	if x := s.seen("breaks"); x.Cause != explain.GivenUp || x.Because[0].Letter == 0 {
		t.Errorf("given up: %+v", x)
	}
	x = s.seen("fails")
	if x.Cause != explain.NoWorkers || x.Because[1].Code != explain.Retry || x.Because[1].Until.IsZero() {
		t.Errorf("to be tried again: %+v", x)
	}
	s.start("hangs", "new", "{}")
	if x := s.seen("new"); x.Cause != explain.NoWorkers || x.Because[1].Code != explain.StartWaits || x.Machine != "" {
		t.Errorf("a start nobody has taken: %+v", x)
	}
	s.command(statemachine.EventRedrive, "breaks", "r1", statemachine.Command{})
	if x := s.seen("breaks"); x.Cause != explain.NoWorkers || x.Because[1].Code != explain.EventWaits || !strings.Contains(x.Because[1].Text, "command redrive") {
		t.Errorf("a command nobody has applied: %+v", x)
	}

	// What wakes them is lost.
	for _, subject := range []string{"pawl.effect.queues.>", "pawl.timer.>"} {
		name := map[bool]string{true: "PAWL_EFFECTS", false: "PAWL_TIMERS"}[strings.Contains(subject, ".effect.")]
		stream, err := s.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
			t.Fatal(err)
		}
	}
	if x := s.seen("queues"); x.Because[1].Code != explain.Lost || x.Because[1].Message.Place != explain.Missing {
		t.Errorf("a message that is lost: %+v", x)
	}
	if x := s.seen("fails"); !strings.Contains(x.Because[1].Text, "its schedule is nowhere") {
		t.Errorf("a schedule that is lost: %+v", x)
	}
	// And there is no room for another record.
	h, err := s.js.Stream(t.Context(), "PAWL_HISTORY")
	if err != nil {
		t.Fatal(err)
	}
	cfg := h.CachedInfo().Config
	cfg.MaxBytes = int64(h.CachedInfo().State.Bytes) + 100
	if _, err := s.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if x := s.seen("queues"); !slices.ContainsFunc(x.Because, func(r explain.Reason) bool {
		return r.Code == explain.StreamFull && strings.Contains(r.Text, "PAWL_HISTORY")
	}) {
		t.Errorf("HISTORY is full: %+v", x)
	}
}

// A claim that is read tells who performs an effect, and changes nothing.
func TestHoldersAreReadOnly(t *testing.T) {
	t.Parallel()
	s := &stuck{fleet: realServers(t), open: make(chan struct{})}
	s.work(s.catalog())
	s.start("hangs", "hangs", "{}")
	s.becomes("hangs", s.asked, explain.Performing)
	client := redis.NewClient(&redis.Options{Addr: s.redis})
	t.Cleanup(func() { _ = client.Close() })
	incarnation, err := s.queue.Incarnation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := s.last("hangs")
	got, err := redisstore.Holders(t.Context(), client, "pawl", incarnation, "hangs", []string{r.Pending[0].ID, "nosuch"})
	if c := got[r.Pending[0].ID]; err != nil || len(got) != 1 || c.Owner != r.By || c.Left <= 0 {
		t.Errorf("holders = %+v, %v", got, err)
	}
	if got, err := redisstore.Holders(t.Context(), client, "pawl", "elsewhere", "hangs", []string{r.Pending[0].ID}); err != nil || len(got) != 0 {
		t.Errorf("holders under another incarnation = %+v, %v", got, err)
	}
	close(s.open)
}
