package natscall

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/statemachine"
)

// answers listens on a subject.
func answers(t *testing.T, nc *nats.Conn, subject string, f func(*nats.Msg)) {
	t.Helper()
	if _, err := nc.Subscribe(subject, f); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func reply(header nats.Header, body []byte) func(*nats.Msg) {
	return func(m *nats.Msg) { _ = m.RespondMsg(&nats.Msg{Header: header, Data: body}) }
}

// call performs an effect as a worker does.
func call(t *testing.T, nc *nats.Conn, subject string, timeout time.Duration) (json.RawMessage, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(With(t.Context(), nc), timeout)
	defer cancel()
	ctx = statemachine.WithAttempt(ctx, statemachine.Attempt{Run: "re\nport", Effect: "e1", Type: "crm.update", N: 2, Try: 3}, func() string { return "t" })
	return Handler(subject)(ctx, "key 1", json.RawMessage(`{"n":1}`))
}

// What a service is asked, and what it answers, as micro services do.
func TestAnswers(t *testing.T) {
	t.Parallel()
	large := natstest.One(t, func(o *server.Options) { o.MaxPayload, o.MaxPending = 64<<20, 128<<20 })
	nc, service := large.Conn(), large.Conn()
	asked := make(chan *nats.Msg, 1)
	answers(t, service, "right", func(m *nats.Msg) {
		asked <- m
		_ = m.Respond([]byte(` {"ok":true} `))
	})
	failing := func(code, text string, more ...string) nats.Header {
		h := nats.Header{"Nats-Service-Error-Code": {code}, "Nats-Service-Error": {text}}
		if len(more) > 0 {
			h["Retry-After"] = more
		}
		return h
	}
	answers(t, service, "text", reply(nil, []byte("done")))
	answers(t, service, "html", reply(nil, []byte("<html>\xff")))
	answers(t, service, "empty", reply(nil, nil))
	answers(t, service, "huge", reply(nil, bytes.Repeat([]byte("1"), 40<<20)))
	answers(t, service, "later", reply(failing("429", "slow\ndown", "5"), nil))
	answers(t, service, "busy", reply(failing("503", ""), nil))
	answers(t, service, "conflict", reply(failing("422", "another input"), nil))
	answers(t, service, "gone", reply(failing("404", "no such customer"), nil))
	answers(t, service, "broken", reply(failing("500", strings.Repeat("long ", 1000)), nil))
	answers(t, service, "odd", reply(failing("oops", "no number"), nil))
	answers(t, service, "good-error", reply(failing("200", "an error all the same"), nil))
	answers(t, service, "accepted", reply(nats.Header{"Pawl-Outcome": {"accepted"}}, []byte("whatever")))
	answers(t, service, "never", func(*nats.Msg) {})
	s, err := micro.AddService(service, micro.Config{Name: "crm", Version: "1.0.0", Endpoint: &micro.EndpointConfig{
		Subject: "micro", Handler: micro.HandlerFunc(func(r micro.Request) { _ = r.Error("409", "still at it", nil) }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	js, err := jetstream.New(service)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "TAKES_ALL", Subjects: []string{"stored"}}); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		subject, result, class, text string
		terminal, later, untried     bool
		after                        time.Duration
	}{
		{subject: "right", result: `{"ok":true}`},
		{subject: "text", result: `{"text":"done"}`},
		{subject: "html", result: `{"text":"\u003chtml\u003e�"}`},
		{subject: "empty", result: `{}`},
		{subject: "huge", class: "response_too_large", text: "has 41943040 bytes, over 33554432", terminal: true},
		{subject: "later", class: "error", text: "later: 429: slow down", later: true, after: 5 * time.Second},
		{subject: "busy", class: "error", text: "busy: 503", later: true},
		{subject: "micro", class: "error", text: "micro: 409: still at it", later: true},
		{subject: "conflict", class: "key_conflict", text: "another input", terminal: true},
		{subject: "gone", class: "nats_4xx", text: "gone: 404: no such customer", terminal: true},
		{subject: "broken", class: "error", text: "broken: 500: long long"},
		{subject: "odd", class: "error", text: "odd: oops: no number"},
		{subject: "good-error", class: "error", text: "an error all the same"},
		{subject: "stored", class: "subject_of_a_stream", text: `stream "TAKES_ALL" stores what is sent there`, terminal: true},
		{subject: "accepted", class: "accepted", text: "accepted"},
		{subject: "nobody", class: "no_responders", text: "nobody listens on nobody", untried: true},
		{subject: "never", class: "timeout", text: "never: context deadline exceeded"},
	}
	for _, tt := range tests {
		timeout := 10 * time.Second
		if tt.subject == "never" {
			timeout = 100 * time.Millisecond
		}
		got, err := call(t, nc, tt.subject, timeout)
		if statemachine.IsAccepted(err) != (tt.class == "accepted") {
			t.Errorf("%s: accepted %v", tt.subject, statemachine.IsAccepted(err))
		}
		after, _ := statemachine.RetryAfterOf(err)
		if string(got) != tt.result || statemachine.ClassOf(err) != tt.class || statemachine.IsTerminal(err) != tt.terminal ||
			statemachine.IsLater(err) != tt.later || statemachine.IsUntried(err) != tt.untried || after != tt.after {
			t.Errorf("%s: %.80s, %.200v (class %q, after %v)\nwant %+v", tt.subject, got, err, statemachine.ClassOf(err), after, tt)
		}
		if err != nil && (!strings.Contains(err.Error(), tt.text) || len(err.Error()) > 400) {
			t.Errorf("%s: %q does not say %q", tt.subject, err, tt.text)
		}
	}
	m := <-asked
	want := nats.Header{
		HeaderRun: {"base64:cmUKcG9ydA=="}, HeaderEffect: {"e1"}, HeaderType: {"crm.update"}, HeaderAttempt: {"2"}, HeaderKey: {"key 1"}, HeaderToken: {"t"},
	}
	for name, v := range want {
		if m.Header.Get(name) != v[0] {
			t.Errorf("%s: %q, want %q", name, m.Header.Get(name), v[0])
		}
	}
	if string(m.Data) != `{"n":1}` {
		t.Errorf("the request is %s", m.Data)
	}
}

// What the broker does not take is no attempt, if it may take it another time.
func TestBrokerRefuses(t *testing.T) {
	t.Parallel()
	n := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "worker", Password: "worker", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"may"}}}}}
	})
	nc := n.Conn(nats.UserInfo("worker", "worker"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if _, err := call(t, nc, "maynot", 3*time.Second); !statemachine.IsUntried(err) || statemachine.ClassOf(err) != "forbidden" {
		t.Errorf("a subject that is not permitted: %v", err)
	}
	ctx := With(t.Context(), nc)
	if _, err := Handler("may")(ctx, "k", bytes.Repeat([]byte("1"), 2<<20)); !statemachine.IsTerminal(err) || statemachine.ClassOf(err) != statemachine.ClassTooLarge {
		t.Errorf("an input that is too large: %v", err)
	}
	if _, err := Handler("may")(t.Context(), "k", nil); err == nil || !strings.Contains(err.Error(), "in a fleet only") {
		t.Errorf("without a connection: %v", err)
	}
	n.Stop()
	natstest.Await(t, "the loss of the connection", func() bool { return !nc.IsConnected() })
	if _, err := call(t, nc, "may", 100*time.Millisecond); !statemachine.IsUntried(err) || statemachine.ClassOf(err) != "nats_away" {
		t.Errorf("while NATS is away: %v", err)
	}
}
