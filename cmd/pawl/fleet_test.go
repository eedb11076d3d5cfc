package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/transitions"
	"github.com/pawlrun/pawl/worker"
)

// fleet starts an embedded fleet of the shipped machines, and returns where
// its NATS is.
func fleet(t *testing.T) string {
	t.Helper()
	cfg := pawl.Default()
	cfg.Mode = "embedded"
	cfg.DataDir, cfg.NATS.Listen, cfg.Redis.Listen, cfg.HTTP.Addr = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", ""
	catalog, err := transitions.Catalog(transitions.Config{FileDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p, err := pawl.Open(ctx, cfg, pawl.Schedules(catalog), pawl.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the fleet ended with %v", err)
		}
	})
	url := p.NATSURL()
	natstest.Await(t, "the fleet to carry out a run", func() bool {
		return pawlRun(t, "-s", url, "run", "start", "kitchensink", "--id", "first", "--wait").code == 0
	})
	return url
}

func TestRunsOfAFleet(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	report, _ := transitions.Sample("report")
	steps := []struct {
		name, stdin, args string
		code              int
		stdout, stderr    string // that it has
	}{
		{"a run that succeeds", string(report), "run start report --id report-1 - --wait", 0, "report-1\n", "run report-1 succeeded in state done\n"},
		{"the same again", string(report), "run start report --id report-1 - --wait", 0, "report-1\n", "run report-1 succeeded in state done\n"},
		{"the same id, another input", "", `run start report --id report-1 --input {"source":{"text":"b"},"to":"a@b"} --wait`, 1, "", "pawl: run report-1 was not started: id_conflict: "},
		{"another machine", "", `run start kitchensink --id report-1 --input {"steps":[]} --wait`, 1, "", "id_conflict: "},
		{"a run that fails", "", `run start kitchensink --id ks-1 --input {"steps":[{"fail":"as-scripted"}]} --wait`, 3, "ks-1\n", "pawl: run ks-1 failed in state failed: scripted_failure: as-scripted\n"},
		{"a run that is parked", "", `run start kitchensink --id ks-2 --input {"steps":[{"do":"file.append"}]} --wait`, 5, "ks-2\n", "pawl: run ks-2 is parked in state perform: invalid_input: the input names no file (dlq-replayer ls --run ks-2)\n"},
		{"an input that is refused", "", `run start kitchensink --id ks-3 --input {"steps":[{"do":"none"}]} --wait`, 1, "ks-3\n", `pawl: run ks-3 was not started: refused: steps[0]: effect "none" is not known here`},
		{"a machine that does not exist", "", "run start none --id none-1 --wait", 1, "none-1\n", "pawl: run none-1 was not started: unknown_machine: "},
		{"results, for programs", "", `run start kitchensink --id ks-4 --input {"steps":[{"do":"noop","input":7,"repeat":2,"place":"queued"}]} --wait -o json`, 0, `"results": [` + "\n      7,\n      7\n    ]", "run ks-4 succeeded"},
		{"a run that is shown", "", "run show ks-2", 0, "Status    parked\n", ""},
		{"what it waits for", "", "run show ks-2", 0, "file.append  parked  1 ", ""},
		{"a run that is drawn", "", "run graph ks-2", 0, "    class perform current\n", ""},
		{"a list", "", "run ls --status failed", 0, "ks-1  kitchensink@4  failed  failed  1    ", ""},
		{"a list by a field", "", "run ls --where to=customer-17@example.com -o json", 0, `"id":"report-1"`, ""},
		{"a list with a limit", "", "run ls --limit 1", 0, "ks-4", "the first 1; --all shows all\n"},
	}
	for _, s := range steps {
		got := pawlWith(t, s.stdin, map[string]string{"PAWL_NATS_URL": url}, strings.Fields(s.args)...)
		if got.code != s.code || !strings.Contains(got.stdout, s.stdout) || !strings.Contains(got.stderr, s.stderr) {
			t.Errorf("%s: pawl %s = %d\n%s\n%s\nwant %d, %q, %q", s.name, s.args, got.code, got.stdout, got.stderr, s.code, s.stdout, s.stderr)
		}
	}
	// Nothing but what is asked for is on standard output, so that it can be
	// captured.
	if got := pawlRun(t, "-s", url, "run", "start", "kitchensink", "--wait"); got.code != 0 || !strings.HasPrefix(got.stdout, "kitchensink-") || strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("pawl run start = %+v", got)
	}
}

// Everything is read from HISTORY: no worker has ever been there.
// Who publishes a start when another one of its id was stored just before is
// told of that one: it is not waited for the other's run.
func TestStartOvertakenByAnother(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	for input, want := range map[string]string{`{"steps":[]}`: "exists, by the same start", `{"steps":[{"do":"noop"}]}`: "id_conflict"} {
		var stdout, stderr bytes.Buffer
		a := &app{Tool: &cli.Tool{
			URL: url, Prefix: "pawl", Timeout: 5 * time.Second, Format: "table", Stdout: &stdout, Stderr: &stderr, Now: time.Now,
			Getenv: func(string) string { return "" }, Environ: func() []string { return nil },
		}}
		f, err := a.Open(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		s := start{app: a, machine: "kitchensink", id: "overtaken-" + want[:2], input: input}
		m, err := s.message()
		if err != nil {
			t.Fatal(err)
		}
		w := &waiter{follower: follower{app: a, fleet: f, id: s.id}, machine: s.machine, began: time.Now()}
		if err := w.before(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := pawlRun(t, "-s", url, "run", "start", "kitchensink", "--id", s.id, "--input", `{"steps":[]}`); got.code != 0 {
			t.Fatalf("the other start = %+v", got)
		}
		ack, err := s.publish(t.Context(), f, m)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.wait(t.Context(), ack); !strings.Contains(fmt.Sprint(stderr.String(), err), want) {
			t.Errorf("start = %v, %s, want %s", err, stderr.String(), want)
		}
		f.Close()
	}
}

func TestRunsWithoutAWorker(t *testing.T) {
	t.Parallel()
	url := natstest.One(t).URL()
	ask := func(args ...string) outcome { t.Helper(); return pawlRun(t, append([]string{"-s", url}, args...)...) }

	if got := ask("run", "ls"); got.code != 1 || !strings.Contains(got.stderr, "pawl provision") {
		t.Errorf("before provision, pawl run ls = %+v", got)
	}
	if got := ask("run", "start", "report"); got.code != 1 || !strings.Contains(got.stderr, "pawl provision") {
		t.Errorf("before provision, pawl run start = %+v", got)
	}
	if got := ask("provision", "--dry-run"); got.code != 0 || !strings.Contains(got.stdout, "create stream PAWL_HISTORY") {
		t.Fatalf("pawl provision --dry-run = %+v", got)
	}
	if got := ask("provision"); got.code != 0 || !strings.Contains(got.stdout, "create stream PAWL_HISTORY") {
		t.Fatalf("pawl provision = %+v", got)
	}
	if got := ask("provision", "-o", "json"); got.code != 0 || got.stdout != "[]\n" {
		t.Errorf("pawl provision once more = %+v", got)
	}

	start := ask("run", "start", "kitchensink", "--id", "a run/1", "--input", `{"steps":[{"do":"noop"}]}`, "--version", "1", "-o", "json")
	if start.code != 0 || !strings.Contains(start.stdout, `"run": "a run/1"`) || !strings.Contains(start.stdout, `"sequence": 1`) {
		t.Errorf("pawl run start = %+v", start)
	}
	checkStart(t, url)

	if got := ask("run", "show", "a run/1"); got.code != 1 || got.stderr != "pawl: run \"a run/1\": not found (is it the right fleet? -s URL, --prefix)\n" {
		t.Errorf("pawl run show of a run that nobody took = %+v", got)
	}
	seed(t, url, "a run/1")
	var run struct {
		Status, State string
		Revision      int
		Logs          map[string][]any
	}
	if got := ask("run", "show", "a run/1", "-o", "json"); json.Unmarshal([]byte(got.stdout), &run) != nil || run.Status != "succeeded" || run.Revision != 2 || len(run.Logs["results"]) != 1 {
		t.Errorf("pawl run show = %+v", got)
	}
	var history []struct {
		Revision int
		From, To string
		Events   []struct{ ID, Kind string }
	}
	if got := ask("run", "history", "a run/1", "-o", "json"); json.Unmarshal([]byte(got.stdout), &history) != nil || len(history) != 2 || history[0].Events[0].Kind != "start" || history[1].To != "done" {
		t.Errorf("pawl run history = %+v", got)
	}
	if got := ask("run", "history", "a run/1"); got.code != 0 || strings.Count(got.stdout, "\n") != 3 {
		t.Errorf("pawl run history = %+v", got)
	}
	if got := ask("run", "ls"); got.code != 0 || !strings.Contains(got.stdout, "a run/1  kitchensink@4  done   succeeded  2 ") {
		t.Errorf("pawl run ls = %+v", got)
	}
	if got := ask("run", "graph", "a run/1"); got.code != 0 || !strings.HasSuffix(got.stdout, "class done current\n") {
		t.Errorf("pawl run graph = %+v", got)
	}
	if got := ask("run", "graph", "nonesuch"); got.code != 1 || !strings.Contains(got.stderr, "neither a run nor a machine") {
		t.Errorf("pawl run graph of nothing = %+v", got)
	}
	if got := ask("--prefix", "other", "run", "ls"); got.code != 1 || !strings.Contains(got.stderr, "--prefix other") {
		t.Errorf("with another prefix, pawl run ls = %+v", got)
	}
}

// Without a worker, --wait says so, and ends when it is told to.
func TestWaitWithoutAWorker(t *testing.T) {
	t.Parallel()
	url := natstest.One(t).URL()
	if got := pawlRun(t, "-s", url, "provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	got := interrupted(t, 4*time.Second, "-s", url, "run", "start", "kitchensink", "--id", "k", "--wait")
	if got.code != 130 || got.stdout != "k\n" || got.stderr != "no worker has taken the start yet; waiting\npawl: interrupted\n" {
		t.Errorf("pawl run start --wait = %+v", got)
	}
}

func conn(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// checkStart compares the start with what any producer publishes.
func checkStart(t *testing.T, url string) {
	t.Helper()
	js, err := jetstream.New(conn(t, url))
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "PAWL_START")
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject != "pawl.start.kitchensink" || string(m.Data) != `{"steps":[{"do":"noop"}]}` || m.Header.Get("Pawl-Run-Id") != "a run/1" ||
		m.Header.Get("Pawl-Machine-Version") != "1" || m.Header.Get("Nats-Msg-Id") != "" {
		t.Errorf("published was %s %v %s", m.Subject, m.Header, m.Data)
	}
}

// seed appends the records of a run with one effect, from where it is to its
// end.
func seed(t *testing.T, url, run string) { t.Helper(); drive(t, url, run, 2) }

// begin appends its first record only.
func begin(t *testing.T, url, run string) { t.Helper(); drive(t, url, run, 1) }

// drive appends the records of a run until it has so many.
func drive(t *testing.T, url, run string, records uint64) {
	t.Helper()
	q, err := natsqueue.Open(t.Context(), conn(t, url), natsqueue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	catalog, err := transitions.Catalog(transitions.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := catalog.Definition("kitchensink", 0)
	last, err := q.Log.Look(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for last == nil || last.Rev < records {
		e := statemachine.Event{Kind: statemachine.EventStart, Body: json.RawMessage(`{"steps":[{"do":"noop"}]}`)}
		if last != nil {
			e = statemachine.Event{Kind: statemachine.EventResult, Effect: last.Pending[0].ID, Body: json.RawMessage(`{}`)}
		}
		fold := d.Begin(run, last, statemachine.Env{Now: time.Now(), Build: "test"})
		if _, err := fold.Apply(e); err != nil {
			t.Fatal(err)
		}
		sealed, err := fold.Seal()
		if err != nil {
			t.Fatal(err)
		}
		done := q.Log.Append(t.Context(), []worker.Append{{Record: sealed.Record, Bytes: sealed.Bytes}})[0]
		if done.Seq == 0 {
			t.Fatal(errors.Join(done.Err, errors.New("not appended")))
		}
		last = &sealed.Stored
		last.Seq = done.Seq
	}
}
