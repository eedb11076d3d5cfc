package pawl_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/natstest"
)

// get reads a page of a worker's HTTP server; status 0 if it does not answer.
func get(url string) (status int, body string) {
	c := http.Client{Timeout: 2 * time.Second}
	r, err := c.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(b)
}

// A worker that cannot reach NATS or Redis says which, keeps trying, is alive
// and not ready meanwhile, and gets ready by itself.
func TestWorkerWaitsForItsServersAndSaysWhich(t *testing.T) {
	t.Parallel()
	natsAddr, redisAddr, httpAddr := freeAddr(t), freeAddr(t), freeAddr(t)
	startProcess(t, map[string]string{"PAWL_NATS_URL": "nats://" + natsAddr, "PAWL_REDIS_ADDR": redisAddr, "PAWL_HTTP_ADDR": httpAddr})

	readyz := "http://" + httpAddr + "/readyz"
	says := func(status int, parts ...string) {
		t.Helper()
		var body string
		if !waits(30*time.Second, func() bool {
			var s int
			s, body = get(readyz)
			if s != status {
				return false
			}
			for _, p := range parts {
				if !strings.Contains(body, p) {
					return false
				}
			}
			return true
		}) {
			t.Fatalf("/readyz did not get to %d with %q; it says:\n%s", status, parts, body)
		}
	}
	says(503, "nats", natsAddr)
	if s, body := get("http://" + httpAddr + "/livez"); s != 200 {
		t.Errorf("/livez says %d %s while the servers are away, want 200", s, body)
	}

	s, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NATSListen: natsAddr, RedisListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	says(503, "nats", "provision") // reachable, but nothing is there yet
	f := join(t, s.NATSURL(), true)
	says(503, "redis", redisAddr)

	m := miniredis.NewMiniRedis()
	if err := m.StartAddr(redisAddr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	says(200)
	f.start("kitchensink", "after-the-outage", oneNoop)
	f.ended("after-the-outage")
}

// Redis goes away under load and comes back empty: nothing is dead-lettered,
// no attempt is spent, the worker is not ready meanwhile, and all runs end.
func TestRedisAwayUnderLoad(t *testing.T) {
	t.Parallel()
	url := natstest.One(t).URL()
	f := join(t, url, true)
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	httpAddr, redisAddr := freeAddr(t), m.Addr()
	k := newKillCheck(t)
	startProcess(t, env(slowly, map[string]string{"PAWL_NATS_URL": url, "PAWL_REDIS_ADDR": redisAddr, "PAWL_HTTP_ADDR": httpAddr}))
	for i := range killRuns {
		f.start("kitchensink", fmt.Sprintf("kill-%d", i), killScript(k.sink.URL, i))
	}
	k.progress(100)
	m.Close()
	eventually(t, 30*time.Second, "the worker to be not ready", func() bool {
		s, body := get("http://" + httpAddr + "/readyz")
		return s == 503 && strings.Contains(body, "redis")
	})
	m = miniredis.NewMiniRedis()
	if err := m.StartAddr(redisAddr); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the worker to be ready again", func() bool { s, _ := get("http://" + httpAddr + "/readyz"); return s == 200 })
	k.finish(f)
	if n := len(f.letters(0)); n != 0 {
		t.Errorf("%d letters after an outage, want none", n)
	}
}
