package transitions

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/statemachine"

	"github.com/google/go-cmp/cmp"
)

// loopback is what the shipped configuration allows.
var loopback = []string{"localhost", "127.0.0.0/8", "::1"}

func testCaller(t *testing.T, allowed ...string) *caller {
	t.Helper()
	hosts, err := parseAllowList(allowed)
	if err != nil {
		t.Fatal(err)
	}
	c := newCaller(hosts, 5*time.Second)
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// serve answers every request in the same way.
func serve(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s
}

func TestHTTPPostTable(t *testing.T) {
	t.Parallel()
	later := outcome{later: true}
	tests := []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   outcome
		result string
	}{
		{name: "200 with JSON", status: 200, body: ` {"ok":true} `, want: outcome{}, result: `{"ok":true}`},
		{name: "201 with text", status: 201, body: "created", want: outcome{}, result: `{"text":"created"}`},
		{name: "204", status: 204, want: outcome{}, result: `{}`},
		{name: "301", status: 301, header: map[string]string{"Location": "/elsewhere"}, want: outcome{class: "http_3xx"}},
		{name: "400", status: 400, want: outcome{class: "http_4xx"}},
		{name: "401", status: 401, want: outcome{class: "http_4xx"}},
		{name: "404", status: 404, want: outcome{class: "http_4xx"}},
		{name: "408", status: 408, want: later},
		{name: "409", status: 409, want: later},
		{name: "422", status: 422, want: outcome{class: "key_conflict"}},
		{name: "425", status: 425, want: later},
		{name: "429", status: 429, want: later},
		{name: "429 with seconds", status: 429, header: map[string]string{"Retry-After": "7"}, want: outcome{later: true, wait: 7 * time.Second, closes: true}},
		{name: "409 with seconds", status: 409, header: map[string]string{"Retry-After": "7"}, want: outcome{later: true, wait: 7 * time.Second}},
		{name: "503 with a date long past", status: 503, header: map[string]string{"Retry-After": "Mon, 02 Jan 2006 15:04:05 GMT"}, want: later},
		{name: "503 with far too long a wait", status: 503, header: map[string]string{"Retry-After": "999999999"}, want: outcome{later: true, wait: time.Hour, closes: true}},
		{name: "503 with nonsense", status: 503, header: map[string]string{"Retry-After": "soon"}, want: later},
		{name: "500", status: 500, want: outcome{failed: true}},
		{name: "502", status: 502, want: outcome{failed: true}},
		{name: "500 with Retry-After is a failure all the same", status: 500, header: map[string]string{"Retry-After": "7"}, want: outcome{failed: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range tt.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := testCaller(t, loopback...).httpPost(t.Context(), "k", post{URL: s.URL})
			if o := outcomeOf(err); o != tt.want {
				t.Errorf("httpPost answered %d: outcome %+v (%v), want %+v", tt.status, o, err, tt.want)
			}
			if string(got) != tt.result {
				t.Errorf("httpPost answered %d: result %s, want %s", tt.status, got, tt.result)
			}
			if err != nil && !strings.Contains(err.Error(), tt.name[:3]) {
				t.Errorf("the cause %q does not name the code", err)
			}
		})
	}
}

func TestHTTPPostSends(t *testing.T) {
	t.Parallel()
	type request struct {
		Method, Path, Key, ContentType, Extra, Body string
	}
	requests := make(chan request, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{r.Method, r.URL.String(), r.Header.Get("Idempotency-Key"), r.Header.Get("Content-Type"), r.Header.Get("X-Extra"), string(body)}
	})
	in := post{URL: s.URL + "/orders?page=2", Body: json.RawMessage(`{"n":1}`), Headers: map[string]string{"x-extra": "yes"}}
	if _, err := testCaller(t, loopback...).httpPost(t.Context(), "order:4412 ä", in); err != nil {
		t.Fatal(err)
	}
	want := request{"POST", "/orders?page=2", "order:4412%20%C3%A4", "application/json", "yes", `{"n":1}`}
	if diff := cmp.Diff(want, <-requests); diff != "" {
		t.Errorf("the request differs (-want +got):\n%s", diff)
	}
}

func TestHTTPPostRefusesBeforeItSends(t *testing.T) {
	t.Parallel()
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	inAllowed := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	tests := []struct {
		name    string
		allowed []string
		in      post
		class   string
	}{
		{"a host that is not allowed", []string{"api.example.com"}, post{URL: s.URL}, "host_not_allowed"},
		{"a name that resolves to the inside", []string{"inside.test"}, post{URL: "http://inside.test/"}, "host_not_allowed"},
		{"another scheme", loopback, post{URL: "gopher://localhost/"}, "host_not_allowed"},
		{"no URL", loopback, post{}, "host_not_allowed"},
		{"a URL that is none", loopback, post{URL: "http://[::1"}, "invalid_input"},
		{"a key of its own", loopback, post{URL: inAllowed, Headers: map[string]string{"idempotency-key": "x"}}, "invalid_input"},
		{"a host of its own", loopback, post{URL: inAllowed, Headers: map[string]string{"host": "x"}}, "invalid_input"},
		{"a line break", loopback, post{URL: inAllowed, Headers: map[string]string{"x": "a\r\nb: c"}}, "invalid_input"},
		{"a name that is none", loopback, post{URL: inAllowed, Headers: map[string]string{"a b": "c"}}, "invalid_input"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := testCaller(t, tt.allowed...)
			if tt.name == "a name that resolves to the inside" {
				resolveTo(c, s.Listener.Addr().String())
			}
			_, err := c.httpPost(t.Context(), "k", tt.in)
			if o := outcomeOf(err); o.class != tt.class {
				t.Errorf("httpPost(%+v) = %v, want class %s", tt.in, err, tt.class)
			}
		})
	}
}

// A redirect is not followed, not even to a host that is allowed.
func TestHTTPPostDoesNotFollow(t *testing.T) {
	t.Parallel()
	target := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	})
	_, err := testCaller(t, loopback...).httpPost(t.Context(), "k", post{URL: s.URL})
	if o := outcomeOf(err); o.class != "http_3xx" {
		t.Errorf("httpPost = %v, want class http_3xx", err)
	}
}

func TestHTTPPostHidesTheQuery(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	c := testCaller(t, loopback...)
	_, failed := c.httpPost(t.Context(), "k", post{URL: s.URL + "/a?token=hidden"})
	s.Close()
	_, unreached := c.httpPost(t.Context(), "k", post{URL: s.URL + "/a?token=hidden"})
	for _, err := range []error{failed, unreached} {
		if err == nil || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "/a") {
			t.Errorf("httpPost = %v, want an error that names the path and not the query", err)
		}
		if o := outcomeOf(err); !o.failed {
			t.Errorf("httpPost = %v, want an ordinary failure", err)
		}
	}
}

func TestCallerLimitsResponses(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 11)) })
	c := testCaller(t, loopback...)
	if _, _, err := c.do(t.Context(), call{method: "GET", url: s.URL, limit: 11}); err != nil {
		t.Errorf("a response of the limit = %v", err)
	}
	_, _, err := c.do(t.Context(), call{method: "GET", url: s.URL, limit: 10})
	if o := outcomeOf(err); o.class != "response_too_large" {
		t.Errorf("a response over the limit = %v, want class response_too_large", err)
	}
}

func TestCallerTimesOut(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) }) // before the server closes
	c := testCaller(t, loopback...)
	c.http.Timeout = 20 * time.Millisecond
	_, err := c.httpPost(t.Context(), "k", post{URL: s.URL})
	if o := outcomeOf(err); !o.failed {
		t.Errorf("httpPost = %v, want an ordinary failure", err)
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]string{"method": r.Method, "key": r.Header.Get("Idempotency-Key"), "body": string(body)})
	})
	got, err := bound(Bound{URL: s.URL, Method: "PUT", Timeout: time.Second})(t.Context(), "k", json.RawMessage(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"body":"{\"a\":1}","key":"k","method":"PUT"}`; string(got) != want {
		t.Errorf("bound = %s, want %s", got, want)
	}
}

func TestSaying(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "",
		"a\n  b\x00\xff":         ": a b\x00",
		strings.Repeat("ä", 150): ": " + strings.Repeat("ä", 100) + "…",
	} {
		if got := saying([]byte(in)); got != want {
			t.Errorf("saying(%q) = %q, want %q", in, got, want)
		}
	}
}

// resolveTo makes every name resolve to one address.
func resolveTo(c *caller, address string) {
	transport := c.http.Transport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
}

// 202 from a service that an effect is bound to says that the result comes
// later; a request has the token that it comes with. Of http.post it is a
// response like any other.
func TestAcceptedOverHTTP(t *testing.T) {
	t.Parallel()
	asked := make(chan http.Header, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"job":7}`))
	}))
	t.Cleanup(s.Close)
	ctx := statemachine.WithAttempt(t.Context(), statemachine.Attempt{Run: "r 1", Effect: "e1", N: 2}, func() string { return "abc" })
	got, err := bound(Bound{URL: s.URL, Method: http.MethodPost})(ctx, "k", []byte(`{}`))
	if h := <-asked; got != nil || !statemachine.IsAccepted(err) || h.Get("Pawl-Result-Token") != "abc" || h.Get("Pawl-Run-Id") != "r%201" || h.Get("Pawl-Attempt") != "2" {
		t.Errorf("bound: %s, %v, asked with %v", got, err, h)
	}
	got, err = newCaller(&allowList{any: true}, time.Second).httpPost(ctx, "k", post{URL: s.URL})
	if string(got) != `{"job":7}` || err != nil || (<-asked).Get("Pawl-Result-Token") != "" {
		t.Errorf("http.post: %s, %v", got, err)
	}
}
