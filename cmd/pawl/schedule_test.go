package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/natstest"
)

// TestSchedules makes a schedule, looks at it, has it start runs, holds it up,
// and removes it; its name is free again then.
func TestSchedules(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	do := func(args ...string) outcome {
		return pawlRun(t, append([]string{"-s", url, "schedule"}, args...)...)
	}
	ok := func(want string, args ...string) {
		t.Helper()
		if got := do(args...); got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Fatalf("pawl schedule %q = %+v, want %q", args, got, want)
		}
	}
	ok("nightly is run schedule-nightly-1\n", "create", "nightly", "kitchensink", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--input", `{"steps":[{"do":"noop"}]}`)
	listed := func() []scheduleRow {
		t.Helper()
		var rows []scheduleRow
		if got := do("ls", "-o", "json"); got.code != 0 || json.Unmarshal([]byte(got.stdout), &rows) != nil {
			t.Fatalf("pawl schedule ls = %+v", got)
		}
		return rows
	}
	natstest.Await(t, "the schedule to be listed", func() bool { return len(listed()) == 1 })
	if r := listed()[0]; r.Name != "nightly" || r.Spec.Machine != "kitchensink" || r.Next == nil || r.Next.Minute() != 30 || time.Until(*r.Next) > 26*time.Hour {
		t.Errorf("listed: %+v", r)
	}
	ok("30 2 * * * Europe/Berlin", "ls")
	ok("applied", "trigger", "nightly")
	ok("applied", "backfill", "nightly", "--from", "2026-06-01T00:00:00Z", "--to", "2026-06-03T12:00:00Z")
	natstest.Await(t, "four runs to be started", func() bool { return listed()[0].State.Started == 4 })
	if got := pawlRun(t, "-s", url, "run", "wait", "nightly@2026-06-02T00:30:00Z"); got.code != 0 {
		t.Errorf("pawl run wait = %+v", got)
	}
	ok("4 started, 0 skipped", "show", "nightly")
	ok("applied", "pause", "nightly", "--reason", "the printer is being moved")
	if r := listed()[0]; r.Status != "paused" || r.Next != nil {
		t.Errorf("paused: %+v", r)
	}
	ok("applied", "resume", "nightly")
	for args, want := range map[string]string{
		"create nightly kitchensink --every 1h":                                  "schedule nightly exists, as run schedule-nightly-1",
		"create b kitchensink --cron 0_0_30_2_*":                                 "never comes",
		"create b kitchensink --cron 0_0_1_1_* --zone Mars/Olympus":              "is not known",
		"create b kitchensink":                                                   "one of cron and every",
		"create b kitchensink --every -5s":                                       "every is -5s",
		"create B kitchensink --every 5s":                                        "no name of a schedule",
		"show nosuch":                                                            "there is no schedule nosuch",
		"backfill nightly --from yesterday --to now":                             "--from is \"yesterday\"",
		"backfill nightly --from 2026-06-01T01:00:00Z --to 2026-06-01T02:00:00Z": "has no time",
		"backfill nightly --from 2020-06-01T01:00:00Z --to 2026-06-01T02:00:00Z": "more than 500 times",
	} {
		var words []string
		for _, w := range strings.Fields(args) {
			words = append(words, strings.ReplaceAll(w, "_", " "))
		}
		if got := do(words...); got.code == 0 || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") > 2 {
			t.Errorf("pawl schedule %s = %+v, want %q", args, got, want)
		}
	}
	ok("applied", "rm", "nightly")
	natstest.Await(t, "the schedule to be gone", func() bool { return len(listed()) == 0 })
	ok("nightly is run schedule-nightly-2\n", "create", "nightly", "kitchensink", "--every", "1h")
}
