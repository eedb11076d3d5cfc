package natsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/statemachine"
)

// oneRun is a log with one run.
type oneRun struct {
	r   *statemachine.Stored
	err error
}

func (l *oneRun) Look(context.Context, string) (*statemachine.Stored, error) { return l.r, l.err }

func (l *oneRun) Read(context.Context, string, uint64) iter.Seq2[*statemachine.Stored, error] {
	return func(func(*statemachine.Stored, error) bool) {}
}

func (l *oneRun) Sweep(context.Context, int) iter.Seq2[*statemachine.Stored, error] {
	return func(func(*statemachine.Stored, error) bool) {}
}

// running starts a service, and returns what stops it.
func running(t *testing.T, nc *nats.Conn, log api.Log, cfg Config) (stop func()) {
	t.Helper()
	if cfg.Prefix == "" {
		cfg.Prefix = "pawl"
	}
	s := New(nc, api.NewServer(&api.Answers{Log: log}, api.ServerOptions{}), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	natstest.Await(t, "the service", func() bool {
		all := api.Verbs() // the last of them is offered last
		_, err := nc.Request(api.Subject(cfg.Prefix, "x", all[len(all)-1]), nil, time.Second)
		return err == nil
	})
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func ask(t *testing.T, nc *nats.Conn, subject, body string) *nats.Msg {
	t.Helper()
	m, err := nc.Request(subject, []byte(body), 10*time.Second)
	if err != nil {
		t.Fatalf("ask %s: %v", subject, err)
	}
	return m
}

func run(pad int) *oneRun {
	data, _ := json.Marshal(strings.Repeat("x", pad))
	return &oneRun{r: &statemachine.Stored{Record: &statemachine.Record{Run: "r", Data: data, Rev: 1}}}
}

// Errors are as micro services give them, and their texts fit into a header.
func TestErrorsAreHeaders(t *testing.T) {
	t.Parallel()
	nc := natstest.One(t).Conn()
	log := &oneRun{err: errors.New("first line\r\nNats-Injected: yes\n" + strings.Repeat("long ", 1000))}
	defer running(t, nc, log, Config{})()
	m := ask(t, nc, "pawl.api.view.runs.get", `{"id":"r"}`)
	says := m.Header.Get(micro.ErrorHeader)
	if m.Header.Get(micro.ErrorCodeHeader) != "503" || !strings.HasPrefix(says, "first line  Nats-Injected: yes long") || len(says) > mostLine+10 || len(m.Header) != 2 {
		t.Errorf("headers are %v", m.Header)
	}
	var e api.Error
	if err := json.Unmarshal(m.Data, &e); err != nil || e.Class != api.ClassUnavailable || !strings.HasPrefix(e.Message, "first line\r\n") {
		t.Errorf("body is %.100q, %v", m.Data, err)
	}
}

// A server that takes less than an answer has is no reason for silence.
func TestAnswerBeyondTheServersLimit(t *testing.T) {
	t.Parallel()
	nc := natstest.One(t, func(o *server.Options) { o.MaxPayload = 32 << 10 }).Conn()
	defer running(t, nc, run(60<<10), Config{})()
	m := ask(t, nc, "pawl.api.view.runs.get", `{"id":"r"}`)
	if m.Header.Get(api.HeaderCode) != "413" || !strings.Contains(m.Header.Get(api.HeaderError), "the server takes 32768") {
		t.Errorf("headers are %v", m.Header)
	}
}

// Whoever asks under a role that the verb does not have finds nobody; a user's
// name may hold what a token may.
func TestSubjects(t *testing.T) {
	t.Parallel()
	nc := natstest.One(t).Conn()
	defer running(t, nc, run(1), Config{Prefix: "other-fleet"})()
	for subject, want := range map[string]bool{
		api.Subject("other-fleet", "", api.RunsGet):               true,
		api.Subject("other-fleet", "anna@example-1", api.RunsGet): true,
		"other-fleet.api.as.anna.view.runs.get":                   true,
		"other-fleet.api.produce.runs.get":                        false,
		"other-fleet.api.as.view.runs.get":                        false,
		"other-fleet.api.view.runs.eat":                           false,
		"pawl.api.view.runs.get":                                  false,
	} {
		m, err := nc.Request(subject, []byte(`{"id":"r"}`), 10*time.Second)
		if found := err == nil && m.Header.Get(api.HeaderCode) == ""; found != want || !want && !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: %v, %v, want %v", subject, m, err, want)
		}
	}
	for user, ok := range map[string]bool{"anna": true, "": false, "a.b": false, "*": false, ">": false, "a b": false, strings.Repeat("x", 65): false} {
		if err := api.CheckUser(user); (err == nil) != ok {
			t.Errorf("user %q: %v, want %v", user, err, ok)
		}
	}
}

// Two instances share the requests, and each tells what its worker does.
func TestInstancesShare(t *testing.T) {
	t.Parallel()
	n := natstest.One(t)
	ask1 := n.Conn()
	for i := range 2 {
		defer running(t, n.Conn(), run(1), Config{Worker: fmt.Sprint("w", i), Build: "v1.2.3", Stats: func() api.WorkerStats { return api.WorkerStats{Ready: true, Held: i} }})()
	}
	for range 100 {
		ask(t, ask1, "pawl.api.view.runs.get", `{"id":"r"}`)
	}
	inbox := ask1.NewInbox()
	sub, err := ask1.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := ask1.PublishRequest("$SRV.STATS.pawl", inbox, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var s micro.Stats
		if err := json.Unmarshal(m.Data, &s); err != nil {
			t.Fatal(err)
		}
		requests := 0
		for _, e := range s.Endpoints {
			requests += e.NumRequests
			if e.QueueGroup != api.ServiceGroup {
				t.Errorf("endpoint %s is in group %s", e.Name, e.QueueGroup)
			}
			var w api.WorkerStats
			if err := json.Unmarshal(e.Data, &w); err != nil || !w.Ready || fmt.Sprint("w", w.Held) != s.Metadata[api.MetaWorker] {
				t.Errorf("endpoint %s of %s has %s, %v", e.Name, s.Metadata[api.MetaWorker], e.Data, err)
			}
		}
		if requests < 10 || s.Version != "1.2.3" || len(s.Endpoints) != 2*len(api.Verbs()) {
			t.Errorf("%s, version %s, answered %d of 100 at %d endpoints", s.Metadata[api.MetaWorker], s.Version, requests, len(s.Endpoints))
		}
	}
}

// A stop leaves nothing running, also when the connection is gone, and when
// somebody waits.
func TestStopLeavesNothing(t *testing.T) {
	n := natstest.One(t)
	asks := n.Conn()
	_, _ = asks.Request("nobody", nil, time.Second) // from now on it has what it needs to ask
	before := goleak.IgnoreCurrent()
	for _, cut := range []bool{false, true} {
		nc, err := nats.Connect(n.URL())
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, nc, run(1), Config{})
		inbox := asks.NewInbox()
		sub, err := asks.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		if err := asks.PublishRequest("pawl.api.view.runs.wait", inbox, []byte(`{"id":"r"}`)); err != nil {
			t.Fatal(err)
		}
		ask(t, asks, "pawl.api.view.runs.get", `{"id":"r"}`) // the wait came in before
		if cut {
			nc.Close()
		}
		stop()
		if !cut {
			if m, err := sub.NextMsg(5 * time.Second); err != nil || !strings.Contains(string(m.Data), `"ended":false`) {
				t.Errorf("a wait at the stop = %v, %v", m, err)
			}
		}
		nc.Close()
		_ = sub.Unsubscribe()
	}
	goleak.VerifyNone(t, before)
}

func TestSemver(t *testing.T) {
	t.Parallel()
	for build, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3-rc.1+x": "1.2.3-rc.1+x", "v0.0.0-20261129000000-abcdef012345+dirty": "0.0.0-20261129000000-abcdef012345+dirty",
		"(devel)": "0.0.0+devel", "0123456789ab": "0.0.0+0123456789ab", "": "0.0.0", "!": "0.0.0", "01.2.3": "0.0.0+01-2-3", "a b/c": "0.0.0+a-b-c",
	} {
		if got := semver(build); got != want {
			t.Errorf("semver(%q) = %s, want %s", build, got, want)
		}
	}
}
