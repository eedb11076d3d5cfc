package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/statemachine"
)

// Runs are selected, planned, tried on a few and steered, with a reason that
// each of them, and the audit record, has.
func TestSteerMany(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	for i := range 5 {
		pawlRun(t, "-s", url, "run", "start", "kitchensink", "--id", fmt.Sprint("p-", i), "--input", `{"steps":[{"do":"file.append"}]}`, "--wait")
	}
	steps := []struct {
		args string
		code int
		text string // that it says
	}{
		{"cancel --machine kitchensink p-1", 2, "runs are named one by one, or selected, not both"},
		{"cancel p-1 --canary 2", 2, "--canary is for runs that are selected"},
		{"cancel --yes", 2, "--yes is for runs that are selected"},
		{"cancel --machine kitchensink --yes", 2, "--reason is missing"},
		{"cancel --machine kitchensink --reason why", 2, "5 runs are selected, and nothing was changed"},
		{"cancel --machine kitchensink --status gone --reason why --yes", 2, "is no status"},
		{"retry --machine kitchensink --effect e --reason why --yes", 2, "--effect is of one run"},
		{"cancel --where to=nobody --reason why --yes", 1, "no runs are selected"},
		{"resume --machine kitchensink --plan", 1, "no runs are selected"},
		{"retry --machine kitchensink --plan", 0, "5      retry kitchensink@4 in state perform (parked)"},
		{"retry --machine kitchensink --plan", 0, "5 runs selected, 5 would be retried, 0 refused"},
		{"retry --status parked --reason why --yes --canary 2", 7, "stopped: of the first 2, 2 failed"},
		{"pause --status parked --reason why --yes --canary 1", 0, "5 runs selected, 5 paused, 0 refused; of those looked at, 1 went well, 0 failed, 0 are undecided"},
		{"cancel --class paused --limit 1 --reason one", 0, "1 run selected, 1 cancelled, 0 refused"},
		{"resume --class paused --reason on --yes --stop-on-failure-ratio 0.5 -o json", 0, `"succeeded": 4`},
		{"cancel --machine kitchensink --reason over --yes --stop-on-failure-ratio 0.5", 0, "4 runs selected, 4 cancelled, 0 refused; of those looked at, 4 went well"},
		{"cancel --machine kitchensink --reason over --yes", 1, "no runs are selected"},
	}
	for _, s := range steps {
		args := append([]string{"-s", url, "run"}, strings.Fields(s.args)...)
		if got := pawlRun(t, args...); got.code != s.code || !strings.Contains(got.stdout+got.stderr, s.text) {
			t.Errorf("pawl run %s = %d\n%s%s\nwant %d, %q", s.args, got.code, got.stdout, got.stderr, s.code, s.text)
		}
	}
	why := 0
	for i := range 5 {
		got := pawlRun(t, "-s", url, "run", "history", fmt.Sprint("p-", i), "-o", "json")
		why += strings.Count(got.stdout, `"reason":"over"`) + strings.Count(got.stdout, `"reason":"one"`)
	}
	if why != 5 {
		t.Errorf("%d of 5 histories say why", why)
	}
}

// A run that could not go on when its time had come is retried as one whose
// effect was given up.
func TestRetryManyHasWaits(t *testing.T) {
	t.Parallel()
	m := &steerMany{steer: &steer{verb: api.RunsRetry, id: "q"}}
	of := func(status statemachine.Status, waits ...statemachine.Wait) *statemachine.Record {
		return &statemachine.Record{Status: status, Waits: waits, Applied: []string{statemachine.CommandEventID("q")}}
	}
	wait := func(try int, cause *statemachine.Cause) statemachine.Wait {
		return statemachine.Wait{ID: "w", Kind: statemachine.WaitSleep, Due: new(time.Time), Try: try, Cause: cause}
	}
	parked := of(statemachine.StatusParked, wait(1, &statemachine.Cause{}))
	if !m.may(parked) || m.may(of(statemachine.StatusRunning, wait(1, nil))) {
		t.Error("not the runs that were given up are retried")
	}
	row := rowOf(parked)
	for i, c := range []struct {
		now  *statemachine.Record
		want bulk.Outcome
	}{
		{of(statemachine.StatusRunning, wait(2, nil)), bulk.Open},
		{of(statemachine.StatusParked, wait(2, &statemachine.Cause{})), bulk.Bad},
		{of(statemachine.StatusRunning), bulk.Good},
	} {
		if got := m.outcome(row, c.now); got != c.want {
			t.Errorf("outcome %d is %v, want %v", i, got, c.want)
		}
	}
}
