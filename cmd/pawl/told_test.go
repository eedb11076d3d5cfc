package main

import (
	"strings"
	"testing"
)

// TestWatchShowsWhatHandlersTell: between the records that ask for it and have
// its result, and also when the run has ended meanwhile.
func TestWatchShowsWhatHandlersTell(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	const input = `{"steps":[{"do":"text.summarise","input":{"text":"Sites enrol patients. A site is verified. Sites need approval.","sentences":2}},{"do":"noop"}]}`
	if got := pawlRun(t, "-s", url, "run", "start", "kitchensink", "--id", "told", "--input", input, "--wait"); got.code != 0 {
		t.Fatalf("start = %+v", got)
	}
	got := pawlRun(t, "-s", url, "run", "watch", "told")
	lines := strings.Split(got.stdout, "\n")
	if got.code != 0 || len(lines) < 4 || !strings.Contains(lines[0], "text.summarise") || !strings.Contains(lines[1], "·  text.summarise") ||
		!strings.HasSuffix(lines[1], "Sites enrol patients. Sites need approval.") || !strings.Contains(lines[2], "noop") {
		t.Errorf("watch = %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	got = pawlRun(t, "-s", url, "run", "watch", "told", "-o", "json")
	if got.code != 0 || strings.Count(got.stdout, `{"progress":{"run":"told","effect":"text.summarise","effect_id":"`) != 1 || !strings.Contains(got.stdout, `"items":["Sites enrol patients. ","Sites need approval. "]`) {
		t.Errorf("watch -o json = %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got = pawlRun(t, "-s", url, "run", "watch", "told", "--progress=false"); strings.Contains(got.stdout, "enrol patients. Sites") {
		t.Errorf("with --progress=false:\n%s", got.stdout)
	}
}
