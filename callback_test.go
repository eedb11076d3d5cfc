package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

const takes statemachine.Effect[int, string] = "takes"

type taken struct {
	Result string `json:"result"`
}

// callbacks is a fleet whose effect is accepted, and whose results come later.
type callbacks struct {
	*stuck
	http string // where they come over HTTP

	mu     sync.Mutex
	tokens []statemachine.Attempt // of the calls, in order
}

func (c *callbacks) catalog(policy statemachine.Policy) *statemachine.Catalog {
	m := statemachine.New[taken]("takes", 1)
	m.State("work", statemachine.Call(takes, func(*taken) int { return 1 }, func(t *taken, s string) { t.Result = s })).Then("after")
	m.State("after", statemachine.Call(other, func(*taken) int { return 2 }, nil)).Then("done")
	m.Succeed("done")
	all := new(statemachine.Catalog).Add(m, oneCall("keyed", "takes-keyed", "k"))
	accept := func(ctx context.Context, _ string, _ int) (string, error) {
		a, _ := statemachine.AttemptOf(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tokens = append(c.tokens, a)
		return "", statemachine.Accepted()
	}
	statemachine.Handle(all, takes, accept, policy)
	statemachine.Handle(all, other, func(context.Context, string, int) (int, error) { return 1, nil })
	statemachine.HandleRaw(all, "takes-keyed", func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return nil, statemachine.Accepted()
	})
	return all
}

// calling starts a fleet and a worker, and returns what stops the worker.
func calling(t *testing.T, policy statemachine.Policy) (c *callbacks, stop func()) {
	t.Helper()
	c = &callbacks{stuck: &stuck{fleet: realServers(t), open: make(chan struct{})}}
	return c, c.begin(policy)
}

// begin starts a worker that takes results over HTTP, too.
func (c *callbacks) begin(policy statemachine.Policy) (stop func()) {
	t := c.t
	t.Helper()
	all := c.catalog(policy)
	cfg := pawl.Default()
	cfg.Mode, cfg.NATS.URL, cfg.Redis.Addr = "real", c.env["PAWL_NATS_URL"], c.env["PAWL_REDIS_ADDR"]
	cfg.HTTP.Addr, cfg.Worker.AckWait, cfg.Worker.EffectAckWait, cfg.Worker.StopTimeout = "", 1500*time.Millisecond, 1500*time.Millisecond, time.Second
	cfg.Retry.Initial, cfg.Retry.Max, cfg.Retry.Attempts = 10*time.Millisecond, 20*time.Millisecond, 2
	cfg.HTTP.Starts.Addr, cfg.HTTP.Starts.Token = "127.0.0.1:0", "0123456789abcdef"
	if _, err := natsqueue.Provision(t.Context(), c.nc, pawl.Topology(cfg, all)); err != nil {
		t.Fatal(err)
	}
	p, err := pawl.Open(t.Context(), cfg, all, pawl.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	<-p.Up()
	c.http = "http://" + p.StartsAddr() + "/result/"
	return stop
}

// accepted starts a run and returns what its n-th call was given, once that is
// recorded as accepted.
func (c *callbacks) accepted(run string) statemachine.Attempt {
	c.t.Helper()
	c.start("takes", run, "{}")
	c.waitsFor(run)
	return c.given(run)
}

func (c *callbacks) waitsFor(run string) *statemachine.Stored {
	c.t.Helper()
	return c.reaches(run, func(r *statemachine.Stored) bool { return len(r.Pending) == 1 && r.Pending[0].Accepted() })
}

// given is what the last call of a run was given.
func (c *callbacks) given(run string) (last statemachine.Attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.tokens {
		if a.Run == run {
			last = a
		}
	}
	return last
}

// post brings a result over HTTP.
func (c *callbacks) post(path, body string) (int, string) {
	c.t.Helper()
	res, err := http.Post(c.http+path, "application/json", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(bytes.TrimSpace(b))
}

// tell brings a result over NATS.
func (c *callbacks) tell(token, body string, header nats.Header) {
	c.t.Helper()
	if _, err := c.js.PublishMsg(c.t.Context(), &nats.Msg{Subject: "pawl.result." + token, Data: []byte(body), Header: header}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *callbacks) succeeds(run, result string) {
	c.t.Helper()
	r := c.ended(run)
	if r.Status != statemachine.StatusSucceeded || !strings.Contains(string(r.Data), `"result":"`+result+`"`) {
		c.t.Errorf("%s: %s, data %s", run, describe(r), r.Data)
	}
}

// What was accepted waits without a message and without a claim, and goes on
// with the result, by whichever road that comes; a second one is a duplicate, a
// late one is refused, and so is a token that nobody was given.
func TestResultComesLater(t *testing.T) {
	t.Parallel()
	c, _ := calling(t, statemachine.Policy{})
	a := c.accepted("nats")
	r := c.last("nats")
	if p := r.Pending[0]; p.Attempt != 1 || p.RetryAt.Sub(p.At) < 23*time.Hour || p.RetryAt.Sub(p.At) > 25*time.Hour || r.Status != statemachine.StatusRunning {
		t.Errorf("accepted: %s", describe(r))
	}
	if r := c.becomes("nats", c.seen, explain.Accepted); r.Until.IsZero() || !r.Alone {
		t.Errorf("explained as %+v", r)
	}
	for _, s := range []string{"PAWL_START", "PAWL_EFFECTS"} {
		eventually(t, 10*time.Second, "nothing in "+s, func() bool {
			i, err := c.js.Stream(t.Context(), s)
			return err == nil && i.CachedInfo().State.Msgs == 0
		})
	}
	c.tell(a.Token(), `"over nats"`, nil)
	c.tell(a.Token(), `"again"`, nil)
	c.succeeds("nats", "over nats")

	a = c.accepted("http")
	if code, body := c.post(a.Token(), `"over http"`); code != http.StatusAccepted || body != `{"outcome":"accepted"}` {
		t.Errorf("a result: %d %s", code, body)
	}
	c.succeeds("http", "over http")
	if code, body := c.post(a.Token(), `"again"`); code != http.StatusOK || body != `{"outcome":"duplicate"}` {
		t.Errorf("a second result: %d %s", code, body)
	}
	forged := queue.Callback{Run: a.Run, Effect: a.Effect, Try: a.Try}.Token([]byte("0123456789abcdef0123456789abcdef"))
	for _, token := range []string{forged, "nosuch", a.Token()[1:]} {
		if code, body := c.post(token, `1`); code != http.StatusNotFound || !strings.Contains(body, "none that this fleet gave out") {
			t.Errorf("an unknown token: %d %s", code, body)
		}
	}
	for _, body := range []string{"", "{", `{"code":200}`} {
		path := a.Token()
		if strings.HasPrefix(body, `{"code`) {
			path += "/failure"
		}
		if code, got := c.post(path, body); code != http.StatusBadRequest {
			t.Errorf("body %q: %d %s", body, code, got)
		}
	}

	// Cancelled meanwhile: there is nothing to be done with it.
	a = c.accepted("cancelled")
	c.command(statemachine.EventCancel, "cancelled", "c1", statemachine.Command{})
	c.ended("cancelled")
	if code, body := c.post(a.Token(), `1`); code != http.StatusGone || !strings.Contains(body, "too late") {
		t.Errorf("a late result: %d %s", code, body)
	}
	c.tell(a.Token(), `"late"`, nil)
	c.tell(forged, `"forged"`, nil)
	letters := c.letters(2)
	slices.SortFunc(letters, func(a, b deadletter.Letter) int { return -strings.Compare(a.Class, b.Class) })
	if len(letters) != 2 || letters[0].Kind != deadletter.KindOther || letters[0].Class != "run_ended" || letters[1].Class != "malformed" || !strings.Contains(letters[1].Cause, "none that this fleet gave out") {
		t.Errorf("letters %+v", letters)
	}
	c.start("keyed", "keyed", "{}")
	r = c.reaches("keyed", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if r.Pending[0].Cause.Class != "accepted_key" {
		t.Errorf("an effect with a business key: %s", describe(r))
	}
}

// A result is a failure if its code says so, and the attempt is spent: the next
// one has another token, and what comes with the first is late.
func TestFailureComesLater(t *testing.T) {
	t.Parallel()
	c, _ := calling(t, statemachine.Policy{})
	a := c.accepted("twice")
	c.tell(a.Token(), "", nats.Header{"Nats-Service-Error-Code": {"500"}, "Nats-Service-Error": {"out of paper"}})
	c.reaches("twice", func(r *statemachine.Stored) bool {
		return len(r.Pending) == 1 && r.Pending[0].Accepted() && r.Pending[0].Attempt == 2
	})
	b := c.given("twice")
	if b.Token() == a.Token() || b.N != 2 {
		t.Errorf("attempts %+v and %+v", a, b)
	}
	if code, body := c.post(a.Token(), `"late"`); code != http.StatusOK && code != http.StatusGone {
		t.Errorf("a result after its failure: %d %s", code, body)
	}
	if code, body := c.post(b.Token()+"/failure", `{"code":502,"error":"still none"}`); code != http.StatusAccepted {
		t.Errorf("a failure: %d %s", code, body)
	}
	r := c.reaches("twice", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if p := r.Pending[0]; p.Attempt != 2 || !strings.Contains(p.Cause.Message, "502: still none") {
		t.Errorf("given up: %s", describe(r))
	}
	if l := c.letters(1); len(l) != 1 || l[0].Attempts != 2 {
		t.Errorf("letters %+v", l)
	}
	if code, _ := c.post(b.Token(), `1`); code != http.StatusOK { // it has told what came of it
		t.Errorf("after the end: %d", code)
	}
	a = c.accepted("refused")
	c.post(a.Token()+"/failure", `{"code":404,"error":"no such customer"}`)
	r = c.reaches("refused", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if p := r.Pending[0]; p.Attempt != 1 || p.Cause.Class != "callback_4xx" {
		t.Errorf("refused: %s", describe(r))
	}
	a = c.accepted("wrong")
	c.tell(a.Token(), `{"not":"a string"}`, nil)
	r = c.reaches("wrong", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if p := r.Pending[0]; p.Cause.Class != statemachine.ClassInvalidResult {
		t.Errorf("a result that does not fit: %s", describe(r))
	}
}

// A deadline that passes is a failed attempt of class timeout, and what comes
// then is late. Heartbeats prolong it.
func TestDeadlineOfWhatWasAccepted(t *testing.T) {
	t.Parallel()
	const silence = time.Second
	c, _ := calling(t, statemachine.Policy{Heartbeat: silence})
	a := c.accepted("beats")
	first := c.last("beats").Pending[0].RetryAt
	for end := time.Now().Add(5 * silence / 2); time.Now().Before(end); {
		before := *c.last("beats").Pending[0].RetryAt
		c.tell(a.Token(), "", nats.Header{"Pawl-Outcome": {"heartbeat"}})
		c.reaches("beats", func(r *statemachine.Stored) bool { return r.Pending[0].RetryAt.After(before) })
	}
	if p := c.last("beats").Pending[0]; p.Attempt != 1 || !p.Accepted() || !p.RetryAt.After(first.Add(silence)) {
		t.Errorf("after heartbeats: %s", describe(c.last("beats")))
	}
	if code, body := c.post(a.Token()+"/heartbeat", ""); code != http.StatusAccepted {
		t.Errorf("a heartbeat: %d %s", code, body)
	}
	c.tell(a.Token(), `"at last"`, nil)
	c.succeeds("beats", "at last")

	a = c.accepted("silent")
	r := c.reaches("silent", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	p := r.Pending[0]
	if p.Attempt != 2 || p.Cause.Class != statemachine.ClassTimeout || !strings.Contains(p.Cause.Message, "nothing came of it") {
		t.Errorf("given up: %s", describe(r))
	}
	for _, h := range c.history("silent") {
		for _, e := range h.Events {
			if e.Kind == statemachine.EventLapse && e.At.Before(c.deadlineOf("silent", h.Rev)) {
				t.Errorf("revision %d lapsed early", h.Rev)
			}
		}
	}
	if code, body := c.post(a.Token(), `1`); code != http.StatusGone {
		t.Errorf("after the deadline: %d %s", code, body)
	}
	c.tell(a.Token(), `"late"`, nil)
	l := c.letters(2)
	if len(l) != 2 || l[1].Class != "late_result" || l[1].Run != "silent" {
		t.Errorf("letters %+v", l)
	}
}

// deadlineOf is until when the record before waited.
func (c *callbacks) deadlineOf(run string, rev uint64) time.Time {
	for _, h := range c.history(run) {
		if h.Rev == rev-1 {
			return *h.Pending[0].RetryAt
		}
	}
	return time.Time{}
}

// A result that comes while no worker is alive waits for one, whatever Redis
// forgets meanwhile.
func TestResultWhileNobodyIsThere(t *testing.T) {
	t.Parallel()
	c, stop := calling(t, statemachine.Policy{})
	a := c.accepted("alone")
	b := c.accepted("wiped")
	stop()
	c.tell(a.Token(), `"for nobody"`, nil)
	client := redis.NewClient(&redis.Options{Addr: c.redis})
	t.Cleanup(func() { _ = client.Close() })
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	c.begin(statemachine.Policy{})
	c.succeeds("alone", "for nobody")
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	c.tell(b.Token(), `"all is forgotten"`, nil)
	c.succeeds("wiped", "all is forgotten")
}
