package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// Runs of a fleet come out the same when they are replayed, whatever befell
// them.
func TestReplayOfAFleet(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	for id, input := range map[string]string{
		"long":   `{"steps":[{"do":"noop","repeat":30,"place":"queued"}]}`,
		"parked": `{"steps":[{"do":"file.append"}]}`,
		"failed": `{"steps":[{"do":"noop"},{"fail":"as-scripted"}]}`,
		"large":  `{"steps":[{"do":"noop","input":"` + strings.Repeat("x", 20<<10) + `"}]}`,
	} {
		pawlRun(t, "-s", url, "run", "start", "kitchensink", "--id", id, "--input", input, "--wait")
	}
	if got := pawlRun(t, "-s", url, "run", "replay", "long"); got.code != 0 || !strings.HasPrefix(got.stdout, "run long is the same when it is replayed, at revisions 1 to ") {
		t.Errorf("pawl run replay long = %+v", got)
	}
	got := pawlRun(t, "-s", url, "run", "replay", "--machine", "kitchensink", "-o", "json")
	var rows []replayedRow
	if err := json.Unmarshal([]byte(got.stdout), &rows); err != nil || got.code != 0 || len(rows) != 5 {
		t.Fatalf("pawl run replay --machine kitchensink = %+v, %v", got, err)
	}
	for _, r := range rows {
		if r.From != 1 || r.To < 1 || r.Change != nil || r.Error != "" {
			t.Errorf("replayed: %+v", r)
		}
	}
	if !strings.HasSuffix(got.stderr, "5 runs replayed: 0 differ, 0 could not be\n") {
		t.Errorf("it says %q", got.stderr)
	}
}

// A run that was recorded by other code, or by code of another fleet.
func TestReplayThatDiffers(t *testing.T) {
	t.Parallel()
	node := natstest.One(t)
	url := node.URL()
	if got := pawlRun(t, "-s", url, "provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	seed(t, url, "same")
	for _, of := range []struct {
		run    string
		change func(r *statemachine.Record)
	}{
		{"other", func(r *statemachine.Record) { r.Data = bytes.Replace(r.Data, []byte(`noop`), []byte(`fail`), 1) }},
		{"strange", func(r *statemachine.Record) { r.Machine = "nosuch" }},
		{"newer", func(r *statemachine.Record) { r.Version = 99 }},
	} {
		recorded(t, url, of.run, of.change)
	}
	tests := []struct {
		args   string
		code   int
		stdout string // as it begins
		stderr string
	}{
		{"run replay same", 0, "run same is the same when it is replayed, at revisions 1 to 2\n", ""},
		{"run replay other", 8, "run other differs at revision 1: data.steps.0.do is ", ""},
		{"run replay strange", 1, "", `pawl: run "strange" is of machine nosuch version 4: no such machine here, and no worker answers who may have it (use a pawl that was built with the fleet's machines; see pawl machine ls --build)` + "\n"},
		{"run replay newer", 1, "", `pawl: run "newer" is of machine kitchensink: its version 99: no such machine here, and no worker answers`},
		{"run replay nosuch", 1, "", `pawl: run "nosuch": not found`},
		{"run replay same other", 8, "RUN    MACHINE        REVISIONS  REPLAYED\nsame   kitchensink@4  1–2        the same\nother  ", "2 runs replayed: 1 differ, 0 could not be\n"},
		{"run replay same strange", 1, "RUN ", "2 runs replayed: 0 differ, 1 could not be\n"},
		{"run replay --status running", 8, "RUN ", "3 runs replayed: 1 differ, 2 could not be\n"},
		{"run replay same --machine kitchensink", 2, "", "pawl: runs are named one by one, or selected, not both"},
	}
	for _, tt := range tests {
		got := pawlRun(t, append([]string{"-s", url}, strings.Fields(tt.args)...)...)
		if got.code != tt.code || !strings.HasPrefix(got.stdout, tt.stdout) || !strings.HasPrefix(got.stderr, tt.stderr) {
			t.Errorf("pawl %s = %d\n%s\n%s\nwant %d, %q, %q", tt.args, got.code, got.stdout, got.stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}

// recorded appends a first record as other code would have made it.
func recorded(t *testing.T, url, run string, change func(r *statemachine.Record)) {
	t.Helper()
	q, err := natsqueue.Open(t.Context(), conn(t, url), natsqueue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	catalog, err := (&app{}).catalog()
	if err != nil {
		t.Fatal(err)
	}
	d, _ := catalog.Definition("kitchensink", 0)
	f := d.Begin(run, nil, statemachine.Env{Now: time.Now(), Build: "test"})
	if _, err := f.Apply(statemachine.Event{Kind: statemachine.EventStart, Body: json.RawMessage(`{"steps":[{"do":"noop"}]}`)}); err != nil {
		t.Fatal(err)
	}
	s, err := f.Seal()
	if err != nil {
		t.Fatal(err)
	}
	change(s.Record)
	b, err := statemachine.Encode(s.Record)
	if err != nil {
		t.Fatal(err)
	}
	if done := q.Log.Append(t.Context(), []worker.Append{{Record: s.Record, Bytes: b}})[0]; done.Seq == 0 {
		t.Fatalf("not appended: %+v", done)
	}
}
