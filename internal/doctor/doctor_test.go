package doctor

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/redisstore"
)

// want is a finding that there must be: its status, its check, and part of
// what it found.
type want struct {
	status Status
	check  string
	found  string
}

func examined(t *testing.T, p Patient, all ...want) []Finding {
	t.Helper()
	p.Timeout = 2 * time.Second
	got := Examine(t.Context(), p)
	for _, w := range all {
		there := false
		for _, f := range got {
			there = there || f.Status == w.status && f.Check == w.check && strings.Contains(f.Found, w.found)
		}
		if !there {
			t.Errorf("nothing found like %v in\n%s", w, text(got))
		}
	}
	for _, f := range got {
		if f.Status != OK && f.Fix == "" {
			t.Errorf("no fix for %+v", f)
		}
	}
	return got
}

func text(all []Finding) string {
	var b strings.Builder
	for _, f := range all {
		b.WriteString(string(f.Status) + "  " + f.Check + "  " + f.Found + "  → " + f.Fix + "\n")
	}
	return b.String()
}

// provisioned is a server with the streams of a fleet.
func provisioned(t *testing.T, change ...func(*server.Options)) (*natstest.Node, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	n := natstest.One(t, change...)
	nc := n.Conn()
	if _, err := natsqueue.Provision(t.Context(), nc, natsqueue.Topology{}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return n, nc, js
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	c := natstest.Three(t)
	nc := c.Conn()
	topology := natsqueue.Topology{Replicas: 3}
	if _, err := natsqueue.Provision(t.Context(), nc, topology); err != nil {
		t.Fatal(err)
	}
	var got []Finding
	natstest.Await(t, "all replicas", func() bool {
		got = Examine(t.Context(), Patient{NATS: nc, Topology: topology, Timeout: 5 * time.Second})
		return Worst(got) != Fail && !strings.Contains(text(got), "behind")
	})
	examined(t, Patient{NATS: nc, Topology: topology},
		want{OK, "nats version", "2.1"}, want{OK, "streams", "as this build wants"}, want{OK, "nats copies", "3 of each"},
		want{OK, "nats clock", ""}, want{Unknown, "nats sync", ""}, want{Warn, "workers", "no worker asks"})
	c.Nodes[2].Stop()
	natstest.Await(t, "a replica to be missed", func() bool {
		return strings.Contains(text(Examine(t.Context(), Patient{NATS: nc, Topology: topology, Timeout: 5 * time.Second})), "replicas are away or behind: node-2")
	})
}

func TestStreamsThatDiffer(t *testing.T) {
	t.Parallel()
	_, nc, js := provisioned(t)
	change := func(stream string, with func(*jetstream.StreamConfig)) {
		t.Helper()
		s, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		c := s.CachedInfo().Config
		with(&c)
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	change("PAWL_HISTORY", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
	change("PAWL_START", func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 })
	change("PAWL_DLQ", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 })
	if _, err := js.Publish(t.Context(), "pawl.dlq.start._", make([]byte, 1_000_000)); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := js.Publish(t.Context(), "pawl.start.kitchensink", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.PauseConsumer(t.Context(), "PAWL_TIMERS", "due", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), "PAWL_SIGNAL", "signal"); err != nil {
		t.Fatal(err)
	}
	examined(t, Patient{NATS: nc},
		want{Fail, "stream PAWL_HISTORY", "maximum age is 1h0m0s, want 0s"},
		want{Warn, "stream PAWL_START", "maximum messages is 10, want 1000000"},
		want{Warn, "stream PAWL_DLQ", "maximum bytes is 1048576, want none"},
		want{Fail, "stream PAWL_DLQ", "95 % of 1.0 MiB: when it is full, what is given up on stays where it is"},
		want{Warn, "stream PAWL_START", "80 % of 10 messages"},
		want{Fail, "consumer PAWL_TIMERS/due", "paused for another"},
		want{Fail, "consumer PAWL_SIGNAL/signal", "missing"},
		want{Warn, "nats copies", "1 of each stream"})
}

// Two copies are better than one, and no majority.
func TestTwoCopies(t *testing.T) {
	t.Parallel()
	_, nc, _ := provisioned(t)
	x := &exam{Patient: Patient{NATS: nc}}
	x.copies([]api.Stream{{Name: "PAWL_HISTORY", Replicas: 2, Leader: "a"}})
	if got := x.findings; len(got) != 1 || got[0].Status != Warn || got[0].Found != "2 of each stream" {
		t.Errorf("copies = %+v", got)
	}
}

func TestNothingThere(t *testing.T) {
	t.Parallel()
	examined(t, Patient{NATS: natstest.One(t).Conn()}, want{Fail, "streams", "streams and consumers are missing: stream PAWL_START"})
	examined(t, Patient{NATS: natstest.One(t, func(o *server.Options) { o.JetStream = false }).Conn()}, want{Fail, "jetstream", "no JetStream"})
}

// To JetStream's client a permission that is missing is a server that does not
// answer.
func TestPermissionsThatAreMissing(t *testing.T) {
	t.Parallel()
	n, _, _ := provisioned(t)
	n.Stop()
	m := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.INFO.PAWL_SIGNAL"}},
		}}, {Username: "v", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.INFO", "$JS.API.STREAM.>"}},
		}}, {Username: "admin", Password: "p"}}
	})
	if _, err := natsqueue.Provision(t.Context(), m.Conn(nats.UserInfo("admin", "p")), natsqueue.Topology{}); err != nil {
		t.Fatal(err)
	}
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	examined(t, Patient{NATS: m.Conn(nats.UserInfo("u", "p"), quiet)}, want{Fail, "streams", `no permission: Publish to "$JS.API.STREAM.INFO.PAWL_SIGNAL": a worker with the rights of this user cannot work`},
		want{Fail, "nats rights", "it may not publish to $JS.API.STREAM.INFO.PAWL_SIGNAL"})
	examined(t, Patient{NATS: m.Conn(nats.UserInfo("v", "p"), quiet)}, want{Unknown, "jetstream", `no permission: Publish to "$JS.API.INFO"`})
}

// A complaint of the server's is no reason for what fails after it: a server
// that does not answer is called that.
func TestOneDenialDoesNotExplainLaterSilence(t *testing.T) {
	t.Parallel()
	n := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"secret"}}}}}
	})
	proxy := natstest.NewProxy(t, n.Addr())
	nc, err := nats.Connect(proxy.URL(), nats.UserInfo("u", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if err := nc.Publish("secret", nil); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the denial", func() bool { return errors.Is(nc.LastError(), nats.ErrPermissionViolation) })
	proxy.Deafen()
	examined(t, Patient{NATS: nc}, want{Fail, "nats round trip", "no answer within 2s"}, want{Fail, "jetstream", "no answer within 2s"})
}

func TestMonitor(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*server.Options)
		want   want
	}{
		"each write": {func(o *server.Options) { o.SyncAlways = true }, want{OK, "nats sync", "server one: each write"}},
		"lazily":     {func(o *server.Options) {}, want{Warn, "nats sync", "server one: every 2m0s"}},
	} {
		n, nc, _ := provisioned(t, func(o *server.Options) { o.HTTPHost, o.HTTPPort = "127.0.0.1", -1 }, tt.change)
		t.Log(name)
		examined(t, Patient{NATS: nc, Monitor: []string{n.Server().MonitorAddr().String()}}, tt.want, want{OK, "nats disk", "server one"})
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	_, nc, _ := provisioned(t)
	examined(t, Patient{NATS: nc, Monitor: []string{gone.URL}}, want{Unknown, "nats sync", "404"})
}

func TestRedis(t *testing.T) {
	t.Parallel()
	_, nc, _ := provisioned(t)
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		p := Patient{NATS: nc, Redis: redisstore.Config{Addrs: []string{s.Addr}}}
		switch s.Kind {
		case redistest.Mini:
			examined(t, p, want{Unknown, "redis", "a stand-in"})
		case redistest.Cluster:
			examined(t, p, want{OK, "redis cluster", "1 masters"}, want{OK, "redis " + strings.TrimPrefix(s.Addr, "127.0.0.1") + " version", "cluster"}, want{OK, "incarnation", "Redis is empty"})
		default:
			got := examined(t, p, want{OK, "redis version", "redis "}, want{OK, "redis eviction", "noeviction"}, want{Warn, "redis memory", "no maxmemory"},
				want{Warn, "redis persistence", "no append-only file"}, want{OK, "redis clock", ""})
			if !slices.ContainsFunc(got, func(f Finding) bool { // how quick the machine is, is no test
				return f.Check == "redis round trip" && (f.Status == OK || f.Status == Warn) && strings.HasSuffix(f.Found, "s")
			}) {
				t.Errorf("no round trip in\n%s", text(got))
			}
		}
	})
}

func TestRedisThatWillNotDo(t *testing.T) {
	t.Parallel()
	_, nc, _ := provisioned(t)
	at := func(c redisstore.Config) Patient { return Patient{NATS: nc, Redis: c} }
	examined(t, at(redisstore.Config{Addrs: []string{"127.0.0.1:1"}}), want{Fail, "redis", "connection refused"})
	mini := redistest.Start(t, redistest.Mini)
	mini.Mini.RequireAuth("secret")
	examined(t, at(redisstore.Config{Addrs: []string{mini.Addr}}), want{Fail, "redis", "NOAUTH"})
	for _, kind := range redistest.Kinds(t) {
		if kind != redistest.Real {
			continue
		}
		s := redistest.Start(t, kind, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes", "--appendfsync", "no")
		c := s.Client(t)
		if err := c.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">p", "~*", "&*", "+@all", "-config", "-eval", "-get").Err(); err != nil {
			t.Fatal(err)
		}
		examined(t, at(redisstore.Config{Addrs: []string{s.Addr}}), want{Fail, "redis eviction", "allkeys-lru: copies of live runs"},
			want{Warn, "redis persistence", "synced when the kernel likes"})
		examined(t, at(redisstore.Config{Addrs: []string{s.Addr}, Username: "worker", Password: "p"}), want{Unknown, "redis persistence", "NOPERM"},
			want{Fail, "redis scripts", "NOPERM"}, want{Fail, "incarnation", "NOPERM"})
		if err := c.ConfigSet(t.Context(), "appendfsync", "everysec").Err(); err != nil {
			t.Fatal(err)
		}
		store, err := redisstore.Open(t.Context(), c, redisstore.Options{Incarnation: "another"})
		if err == nil {
			t.Fatalf("opened %v though keys are evicted", store)
		}
		if err := c.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := redisstore.Open(t.Context(), c, redisstore.Options{Incarnation: "another"}); err != nil {
			t.Fatal(err)
		}
		examined(t, at(redisstore.Config{Addrs: []string{s.Addr}}), want{OK, "redis persistence", "everysec"}, want{OK, "redis memory", "of 100 MiB"},
			want{Fail, "incarnation", "Redis was last used with another"})
		replica(t, at, s, c)
	}
}

// replica makes the server one that takes no writes.
func replica(t *testing.T, at func(redisstore.Config) Patient, s *redistest.Server, c redis.UniversalClient) {
	t.Helper()
	if err := c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	examined(t, at(redisstore.Config{Addrs: []string{s.Addr}}), want{Fail, "redis version", "a slave of 127.0.0.1"})
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for off, status := range map[time.Duration]Status{0: OK, 50 * time.Millisecond: OK, -3 * time.Second: Warn, time.Hour: Fail} {
		x := &exam{}
		x.clock("clock", now, now.Add(off), now.Add(time.Millisecond))
		if x.findings[0].Status != status {
			t.Errorf("%v off is %+v, want %s", off, x.findings[0], status)
		}
	}
}

func TestAtLeast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		have, want string
		is         bool
	}{
		{"2.15.3", "2.15.0", true}, {"2.12.0", "2.12.0", true}, {"2.9.0", "2.12.0", false}, {"v3.0.0-beta.1", "2.12.0", true}, {"7.0", "6.2.0", true}, {"", "1.0.0", false}, {"dev", "1.0.0", false},
	} {
		if got := atLeast(tt.have, tt.want); got != tt.is {
			t.Errorf("%q is at least %q: %v", tt.have, tt.want, got)
		}
	}
}

// What people hold up, and letters, are told; pauses until they are resumed.
func TestHeldUpAndLetters(t *testing.T) {
	t.Parallel()
	_, nc, js := provisioned(t)
	examined(t, Patient{NATS: nc}, want{OK, "held up", "no effect type and no state is paused"}, want{OK, "closed keys", "none"}, want{OK, "letters", "none"},
		want{OK, "streams' room", "START 0 % of 1.0 GiB and 0 % of 1000000 messages"}, want{OK, "streams' room", "HISTORY 0 B, no limit but the disk"}, want{OK, "streams' room", "DLQ 0 B"},
		want{OK, "nats rights", ""})
	q, err := natsqueue.Open(t.Context(), nc, natsqueue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	post := func(n flow.Notice) {
		t.Helper()
		n.Held, n.At, n.By, n.Reason = true, time.Now().Add(-time.Hour), "ann", "the\nbill"
		if err := q.Flow.Post(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	post(flow.Notice{Kind: flow.KindEffect, Effect: "email.send"})
	post(flow.Notice{Kind: flow.KindState, Machine: "report", State: "email"})
	post(flow.Notice{Kind: flow.KindKey, Effect: "http.post", Key: "a", Until: time.Now().Add(time.Minute)})
	post(flow.Notice{Kind: flow.KindKey, Effect: "http.post", Key: "b", Until: time.Now().Add(time.Hour)})
	for _, subject := range []string{"pawl.dlq.start.report", "pawl.dlq.effect.report", "pawl.dlq.effect.invoice", "pawl.letter.x"} {
		if _, err := js.Publish(t.Context(), subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	got := examined(t, Patient{NATS: nc},
		want{Warn, "effect email.send", "s ago: the bill"}, want{Warn, "effect email.send", "paused by ann since 2"}, want{Warn, "state email of machine report", "paused by ann"},
		want{OK, "closed keys", `2; the last to open is key "b" of effect http.post by ann, in `}, want{OK, "letters", "2 of kind effect, 1 of kind start: dlq-replayer summary"})
	for _, fix := range []string{"pawl effect resume email.send", "pawl state resume report email"} {
		if !strings.Contains(text(got), fix) {
			t.Errorf("no %q in\n%s", fix, text(got))
		}
	}
	for i := range 12 {
		post(flow.Notice{Kind: flow.KindEffect, Effect: fmt.Sprint("e", i)})
	}
	examined(t, Patient{NATS: nc}, want{Warn, "held up", "4 more are paused"})
}

// Redis is looked at when NATS is away, too.
func TestNATSIsAway(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Mini)
	p := Patient{Unreached: Finding{Found: "connection refused", Fix: "start it"}, Redis: redisstore.Config{Addrs: []string{r.Addr}}}
	examined(t, p, want{Fail, "nats", "connection refused"}, want{Unknown, "redis", "a stand-in"})
	p.Redis.Addrs = []string{"127.0.0.1:1"}
	examined(t, p, want{Fail, "nats", "connection refused"}, want{Fail, "redis", "connection refused"})
}
