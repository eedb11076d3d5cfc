package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/webhook"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	token = "0123456789abcdef-old"
	next  = "0123456789abcdef-new"
)

// served is a server under test.
type served struct {
	t    *testing.T
	url  string
	stop func()

	mu     sync.Mutex
	counts map[string]int
}

func serve(t *testing.T, o webhook.Options) *served {
	t.Helper()
	s := &served{t: t, counts: map[string]int{}}
	o.Addr, o.Tokens = "127.0.0.1:0", []string{token, next}
	o.Served = func(path string, code int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts[fmt.Sprint(path, " ", code)]++
	}
	server, err := webhook.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	}()
	s.url = "http://" + server.Addr()
	s.stop = func() { cancel(); <-done }
	t.Cleanup(func() {
		s.stop()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// send sends a request with a good token and returns code, headers and body.
func (s *served) send(method, path, body string, header ...string) (int, http.Header, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, strings.TrimSpace(string(b))
}

// onStreams is a server on a fleet's streams.
func onStreams(t *testing.T, topology natsqueue.Topology) (*served, jetstream.JetStream) {
	t.Helper()
	nc := natstest.One(t).Conn()
	if _, err := natsqueue.Provision(t.Context(), nc, topology); err != nil {
		t.Fatal(err)
	}
	q, err := natsqueue.Open(t.Context(), nc, natsqueue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	if _, err := q.Machines.Register(t.Context(), "order", 2, "hash"); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, webhook.Options{Sender: q.Sender, Machines: q.Machines, Runs: &api.Answers{Log: q.Log}}), js
}

// last is the last message of a stream.
func last(t *testing.T, js jetstream.JetStream, stream string) *jetstream.RawStreamMsg {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), s.CachedInfo().State.LastSeq)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWhatIsStored(t *testing.T) {
	t.Parallel()
	s, js := onStreams(t, natsqueue.Topology{})
	for _, tt := range []struct {
		path, body     string
		header         []string
		subject, run   string
		signal, answer string
	}{
		{"/start/order", `{"a":1}`, []string{"Pawl-Run-Id", "o-1"}, "pawl.start.order", "o-1", "", `{"run":"o-1","outcome":"accepted"}`},
		{"/start/order", `{"a":1}`, []string{"Idempotency-Key", "ö/1"}, "pawl.start.order", "ö/1", "", `{"run":"ö/1","outcome":"accepted"}`},
		{"/start/order", `[]`, []string{"Idempotency-Key", `"quoted"`, "Pawl-Machine-Version", "2"}, "pawl.start.order", "quoted", "", `{"run":"quoted","outcome":"accepted"}`},
		{"/start/order", `2`, []string{"Pawl-Run-Id", "o-2", "Pawl-Priority", "low", "Pawl-Tenant", "acme"}, "pawl.start.order", "o-2", "", `{"run":"o-2","outcome":"accepted"}`},
		{"/start/order", `1`, []string{"Idempotency-Key", "same", "Pawl-Run-Id", "same"}, "pawl.start.order", "same", "", `{"run":"same","outcome":"accepted"}`},
		{"/signal/o-1/paid", `{"by":"x"}`, []string{"Pawl-Signal-Id", "s-1"}, "pawl.signal.o-1.paid", "", "s-1", `{"run":"o-1","signal":"s-1","outcome":"accepted"}`},
		{"/signal/" + url.PathEscape("a/b") + "/paid", `null`, []string{"Idempotency-Key", "s-2"}, "pawl.signal.~YS9i.paid", "", "s-2", `{"run":"a/b","signal":"s-2","outcome":"accepted"}`},
	} {
		code, _, got := s.send("POST", tt.path, tt.body, tt.header...)
		if code != http.StatusAccepted || got != tt.answer {
			t.Errorf("%s: %d %s, want 202 %s", tt.path, code, got, tt.answer)
			continue
		}
		stream := "PAWL_START"
		if tt.signal != "" {
			stream = "PAWL_SIGNAL"
		}
		m := last(t, js, stream)
		if m.Subject != tt.subject || string(m.Data) != tt.body || tt.run != "" && m.Header["Pawl-Run-Id"][0] != tt.run || m.Header.Get("Pawl-Signal-Id") != tt.signal {
			t.Errorf("%s stored %s %v %s", tt.path, m.Subject, m.Header, m.Data)
		}
	}
	if m := s.counts; m["/start/{machine} 202"] != 5 || m["/signal/{run}/{name} 202"] != 2 {
		t.Errorf("counted %v", m)
	}
	// Without an id, one is made: each time another.
	_, _, one := s.send("POST", "/start/order", "{}")
	_, _, two := s.send("POST", "/start/order", "{}")
	if !strings.HasPrefix(one, `{"run":"order-`) || one == two {
		t.Errorf("made ids %s and %s", one, two)
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	s, js := onStreams(t, natsqueue.Topology{})
	large := `"` + strings.Repeat("x", 900<<10) + `"`
	nearly := `"` + strings.Repeat("x", 900<<10-10) + `"`
	for _, tt := range []struct {
		method, path, body string
		header             []string
		code               int
		says               string
	}{
		{"POST", "/start/order", "{}", []string{"Authorization", ""}, 401, "a token is needed"},
		{"POST", "/start/order", "{}", []string{"Authorization", "Bearer " + token + "x"}, 401, "a token is needed"},
		{"POST", "/start/order", "{}", []string{"Authorization", "Basic " + token}, 401, "a token is needed"},
		{"POST", "/start/order", "{}", []string{"Authorization", "Bearer"}, 401, "a token is needed"},
		{"GET", "/nowhere", "", []string{"Authorization", "Bearer wrong"}, 401, "a token is needed"},
		{"GET", "/nowhere", "", nil, 404, ""},
		{"GET", "/start/order", "", nil, 405, ""},
		{"POST", "/start/order", "", nil, 400, "the body is empty"},
		{"POST", "/start/order", "a=1&b=2", nil, 400, "the body is not JSON"},
		{"POST", "/start/order", "{} {}", nil, 400, "the body is not JSON"},
		{"POST", "/start/order", "{}", []string{"Content-Encoding", "gzip"}, 415, "Content-Encoding"},
		{"POST", "/start/order", large, nil, 413, "more than 921600 bytes"},
		{"POST", "/start/order", nearly, nil, 413, "too large"},
		{"POST", "/start/nosuch", "{}", nil, 404, `no worker of this fleet knows a machine \"nosuch\"`},
		{"POST", "/start/order", "{}", []string{"Pawl-Machine-Version", "3"}, 404, `knows version 3`},
		{"POST", "/start/order", "{}", []string{"Pawl-Machine-Version", "two"}, 400, "is no version"},
		{"POST", "/start/order", "{}", []string{"Pawl-Priority", "urgent"}, 400, `Pawl-Priority: priority \"urgent\" is not high, normal or low`},
		{"POST", "/start/order", "{}", []string{"Pawl-Tenant", strings.Repeat("x", 257)}, 400, "Pawl-Tenant: tenant is 257 bytes long"},
		{"POST", "/start/No.Name", "{}", nil, 404, "is no name of a machine"},
		{"POST", "/start/order", "{}", []string{"Pawl-Run-Id", strings.Repeat("x", 257)}, 400, "1 to 256 bytes"},
		{"POST", "/start/order", "{}", []string{"Pawl-Run-Id", "\xff"}, 400, "UTF-8"},
		{"POST", "/start/order", "{}", []string{"Pawl-Run-Id", "a\tb"}, 400, "control characters"},
		{"POST", "/start/order", "{}", []string{"Pawl-Run-Id", "a", "Idempotency-Key", "b"}, 400, "differ"},
		{"POST", "/signal/a%0Ab/go", "{}", nil, 400, "control characters"},
		{"POST", "/signal/a/No", "{}", nil, 400, "is no name of a signal"},
		{"POST", "/signal/a/go", "x", nil, 400, "not JSON"},
		{"POST", "/signal/a/go", `"` + strings.Repeat("x", 64<<10) + `"`, nil, 413, "the body of a signal has more than 65536 bytes"},
		{"GET", "/runs/nobody", "", nil, 404, "not found"},
	} {
		code, h, got := s.send(tt.method, tt.path, tt.body, tt.header...)
		if code != tt.code || !strings.Contains(got, tt.says) || tt.says != "" && h.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v: %d %.300s, want %d with %q", tt.method, tt.path, tt.header, code, got, tt.code, tt.says)
		}
		if code == 401 != (h.Get("Www-Authenticate") != "") {
			t.Errorf("%s %s: %d with WWW-Authenticate %q", tt.method, tt.path, code, h.Get("Www-Authenticate"))
		}
	}
	for _, stream := range []string{"PAWL_START", "PAWL_SIGNAL"} {
		if st, err := js.Stream(t.Context(), stream); err != nil || st.CachedInfo().State.LastSeq != 0 {
			t.Errorf("%s has taken %d messages (%v)", stream, st.CachedInfo().State.LastSeq, err)
		}
	}
	for path := range s.counts {
		if strings.Contains(path, "nosuch") || strings.Contains(path, "nowhere") {
			t.Errorf("counted under %q, which came from outside", path)
		}
	}
}

func TestTokensAreRotated(t *testing.T) {
	t.Parallel()
	s, _ := onStreams(t, natsqueue.Topology{})
	for _, header := range []string{"Bearer " + token, "Bearer " + next, "bearer  " + next} {
		if code, _, got := s.send("POST", "/start/order", "{}", "Authorization", header); code != 202 {
			t.Errorf("%s: %d %s", header, code, got)
		}
	}
	if _, err := webhook.Listen(webhook.Options{Addr: "127.0.0.1:0"}); err == nil {
		t.Error("a server without a token is taken")
	}
}

// A full stream is an answer that says to come again, and so is one that is
// away; what has been stored is not lost by it.
func TestFullStreamIs503(t *testing.T) {
	t.Parallel()
	s, _ := onStreams(t, natsqueue.Topology{Limits: natsqueue.Limits{StartMsgs: 2}})
	for i := range 3 {
		code, h, got := s.send("POST", "/start/order", "{}", "Pawl-Run-Id", fmt.Sprint("r", i))
		want := 202
		if i == 2 {
			want = 503
			if h.Get("Retry-After") != "5" || !strings.Contains(got, `"class":"full"`) || !strings.Contains(got, "it was not stored") || strings.Contains(got, "PAWL") {
				t.Errorf("503 with Retry-After %q: %s", h.Get("Retry-After"), got)
			}
		}
		if code != want {
			t.Errorf("start %d: %d %s, want %d", i, code, got, want)
		}
	}
}

// fakes for what a real fleet does rarely.
type fakes struct {
	api.Sender
	known   error
	start   func(ctx context.Context) error
	started chan struct{}
}

func (f *fakes) Known(context.Context, string, int) (bool, error) { return false, f.known }

func (f *fakes) Start(ctx context.Context, _ api.Start) (uint64, error) {
	if f.started != nil {
		f.started <- struct{}{}
	}
	return 1, f.start(ctx)
}

func TestTroubleIs503(t *testing.T) {
	t.Parallel()
	away := errors.New("the registry does not answer")
	for name, tt := range map[string]struct {
		start func(context.Context) error
		code  int
		says  string
	}{
		"away":   {func(context.Context) error { return fmt.Errorf("nats://secret: %w", worker.ErrUnavailable) }, 503, api.ClassUnavailable},
		"silent": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 503, api.ClassTimeout},
		"large":  {func(context.Context) error { return api.ErrTooLarge }, 413, api.ClassTooLarge},
		"well":   {func(context.Context) error { return nil }, 202, "accepted"}, // the registry was not sure
	} {
		f := &fakes{known: away, start: tt.start}
		s := serve(t, webhook.Options{Sender: f, Machines: f, Timeout: 100 * time.Millisecond})
		code, h, got := s.send("POST", "/start/order", "{}", "Pawl-Run-Id", "r")
		if code != tt.code || !strings.Contains(got, tt.says) || strings.Contains(got, "secret") || (code == 503) != (h.Get("Retry-After") != "") {
			t.Errorf("%s: %d %s, Retry-After %q, want %d with %q", name, code, got, h.Get("Retry-After"), tt.code, tt.says)
		}
	}
}

// More requests than there is room for are told to come again, at once; and a
// stop answers those that are under way, though their client may not wait.
func TestBusyAndStop(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := &fakes{known: errors.New("not sure"), started: make(chan struct{}), start: func(context.Context) error { <-release; return nil }}
	s := serve(t, webhook.Options{Sender: f, Machines: f, InFlight: 1})
	first := make(chan int)
	go func() {
		code, _, _ := s.send("POST", "/start/order", "{}", "Pawl-Run-Id", "r")
		first <- code
	}()
	<-f.started
	if code, h, got := s.send("POST", "/start/order", "{}"); code != 503 || h.Get("Retry-After") != "1" || !strings.Contains(got, api.ClassBusy) {
		t.Errorf("a second request: %d %s", code, got)
	}
	stopped := make(chan struct{})
	go func() { s.stop(); close(stopped) }()
	natstest.Await(t, "the address to be given back", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case <-stopped:
		t.Error("the server ended with a request in hand")
	default:
	}
	close(release)
	if code := <-first; code != 202 {
		t.Errorf("the request in hand got %d", code)
	}
	<-stopped
}

// Bodies that come too slowly do not keep places from others.
func TestSlowBodiesAreLetGo(t *testing.T) {
	t.Parallel()
	f := &fakes{known: errors.New("not sure"), start: func(context.Context) error { return nil }}
	s := serve(t, webhook.Options{Sender: f, Machines: f, InFlight: 1})
	slow := func() (held bool, answer string) {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST /start/order HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\nContent-Length: 800000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		code, _, _ := s.send("POST", "/start/order", "{}") // it may come before the slow one, and have the place
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		b, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		return code == 503, string(b)
	}
	natstest.Await(t, "a slow body that held the only place", func() bool {
		held, answer := slow()
		if held && (!strings.HasPrefix(answer, "HTTP/1.1 408 ") || !strings.Contains(answer, "too slowly")) {
			t.Errorf("a slow body: %q", answer)
		}
		return held
	})
	if code, _, got := s.send("POST", "/start/order", "{}"); code != 202 {
		t.Errorf("after it: %d %s", code, got)
	}
}

// What is at no path, and a method that a path does not take, are answered as
// everything is.
func TestNothingThereIsJSON(t *testing.T) {
	t.Parallel()
	s := serve(t, webhook.Options{Sender: &fakes{}, Machines: &fakes{}})
	for _, tt := range []struct {
		method, path, allow, class string
		code                       int
	}{{"GET", "/nowhere", "", api.ClassNotFound, 404}, {"GET", "/start/order", "POST", api.ClassBadRequest, 405}} {
		code, h, got := s.send(tt.method, tt.path, "")
		if code != tt.code || h.Get("Allow") != tt.allow || h.Get("Content-Type") != "application/json" || !strings.Contains(got, `"class":"`+tt.class+`"`) {
			t.Errorf("%s %s: %d %v %s", tt.method, tt.path, code, h, got)
		}
	}
}

// Whoever never finishes a header, or sends too large a one, is let go.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, webhook.Options{Sender: &fakes{}, Machines: &fakes{}})
	code, _, _ := s.send("POST", "/start/order", "{}", "X-Large", strings.Repeat("x", 64<<10))
	if diff := cmp.Diff(http.StatusRequestHeaderFieldsTooLarge, code); diff != "" {
		t.Errorf("a header of 64 KB (-want +got):\n%s", diff)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /start/order HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if b, err := io.ReadAll(c); err != nil {
		t.Errorf("an unfinished header was still waited for after 20 s: %q, %v", b, err)
	}
}
