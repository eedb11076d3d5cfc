package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/natsqueue"
)

// outcome is what a command line came to.
type outcome struct {
	code           int
	stdout, stderr string
}

func replayer(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	tool := &cli.Tool{
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(string) string { return "" }, Environ: func() []string { return nil },
	}
	code := tool.Main(t.Context(), root(tool), args)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args   string
		code   int
		stderr string
	}{
		{"", 0, ""},
		{"ls --help", 0, ""},
		{"lst", 2, `dlq-replayer: "lst" is no command of dlq-replayer (did you mean ls?)`},
		{"show", 2, "dlq-replayer: dlq-replayer show needs <seq> (see dlq-replayer show --help)"},
		{"show x", 2, `dlq-replayer: "x" is no sequence of a letter (dlq-replayer ls shows them)`},
		{"show 0", 2, `dlq-replayer: "0" is no sequence of a letter (dlq-replayer ls shows them)`},
		{"ls --kind x", 2, `dlq-replayer: kind "x" is none of start, signal, effect, other (see dlq-replayer ls --help)`},
		{"ls x", 2, `dlq-replayer: dlq-replayer ls takes no further argument "x" (see dlq-replayer ls --help)`},
	}
	for _, tt := range tests {
		got := replayer(t, strings.Fields(tt.args)...)
		if got.code != tt.code || strings.TrimSuffix(got.stderr, "\n") != tt.stderr {
			t.Errorf("dlq-replayer %s = %d, %q, want %d, %q", tt.args, got.code, got.stderr, tt.code, tt.stderr)
		}
	}
}

func TestLetters(t *testing.T) {
	t.Parallel()
	url := natstest.One(t).URL()
	ask := func(args ...string) outcome { t.Helper(); return replayer(t, append(args, "-s", url)...) }

	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if got := ask("ls"); got.code != 1 || !strings.Contains(got.stderr, "pawl provision") {
		t.Errorf("before provision, ls = %+v", got)
	}
	if _, err := natsqueue.Provision(t.Context(), nc, natsqueue.Topology{}); err != nil {
		t.Fatal(err)
	}
	if got := ask("ls"); got.code != 0 || got.stdout != "" || got.stderr != "no letters\n" {
		t.Errorf("ls of nothing = %+v", got)
	}
	if got := ask("ls", "-o", "json"); got.code != 0 || got.stdout != "[]\n" {
		t.Errorf("ls of nothing = %+v", got)
	}
	q, err := natsqueue.Open(t.Context(), nc, natsqueue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	at := time.Now().Add(-5 * time.Minute)
	// More than one page of the broker's, so that there is no limit to be seen.
	const many = 600
	for i := range many {
		l := deadletter.Letter{ID: fmt.Sprint("l-", i), Kind: deadletter.KindEffect, Machine: "invoice", Run: fmt.Sprint("run-", i), Class: "http_4xx", Cause: "404", First: at, Last: at}
		if i%100 == 7 {
			l.Kind, l.Machine, l.Class = deadletter.KindStart, "report", "refused"
		}
		if err := q.Source.DeadLetter(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	full := deadletter.Letter{
		ID: "full", Kind: deadletter.KindEffect, Machine: "invoice", Run: "run 4412", State: "post", Effect: "ledger.post", EffectID: "e-1", Key: "ledger:4412",
		Class: "timeout", Cause: "no answer\nwithin 30 s \x1b[31m", Attempts: 5, Print: "fp-1", First: at, Last: at, Build: "b-1", Redrives: 2,
		Source: "pawl.effect.x", SrcSeq: 99, Headers: map[string]string{"Traceparent": "00-1"}, Body: []byte(`{"amount":"12.50"}`),
	}
	if err := q.Source.DeadLetter(t.Context(), full); err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		args string
		rows int
	}{
		{"", many + 1},
		{"--kind start", 6},
		{"--machine report", 6},
		{"--class http_4xx", many - 6},
		{"--kind effect --class timeout", 1},
		{"--run run-8", 1},
		{"--state post --effect ledger.post --fingerprint fp-1", 1},
		{"--machine none", 0},
	}
	for _, tt := range tests {
		got := ask(append([]string{"ls", "-o", "json"}, strings.Fields(tt.args)...)...)
		var letters []map[string]any
		if err := json.Unmarshal([]byte(got.stdout), &letters); err != nil || got.code != 0 || len(letters) != tt.rows {
			t.Errorf("ls %s = %d, %d letters, %v, %s, want %d", tt.args, got.code, len(letters), err, got.stderr, tt.rows)
		}
	}
	if got := ask("ls"); got.code != 0 || strings.Count(got.stdout, "\n") != many+2 || !strings.Contains(got.stdout, "no answer within 30 s \uFFFD[31m") {
		t.Errorf("ls = %d with %d lines, %s", got.code, strings.Count(got.stdout, "\n"), got.stderr)
	}

	full.Seq = 2*many + 1 // a letter is followed by the entry that keeps it from being stored twice
	got := ask("show", fmt.Sprint(full.Seq))
	spaces := regexp.MustCompile(`\b {2,}`) // how wide a table is depends on what else is in it
	got.stdout = spaces.ReplaceAllString(got.stdout, "  ")
	for _, says := range []string{
		"Letter  1201\n", "-full\n", "Kind  effect\n", "Class  timeout\n", "Cause  no answer within 30 s \uFFFD[31m\n",
		"Attempts  5\n", "Machine  invoice\n", "Run  run 4412\n", "State  post\n", "Effect  ledger.post\n", "Effect id  e-1\n",
		"Key  ledger:4412\n", "Fingerprint  fp-1\n", "(5m ago)\n", "Build  b-1\n", "Redrives  2\n", "Source  pawl.effect.x\n",
		"Source sequence  99\n", "\nHeaders:\n  Traceparent: 00-1\n", "\nBody:\n  {\n    \"amount\": \"12.50\"\n  }\n",
	} {
		if !strings.Contains(got.stdout, says) {
			t.Errorf("show has no %q:\n%s%s", says, got.stdout, got.stderr)
		}
	}
	if got := ask("show", fmt.Sprint(full.Seq), "-o", "json"); got.code != 0 || !strings.Contains(got.stdout, `"amount": "12.50"`) || !strings.Contains(got.stdout, `"fingerprint": "fp-1"`) {
		t.Errorf("show -o json = %+v", got)
	}
	if got := ask("show", "9999"); got.code != 1 || got.stderr != "dlq-replayer: letter 9999: not found (is it the right fleet? -s URL, --prefix)\n" {
		t.Errorf("show of nothing = %+v", got)
	}

	// A letter that somebody else put there does not hide the others.
	m := nats.NewMsg("pawl.dlq.effect.invoice")
	m.Header.Set("Pawl-Dlq-Kind", "effect")
	m.Header.Set("Pawl-Dlq-Attempts", "many")
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the damaged letter", func() bool { return ask("ls").code == 1 })
	if got := ask("ls", "--class", "timeout"); got.code != 1 || strings.Count(got.stdout, "\n") != 2 || !strings.Contains(got.stderr, "Pawl-Dlq-Attempts") {
		t.Errorf("ls with a damaged letter = %+v", got)
	}
}
