package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/client"
	"github.com/pawlrun/pawl/transitions"
)

// natsURL is where the NATS of the fleet of this package's tests is.
var natsURL string

// TestMain runs a whole fleet, of the machines that ship with it.
func TestMain(m *testing.M) {
	code, err := withFleet(m.Run)
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the fleet:", err)
		code = 1
	}
	os.Exit(code)
}

func withFleet(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "pawl-client-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	cfg := pawl.Default()
	cfg.DataDir, cfg.NATS.Listen, cfg.Redis.Listen, cfg.HTTP.Addr = dir, "127.0.0.1:0", "127.0.0.1:0", ""
	cfg.Log.Level = 8
	catalog, err := transitions.Catalog(transitions.Config{AllowHosts: []string{"127.0.0.1"}, FileDir: dir, Out: io.Discard})
	if err != nil {
		return 1, err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p, err := pawl.Open(ctx, cfg, catalog)
	if err != nil {
		return 1, err
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	select {
	case <-p.Up():
	case err := <-done:
		return 1, err
	}
	natsURL = p.NATSURL()
	code = run()
	stop()
	return code, <-done
}

const parks = `{"steps":[{"do":"http.post","input":{"url":"http://elsewhere.example/"}}]}`

// Everything a client can ask of a fleet, asked of one.
func TestClientOfAFleet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Connect(natsURL, client.WithUser("ann"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	events, err := c.Finished(ctx, client.FinishedOptions{Machine: "kitchensink"})
	must("Finished", err)

	id, err := c.Publish(ctx, "kitchensink", json.RawMessage(parks), client.StartOptions{ID: "of/a fleet"})
	must("Publish", err)
	_, err = client.Result[any](ctx, c, id)
	var parked *client.RunError
	if !errors.As(err, &parked) || parked.Run.Status != client.StatusParked || parked.Run.Error.Class != "host_not_allowed" {
		t.Fatalf("Result = %v, want a parked run", err)
	}
	started, err := c.Start(ctx, "kitchensink", []byte(parks), client.StartOptions{ID: id})
	if must("Start", err); started.Outcome != client.Exists || started.Status != client.StatusParked {
		t.Errorf("Start = %+v, want an existing run", started)
	}
	if _, err := c.Start(ctx, "kitchensink", nil, client.StartOptions{ID: id}); !errors.Is(err, client.ErrConflict) {
		t.Errorf("Start with another input = %v, want ErrConflict", err)
	}
	if _, err := c.Signal(ctx, "nosuch", "note", "", nil); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("Signal to no run = %v, want ErrNotFound", err)
	}
	for _, want := range []client.Outcome{client.Applied, client.Duplicate} {
		told, err := c.Signal(ctx, id, "note", "n1", map[string]int{"a": 1})
		if must("Signal", err); told.Outcome != want {
			t.Errorf("Signal = %+v, want %s", told, want)
		}
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, string, client.CommandOptions) (client.Told, error)
	}{{"Pause", c.Pause}, {"Resume", c.Resume}, {"Retry", c.Retry}, {"Cancel", c.Cancel}} {
		told, err := step.do(ctx, id, client.CommandOptions{Reason: "a test"})
		if must(step.name, err); told.Outcome != client.Applied {
			t.Errorf("%s = %+v, want applied", step.name, told)
		}
	}
	if _, err := c.Pause(ctx, id, client.CommandOptions{}); !errors.Is(err, client.ErrConflict) {
		t.Errorf("Pause of an ended run = %v, want ErrConflict", err)
	}
	for e, err := range events {
		if must("Finished", err); e.Run == id {
			if e.Status != client.StatusCancelled || e.Machine != "kitchensink" || e.Sequence == 0 {
				t.Errorf("completion %+v", e)
			}
			break
		}
	}
	run, err := c.Wait(ctx, id)
	if must("Wait", err); run.Status != client.StatusCancelled {
		t.Errorf("Wait = %s", run.Status)
	}
	run, err = c.Get(ctx, id, client.AllItems)
	if must("Get", err); run.ID != id || len(run.Inbox) != 0 && run.Inbox[0].Name != "note" {
		t.Errorf("Get = %+v", run)
	}
	revisions := uint64(0)
	for r, err := range c.History(ctx, id) {
		must("History", err)
		revisions = r.Revision
	}
	if revisions != run.Revision {
		t.Errorf("History ends at %d, want %d", revisions, run.Revision)
	}
	if _, err := c.Diff(ctx, id, id); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("Diff of a run with itself: %v, want ErrInvalid", err)
	}
	found := false
	for end := time.Now().Add(20 * time.Second); !found && time.Now().Before(end); { // the index may be moments behind
		for l, err := range c.List(ctx, client.Query{Status: client.StatusCancelled, Limit: 1}) {
			must("List", err)
			for _, r := range l.Runs {
				found = found || r.ID == id
			}
		}
	}
	letter := uint64(0)
	for l, err := range c.Letters(ctx, client.LettersQuery{Run: id}) {
		must("Letters", err)
		letter = l.Seq
	}
	l, err := c.Letter(ctx, letter)
	if must("Letter", err); l.Class != "host_not_allowed" || len(l.Body) == 0 || !found {
		t.Errorf("Letter = %+v, run listed %v", l, found)
	}
	machines, err := c.Machines(ctx)
	must("Machines", err)
	machine, err := c.Machine(ctx, "report")
	must("Machine", err)
	streams, err := c.Streams(ctx)
	must("Streams", err)
	workers, err := c.Workers(ctx)
	must("Workers", err)
	if len(machines) != 6 || machine.Name != "report" || len(streams) < 8 || len(workers) != 1 || workers[0].Metadata["worker"] == "" || workers[0].Requests == 0 {
		t.Errorf("%d machines, machine %+v, %d streams, workers %+v", len(machines), machine, len(streams), workers)
	}
	if _, err := c.Get(ctx, "nosuch", 0); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("Get of no run = %v, want ErrNotFound", err)
	}
}

// The page shows the example as it is run here.
func TestPageShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(source), "func Example() {\n")
	example, expected, ok := strings.Cut(example, "\n	// Output:\n")
	if !ok {
		t.Fatal("the example has no output")
	}
	for _, part := range []string{example, strings.NewReplacer("	// ", "", "}\n", "").Replace(expected)} {
		if part = strings.ReplaceAll(strings.TrimSpace(part), "natsURL) // such as nats://127.0.0.1:4222", "\"nats://127.0.0.1:4222\")"); !strings.Contains(untabbed(string(page)), untabbed(part)) {
			t.Errorf("docs/client.md does not show\n%s", part)
		}
	}
}

// untabbed is a text without the indentation of its lines.
func untabbed(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// What a person says of an effect that was given up is its result; and what is
// held up for the fleet is listed until it is released.
// What a run asks is found by who is to decide, decided once, and handed on.
func TestDecide(t *testing.T) {
	ann, err := client.Connect(natsURL, client.WithUser("ann"))
	if err != nil {
		t.Fatal(err)
	}
	defer ann.Close()
	ctx, id := t.Context(), fmt.Sprint("decided-", time.Now().UnixNano())
	input := json.RawMessage(`{"steps":[{"approve":{"by":["ann","bob"],"quorum":2,"show":"12 EUR"}}]}`)
	if _, err := ann.Start(ctx, "kitchensink", input, client.StartOptions{ID: id}); err != nil {
		t.Fatal(err)
	}
	var found *client.Approval
	for end := time.Now().Add(20 * time.Second); found == nil; {
		for a, err := range ann.Approvals(ctx, "ann") {
			if err != nil || time.Now().After(end) {
				t.Fatalf("it is not found: %v", err)
			}
			if a.Run == id {
				found = a
			}
		}
	}
	if found, err = ann.Approval(ctx, id, found.ID); err != nil || string(found.Shown) != `"12 EUR"` {
		t.Errorf("%+v, %v", found, err)
	}
	o := client.DecisionOptions{Approval: found.ID, Hash: found.Hash, RequestID: "r1", Reason: "fine"}
	for _, want := range []client.Outcome{client.Applied, client.Duplicate} {
		if told, err := ann.Decide(ctx, id, client.Approve, o); err != nil || told.Outcome != want {
			t.Errorf("%+v, %v, want %s", told, err, want)
		}
	}
	if _, err := ann.Decide(ctx, id, client.Reject, client.DecisionOptions{}); !errors.Is(err, client.ErrConflict) {
		t.Errorf("a second answer: %v", err)
	}
	anybody, err := client.Connect(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	defer anybody.Close()
	if _, err := anybody.Decide(ctx, id, client.Approve, client.DecisionOptions{By: "cleo"}); !errors.Is(err, client.ErrDenied) {
		t.Errorf("one who may not: %v", err)
	}
	if _, err := anybody.Delegate(ctx, id, "cleo", client.DecisionOptions{By: "bob"}); err != nil {
		t.Error(err)
	}
	if _, err := anybody.Decide(ctx, id, client.Reject, client.DecisionOptions{By: "cleo"}); err != nil {
		t.Error(err)
	}
	if r, err := anybody.Wait(ctx, id); err != nil || r.Status != client.StatusFailed || r.Error.Class != "rejected" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := anybody.Approval(ctx, id, ""); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("nothing is asked any more: %v", err)
	}
	if a, err := anybody.Approval(ctx, id, found.ID); err != nil || a.Over == nil {
		t.Errorf("what became of it: %+v, %v", a, err)
	}
}

func TestResolveAndHold(t *testing.T) {
	c, err := client.Connect(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, id := t.Context(), fmt.Sprint("resolved-", time.Now().UnixNano())
	input := json.RawMessage(`{"steps":[{"do":"http.post","input":{"url":"http://elsewhere.example/"}}]}`)
	if _, err := c.Start(ctx, "kitchensink", input, client.StartOptions{ID: id}); err != nil {
		t.Fatal(err)
	}
	var r *client.Run
	for end := time.Now().Add(20 * time.Second); r == nil || r.Status != client.StatusParked; {
		if r, err = c.Get(ctx, id, 0); err != nil || time.Now().After(end) {
			t.Fatalf("it is not parked: %+v, %v", r, err)
		}
	}
	if _, err := c.Resolve(ctx, id, nil, client.CommandOptions{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a resolve that names no effect: %v", err)
	}
	if _, err := c.Resolve(ctx, id, map[string]int{"status": 200}, client.CommandOptions{Effect: r.Pending[0].ID, By: "ann", Reason: "done by hand"}); err != nil {
		t.Errorf("resolve: %v", err)
	}
	if r, err := c.Wait(ctx, id); err != nil || r.Status != "succeeded" {
		t.Errorf("after it: %+v, %v", r, err)
	}

	on := fmt.Sprint("sent-on-", time.Now().UnixNano())
	if _, err := c.Start(ctx, "kitchensink", input, client.StartOptions{ID: on}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); r.ID != on || r.Status != client.StatusParked; {
		if r, err = c.Get(ctx, on, 0); err != nil || time.Now().After(end) {
			t.Fatalf("it is not parked: %+v, %v", r, err)
		}
	}
	if x, err := c.Explain(ctx, on); err != nil || !strings.HasPrefix(x.Because[0].Help, "pawl run retry "+on+"; pawl run resume "+on+" --to next|too_long") {
		t.Errorf("explain: %+v, %v", x, err)
	}
	for says, o := range map[string]client.CommandOptions{
		"state perform leads to next, too_long": {To: "done", Reason: "enough"},
		"reason is missing":                     {To: "too_long"},
		"given up no such effect":               {To: "too_long", Reason: "enough", Effect: "other"},
	} {
		if _, err := c.Resume(ctx, on, o); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("resume %+v: %v, want %q", o, err, says)
		}
	}
	if told, err := c.Resume(ctx, on, client.CommandOptions{To: "too_long", Reason: "enough", By: "ann"}); err != nil || told.Outcome != client.Applied || told.Status != client.StatusFailed {
		t.Errorf("resume: %+v, %v", told, err)
	}
	if r, err := c.Wait(ctx, on); err != nil || r.State != "too_long" || r.Error.Message != "enough" {
		t.Errorf("after it: %+v, %v", r, err)
	}

	q := client.HoldRequest{Kind: client.HoldEffect, Effect: "email.send", By: "ann", Reason: "the bill"}
	if h, err := c.Hold(ctx, q); err != nil || !h.Held || h.By != "unverified:ann" {
		t.Errorf("hold: %+v, %v", h, err)
	}
	if all, complete, err := c.AllHeld(ctx); err != nil || !complete || len(all) != 1 || all[0].Effect != "email.send" {
		t.Errorf("held: %+v, %v, %v", all, complete, err)
	}
	if h, err := c.Release(ctx, client.HoldRequest{Kind: client.HoldEffect, Effect: "email.send"}); err != nil || h.Held {
		t.Errorf("release: %+v, %v", h, err)
	}
	if all, _, err := c.AllHeld(ctx); err != nil || len(all) != 0 {
		t.Errorf("held after it: %+v, %v", all, err)
	}
	if _, err := c.Hold(ctx, client.HoldRequest{Kind: client.HoldEffect, Effect: "gatte"}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("hold what is not: %v", err)
	}
}
