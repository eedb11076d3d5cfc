package main

import (
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/natstest"
)

// A run is asked by a worker, and, where none is alive, by this build.
func TestQueryARun(t *testing.T) {
	t.Parallel()
	const progress = "{\n  \"of\": 2,\n  \"results\": 2,\n  \"step\": 2\n}\n"
	url := fleet(t)
	if got := pawlRun(t, "-s", url, "run", "start", "kitchensink", "--id", "k", "--input", `{"steps":[{"do":"noop"},{"do":"noop"}]}`, "--wait"); got.code != 0 {
		t.Fatalf("start = %+v", got)
	}
	if got := pawlRun(t, "-s", url, "run", "query", "k", "progress"); got.code != 0 || got.stdout != progress {
		t.Errorf("query = %+v", got)
	}
	if got := pawlRun(t, "-s", url, "run", "query", "k", "progress", "-o", "json"); got.code != 0 || !strings.Contains(got.stdout, `"revision": 3`) {
		t.Errorf("query -o json = %+v", got)
	}
	for args, says := range map[string]string{
		"k nosuch":        `no such query: machine kitchensink version 4 has progress: "nosuch" is unknown`,
		"nosuch progress": `run "nosuch": not found`,
		"k":               "pawl run query needs <name>",
	} {
		if got := pawlRun(t, append([]string{"-s", url, "run", "query"}, strings.Fields(args)...)...); got.code == 0 || got.stdout != "" || !strings.Contains(got.stderr, says) {
			t.Errorf("query %s = %+v, want %q", args, got, says)
		}
	}
	alone := natstest.One(t).URL()
	if got := pawlRun(t, "-s", alone, "provision"); got.code != 0 {
		t.Fatal(got)
	}
	begin(t, alone, "r")
	if got := pawlRun(t, "-s", alone, "run", "query", "r", "progress"); got.code != 0 || !strings.Contains(got.stdout, `"step": 0`) {
		t.Errorf("query with no worker = %+v", got)
	}
}
