package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/api"
)

// Two runs are compared from the command line, and the exit code says whether
// they differ.
func TestDiffOfAFleet(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	steps := []struct {
		args   string
		code   int
		stdout string // as it begins
		stderr string // that it has
	}{
		{`run start kitchensink --id a --input {"steps":[{"do":"noop","input":1},{"do":"noop","input":2},{"do":"noop","input":3}]} --wait`, 0, "a\n", ""},
		{`run start kitchensink --id b --input {"steps":[{"do":"noop","input":1,"place":"queued"},{"do":"noop","input":2},{"do":"noop","input":3}]} --wait`, 0, "b\n", ""},
		{`run start kitchensink --id c --input {"steps":[{"do":"noop","input":1},{"do":"noop","input":2}]} --wait`, 0, "c\n", ""},
		{`run start trip --id t --input {"traveller":"customer-17","to":"Gdynia","nights":3,"budget":"900.00"} --wait`, 0, "t\n", ""},
		{"run fork a --at 2 --id same", 0, "same\n", ""},
		{"run wait same", 0, "", ""},
		{"run diff a same", 0, "runs a and same are the same: succeeded in state done\n", "same is a fork of a, at revision 2: from there on\n"},
		{"run diff same a -o json", 0, "{\n", ""},
		{"run diff a b", 8, "REVISIONS  STATE    WHAT                a  b\n1 1        perform  data steps.0.place  -  \"queued\"\n", ""},
		{"run diff a c --limit 1", 8, "REVISIONS  STATE    WHAT", "these are the first 1: see --limit\n"},
		{"run diff a t", 1, "", `pawl: run "a" is of machine kitchensink, and "t" of trip: only runs of one machine are compared`},
		{"run diff a nosuch", 1, "", `pawl: run "nosuch": not found`},
		{"run diff a a", 1, "", `pawl: "a" is one run: two are compared`},
		{"run diff a", 2, "", "pawl: pawl run diff needs <b> (see pawl run diff --help)"},
		{"run diff a b --limit -1", 2, "", "pawl: --limit is -1 (0 is all)"},
	}
	for _, s := range steps {
		got := pawlRun(t, append([]string{"-s", url}, strings.Fields(s.args)...)...)
		if got.code != s.code || !strings.HasPrefix(got.stdout, s.stdout) || !strings.Contains(got.stderr, s.stderr) {
			t.Errorf("pawl %s = %d\n%s\n%s\nwant %d, %q, %q", s.args, got.code, got.stdout, got.stderr, s.code, s.stdout, s.stderr)
		}
	}
	got := pawlRun(t, "-s", url, "run", "diff", "a", "c", "-o", "json")
	var d api.Diff
	if err := json.Unmarshal([]byte(got.stdout), &d); err != nil || got.code != 8 || d.Same || d.A.ID != "a" || d.B.Revision != 3 {
		t.Fatalf("pawl run diff a c = %+v, %v", got, err)
	}
	last := d.Differences[len(d.Differences)-1]
	if last.State != "done" && last.State != "perform" {
		t.Errorf("the last difference is %+v", last)
	}
	t.Logf("%s", pawlRun(t, "-s", url, "run", "diff", "a", "c").stdout)
}
