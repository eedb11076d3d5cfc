package main

import (
	"strings"
	"testing"
)

// What runs ask people is listed, shown, decided and handed on, and what may
// not be said is refused with its cause.
func TestApprovals(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	const asks = `{"steps":[{"approve":{"by":["ann","bob"],"quorum":2,"show":{"pay":12},"remind":"1h"},"timeout":"72h"}]}`
	steps := []struct {
		name, args     string
		code           int
		stdout, stderr string // that they have
	}{
		{"nothing is asked", "approval ls --from history", 0, "", "no approvals"},
		{"a run that asks", "run start kitchensink --id a --input " + asks, 0, "a\n", ""},
		{"all that is asked", "approval ls --from history", 0, "\na    ask    ann, bob  0 of 2   now    in 7", ""},
		{"what ann is asked", "approval ls --for ann --from history -o json", 0, `"missing":["ann","bob"]`, ""},
		{"what is asked of others", "approval ls --for cleo --from history", 0, "", "no approvals"},
		{"what is shown", "approval show a", 0, "Shown:\n  {\n    \"pay\": 12\n  }\n", ""},
		{"what it waits for", "run show a", 0, "approval by ann, bob", ""},
		{"why it waits", "run explain a", 0, "state ask waits for an approval by ann, bob (0 of 2 have approved) [awaits_approval]", ""},
		{"somebody else", "approval approve a --by cleo", 1, "", `pawl: run "a": not_allowed: "cleo" may not decide: it can be ann, bob`},
		{"another text", "approval approve a --by ann --hash old", 1, "", "shown_changed: what is shown has the hash "},
		{"one answer", "approval approve a --by ann --reason agreed --id r1", 0, "a approve applied: running at revision ", ""},
		{"the same again", "approval approve a --by ann --reason agreed --id r1", 0, "a approve duplicate: running at revision ", ""},
		{"another answer", "approval reject a --by ann", 1, "", "already_answered: ann answered at "},
		{"handed on", "approval delegate a --by bob --to cleo --reason leave -o json", 0, `"outcome": "applied"`, ""},
		{"to nobody", "approval delegate a --by bob", 2, "", "--to is needed"},
		{"who has answered", "approval show a", 0, "Answer    unverified:ann: approve, ", ""},
		{"decided", "--as cleo approval approve a", 0, "a approve applied: ", ""},
		{"done", "run wait a", 0, "", ""},
		{"the result", "run show a", 0, "Log results, the last 1 of 1:\n  {\"verdict\":\"approve\",\"answers\":[{\"by\":\"unverified:ann\"", ""},
		{"too late", "approval approve a --by bob", 1, "", `pawl: run "a" has ended (succeeded): the answer was not applied`},
		{"no approval", "approval show a", 1, "", `pawl: run "a" waits for no approval: it is succeeded in state done (pawl approval ls)`},
		{"no run", "approval show nosuch", 1, "", `pawl: run "nosuch": not found`},
		{"no name", "approval ls --for=", 2, "", "--for is empty"},
	}
	for _, s := range steps {
		got := pawlWith(t, "", map[string]string{"PAWL_NATS_URL": url, "USER": "jo"}, strings.Fields(s.args)...)
		if got.code != s.code || !strings.Contains(got.stdout, s.stdout) || !strings.Contains(got.stderr, s.stderr) {
			t.Errorf("%s: pawl %s = %d\n%s\n%s\nwant %d, %q, %q", s.name, s.args, got.code, got.stdout, got.stderr, s.code, s.stdout, s.stderr)
		}
	}
	if got := pawlRun(t, "-s", url, "run", "history", "a"); !strings.Contains(got.stdout, " approval by unverified:ann (agreed) ") || !strings.Contains(got.stdout, " delegate by unverified:bob (leave) ") {
		t.Errorf("the history does not say who decided:\n%s", got.stdout)
	}
}
