package ops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server until the test ends and returns its URL.
func serve(t *testing.T, c ops.Options) string {
	t.Helper()
	c.Addr = "127.0.0.1:0"
	s, err := ops.Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + s.Addr()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestReadyIsToldByChecks(t *testing.T) {
	t.Parallel()
	ready := ops.NewReady()
	url := serve(t, ops.Options{Ready: ready})
	want := func(code int, text string, s ops.Status) {
		t.Helper()
		if c, body := get(t, url+"/readyz?text"); c != code || body != text {
			t.Errorf("/readyz?text = %d %q, want %d %q", c, body, code, text)
		}
		c, body := get(t, url+"/readyz")
		var got ops.Status
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, got); diff != "" || c != code {
			t.Errorf("/readyz = %d, want %d; (-want +got):\n%s", c, code, diff)
		}
		if ready.OK() != (code == 200) {
			t.Errorf("OK() = %v", ready.OK())
		}
	}
	want(503, "not ready: starting\n", ops.Status{Checks: []ops.Check{}})
	ready.Set("redis", nil)
	ready.Set("nats", errors.Join(errors.New("no stream PAWL_HISTORY"), errors.New("run `pawl provision`")))
	want(503, "not ready: nats: no stream PAWL_HISTORY; run `pawl provision`\n", ops.Status{Checks: []ops.Check{
		{Name: "nats", Reason: "no stream PAWL_HISTORY; run `pawl provision`"}, {Name: "redis", OK: true},
	}})
	if _, body := get(t, url+"/readyz"); body != `{"ready": false, "checks": [
{"name":"nats","ok":false,"reason":"no stream PAWL_HISTORY; run `+"`pawl provision`"+`"},
{"name":"redis","ok":true}
]}
` {
		t.Errorf("/readyz has not one line for each check:\n%s", body)
	}
	ready.Set("nats", nil)
	want(200, "ready\n", ops.Status{Ready: true, Checks: []ops.Check{{Name: "nats", OK: true}, {Name: "redis", OK: true}}})
	ready.Set("stop", errors.New("stopping"))
	ready.Set("redis", errors.New("connection refused"))
	want(503, "not ready: redis: connection refused\nnot ready: stop: stopping\n", ops.Status{Checks: []ops.Check{
		{Name: "nats", OK: true}, {Name: "redis", Reason: "connection refused"}, {Name: "stop", Reason: "stopping"},
	}})
}

func TestPathsThatAreServed(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	n := prometheus.NewCounter(prometheus.CounterOpts{Name: "pawl_things_total", Help: "Things."})
	reg.MustRegister(n)
	n.Add(3)
	ready := ops.NewReady()
	reg.MustRegister(ready.Metric())
	ready.Set("nats", nil)
	for _, test := range []struct {
		options ops.Options
		path    string
		code    int
		has     string
	}{
		{ops.Options{}, "/livez", 200, "alive"},
		{ops.Options{}, "/metrics", 404, ""},
		{ops.Options{Gatherer: reg}, "/metrics", 200, "pawl_things_total 3\n"},
		{ops.Options{Gatherer: reg}, "/metrics", 200, "pawl_ready 1\n"},
		{ops.Options{}, "/debug/pprof/", 404, ""},
		{ops.Options{Pprof: true}, "/debug/pprof/", 200, "goroutine"},
		{ops.Options{Pprof: true}, "/debug/pprof/heap?debug=1", 200, "heap profile"},
		{ops.Options{}, "/", 404, ""},
	} {
		test.options.Ready = ops.NewReady()
		code, body := get(t, serve(t, test.options)+test.path)
		if code != test.code || !strings.Contains(body, test.has) {
			t.Errorf("%s = %d %.200q, want %d with %q", test.path, code, body, test.code, test.has)
		}
	}
}

func TestTakenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	want := "http.addr: " + addr + " is in use by another program: stop that, or set PAWL_HTTP_ADDR (127.0.0.1:0 takes a free port)"
	if _, err := ops.Listen(ops.Options{Addr: addr, Ready: ops.NewReady()}); err == nil || err.Error() != want {
		t.Errorf("Listen = %v, want %s", err, want)
	}
	var log bytes.Buffer
	s, err := ops.Listen(ops.Options{Addr: addr, AnyPort: true, Ready: ops.NewReady(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "addr="+s.Addr()) || s.Addr() == addr {
		t.Errorf("took %s, log %s", s.Addr(), &log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
}

func TestCloseWithoutRunGivesTheAddressBack(t *testing.T) {
	t.Parallel()
	s, err := ops.Listen(ops.Options{Addr: "127.0.0.1:0", Ready: ops.NewReady()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	l, err := net.Listen("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
