package pawl_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
)

// remoteFleet is a fleet one of whose effects is performed on a NATS subject.
func remoteFleet(t *testing.T) *fleet {
	t.Helper()
	f := realServers(t)
	wait := 1500 * time.Millisecond
	effects := append(catalog(t, t.TempDir()).Effects(), "pdf.render")
	if _, err := natsqueue.Provision(t.Context(), f.nc, natsqueue.Topology{Effects: effects, AckWait: wait, EffectAckWait: wait}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte("effects: {bound: {pdf.render: {subject: pdf.render, timeout: 2s}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.env["PAWL_RETRY_MAX"] = "300ms"
	startProcess(t, f.env, "--config", path)
	return f
}

const render = `{"steps":[{"do":"pdf.render","input":{"title":"Site 4412"}}]}`

// That nobody listens spends no attempt, however often; whoever comes to listen
// finishes the run. One that never answers spends them all.
func TestEffectOverNATS(t *testing.T) {
	t.Parallel()
	f := remoteFleet(t)
	f.start("kitchensink", "doc-1", render)
	r := f.reaches("doc-1", func(r *statemachine.Stored) bool { return len(r.Pending) == 1 && r.Pending[0].Try > 6 })
	if p := r.Pending[0]; p.Attempt != 1 || p.Cause == nil || p.Cause.Class != "no_responders" {
		t.Errorf("where nobody listens: %s", describe(r))
	}
	var asked []*nats.Msg
	answered := make(chan *nats.Msg, 100)
	sub, err := f.nc.Subscribe("pdf.render", func(m *nats.Msg) {
		answered <- m
		_ = m.Respond([]byte(`{"pages":1}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := f.ended("doc-1"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("the run %s", describe(r))
	}
	asked = append(asked, <-answered)
	if h := asked[0].Header; h.Get("Pawl-Run-Id") != "doc-1" || h.Get("Pawl-Effect-Id") != r.Pending[0].ID || h.Get("Pawl-Idempotency-Key") != r.Pending[0].ID || h.Get("Pawl-Attempt") != "1" {
		t.Errorf("asked with %v", h)
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.nc.Subscribe("pdf.render", func(m *nats.Msg) { answered <- m }); err != nil {
		t.Fatal(err)
	}
	f.start("kitchensink", "doc-2", render)
	r = f.reaches("doc-2", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if p := r.Pending[0]; p.Attempt != 5 || p.Cause.Class != statemachine.ClassTimeout || len(answered) != 5 {
		t.Errorf("one that never answers was asked %d times: %s", len(answered), describe(r))
	}
}

// The service in Node.js performs effects, as its page says.
func TestNodeResponder(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(nodeExample + "/node_modules")
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Logf("not run: %v", err)
		return
	}
	f := remoteFleet(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, node, "responder.mjs")
	c.Dir = nodeExample
	c.Env = append(os.Environ(), "NATS_URL="+f.env["PAWL_NATS_URL"])
	said := &lockedBuffer{}
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = c.Wait() }()
	f.start("kitchensink", "doc-1", render)
	f.start("kitchensink", "doc-2", `{"steps":[{"do":"pdf.render","input":{}}]}`)
	r := f.ended("doc-1")
	if r.Status != statemachine.StatusSucceeded {
		t.Errorf("doc-1 %s", describe(r))
	}
	r = f.reaches("doc-2", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if p := r.Pending[0]; p.Attempt != 1 || p.Cause.Class != "nats_4xx" || !strings.Contains(p.Cause.Message, "pdf.render: 400: title is missing") {
		t.Errorf("doc-2 %s", describe(r))
	}
	eventually(t, 10*time.Second, "what the service says", func() bool {
		return strings.Contains(said.String(), "listening on pdf.render\n") && strings.Contains(said.String(), "doc-1: attempt 1 of Site 4412\n")
	})
	page, err := os.ReadFile("docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(nodeExample + "/responder.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if code := string(source)[strings.Index(string(source), "import "):]; !strings.Contains(string(page), code) {
		t.Errorf("docs/wire.md does not show\n%s", code)
	}
}
