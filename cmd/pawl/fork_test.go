package main

import (
	"strings"
	"testing"
)

// A fork from the command line: what is refused, what waits, and what lets it
// go on.
func TestForkOfAFleet(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	steps := []struct {
		name, args string
		code       int
		stdout     string // as it begins
		stderr     string // that it has
	}{
		{"a run", `run start kitchensink --id a --input {"steps":[{"do":"noop","input":1},{"do":"noop","input":2},{"do":"noop","input":3}]} --wait`, 0, "a\n", ""},
		{"a fork", "run fork a --at 2 --id same --reason trying", 0, "same\n", ""},
		{"it goes the same way", "run wait same", 0, "", ""},
		{"its history", "run history same", 0, "REV  ", ""},
		{"the same again", "run fork a --at 2 --id same", 0, "same\n", "run same exists, by the same fork: it "},
		{"another of its id", "run fork a --at 1 --id same", 1, "", `run "same" exists, and is another (choose another with --id)`},
		{"other data", `run fork a --at 2 --set steps=[{"do":"noop","input":1},{"do":"noop","input":9}] --id other`, 0, "other\n", ""},
		{"it waits", "run wait other", 5, "", ""},
		{"why", "run explain other", 0, "Run other, kitchensink version 4: parked in state perform since ", ""},
		{"it is not retried", "run retry other", 0, "other retry applied: parked at revision 3\n", ""},
		{"it goes on when it is confirmed", "run confirm other --by jo", 0, "other confirm applied: ", ""},
		{"it ends", "run wait other", 0, "", ""},
		{"nothing is left to confirm", "run confirm other", 1, "", `pawl: run "other" has ended (succeeded): confirm was not applied`},
		{"one that performs", `run fork a --at 2 --set steps=[{"do":"noop","input":1},{"do":"noop","input":8}] --id bold --perform -o json`, 0, "{\n  \"id\": \"bold\",\n  \"origin\": {\n    \"run\": \"a\",\n    \"revision\": 2,\n    \"perform\": true\n", ""},
		{"it ends, too", "run wait bold", 0, "", ""},
		{"where it began", "run show bold", 0, "Run       bold\nMachine   kitchensink version 4\nState     done\nStatus    succeeded\nFork of   run a, revision 2; what that did not ask is performed\n", ""},
		{"no revision", "run fork a --at 99", 1, "", `pawl: run "a" has no revision 99: the last is 4`},
		{"the end", "run fork a --at 4", 1, "", `pawl: run "a", revision 4: the run has ended there: nothing follows from it`},
		{"no run", "run fork nosuch --at 1", 1, "", `pawl: run "nosuch": not found`},
		{"no field", "run fork a --at 2 --set colour=red", 1, "", `the fork is refused: invalid_input in state perform: json: unknown field "colour"`},
		{"no such type", "run fork a --at 2 --set at=soon", 1, "", `the fork is refused: invalid_input in state perform: field at: string given where int is expected`},
		{"no version", "run fork a --at 2 --machine-version 9", 1, "", `run "a" is of machine kitchensink: its version 9: no such machine here`},
		{"all are replayed the same", "run replay same other bold", 0, "RUN ", "3 runs replayed: 0 differ, 0 could not be\n"},
		{"none is selected", "run replay --machine nosuch", 1, "", "no run is selected: nothing was checked"},
	}
	for _, s := range steps {
		got := pawlWith(t, "", map[string]string{"PAWL_NATS_URL": url, "USER": "jo"}, strings.Fields(s.args)...)
		if got.code != s.code || !strings.HasPrefix(got.stdout, s.stdout) || !strings.Contains(got.stderr, s.stderr) {
			t.Errorf("%s: pawl %s = %d\n%s\n%s\nwant %d, %q, %q", s.name, s.args, got.code, got.stdout, got.stderr, s.code, s.stdout, s.stderr)
		}
	}
	if got := pawlRun(t, "-s", url, "run", "history", "same"); strings.Count(got.stdout, "result noop (recorded)") != 2 {
		t.Errorf("the history does not say what was recorded:\n%s", got.stdout)
	}
	if got := pawlRun(t, "-s", url, "run", "explain", "other"); got.code != 0 {
		t.Errorf("explain = %+v", got)
	}
}

func TestForkUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"run fork a":                             "pawl: --at is needed: a revision of the run (pawl run history has them)",
		"run fork a --at 0":                      "pawl: --at is 0: revisions count from 1 (pawl run history has them)",
		"run fork a --at 1 --id=":                "pawl: --id is empty (leave it off to have an id made)",
		"run fork a --at 1 --set total":          `pawl: --set "total" is not field=value (such as --set total=12, --set customer.name=Ann)`,
		"run fork a --at 1 --set a.=1":           `pawl: --set "a.=1" is not field=value (such as --set total=12, --set customer.name=Ann)`,
		"run fork a --at 1 --set a=1 --set a.b=": `pawl: --set "a.b=" sets what another --set does (give each field once)`,
		"run fork a --at 1 --machine-version 0":  "pawl: --machine-version is 0 (leave it off for that of the run)",
		"run confirm":                            "pawl: pawl run confirm needs <id> (see pawl run confirm --help)",
	} {
		if got := pawlRun(t, strings.Fields(args)...); got.code != 2 || strings.TrimSpace(got.stderr) != want {
			t.Errorf("pawl %s = %+v, want %s", args, got, want)
		}
	}
	got, err := fields([]string{"a.b=1", "a.c=x", `d=["y"]`, "e=true", `f="1"`})
	if want := `{"a":{"b":1,"c":"x"},"d":["y"],"e":true,"f":"1"}`; err != nil || string(got) != want {
		t.Errorf("fields = %s, %v, want %s", got, err, want)
	}
}
