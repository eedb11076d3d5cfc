package schedule_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/schedule"
	"github.com/pawlrun/pawl/statemachine"
)

func TestCheck(t *testing.T) {
	for spec, want := range map[string]string{
		`{"name":"a","machine":"m","cron":"0 9 * * 1-5","zone":"Europe/Berlin"}`:                "",
		`{"name":"a","machine":"m","cron":"@daily","overlap":"queue"}`:                          "",
		`{"name":"a","machine":"m","cron":"0 0 29 2 *","catch_up":"0s"}`:                        "",
		`{"name":"a","machine":"m","every":"90s"}`:                                              "",
		`{"name":"a","machine":"m"}`:                                                            "one of cron and every",
		`{"name":"a","machine":"m","cron":"@daily","every":"1h"}`:                               "one of cron and every",
		`{"name":"A b","machine":"","every":"1h"}`:                                              `name "A b"`,
		`{"name":"a","machine":"m","cron":"0 0 30 2 *"}`:                                        `cron "0 0 30 2 *" never comes`,
		`{"name":"a","machine":"m","cron":"61 * * * *"}`:                                        "above maximum",
		`{"name":"a","machine":"m","cron":"* * * * * *"}`:                                       "expected exactly 5 fields",
		`{"name":"a","machine":"m","cron":"CRON_TZ=Asia/Tokyo 0 0 * * *"}`:                      "given as zone",
		`{"name":"a","machine":"m","cron":"@every 5m"}`:                                         "as every",
		`{"name":"a","machine":"m","cron":"@daily","zone":"Mars/Olympus"}`:                      `zone "Mars/Olympus" is not known`,
		`{"name":"a","machine":"m","cron":"@daily","zone":"Local"}`:                             "another one on every worker",
		`{"name":"a","machine":"m","every":"1h","zone":"Europe/Berlin"}`:                        "zone is that of a cron line",
		`{"name":"a","machine":"m","every":"-1h"}`:                                              "every is -1h0m0s",
		`{"name":"a","machine":"m","every":"10ms"}`:                                             "every is 10ms",
		`{"name":"a","machine":"m","every":"99999h"}`:                                           "every is",
		`{"name":"a","machine":"m","every":"1h","catch_up":"-1s"}`:                              "catch_up is -1s",
		`{"name":"a","machine":"m","every":"1h","catch_up":"90000h"}`:                           "catch_up is",
		`{"name":"a","machine":"m","every":"1h","overlap":"both"}`:                              `overlap "both"`,
		`{"name":"a","machine":"m","every":"1h","priority":"urgent"}`:                           "priority",
		`{"name":"a","machine":"m","every":"1h","version":-1}`:                                  "version is -1",
		`{"name":"a","machine":"m","every":"1h","state":{"started":7}}`:                         "state is the schedule's own",
		`{"name":"a","machine":"m","every":"1h","input":"` + strings.Repeat("x", 60_000) + `"}`: "input has 60002 bytes",
	} {
		if want == "" {
			pawltest.Start(t, schedule.Machine(), json.RawMessage(spec))
		} else if err := pawltest.Refused(t, schedule.Machine(), json.RawMessage(spec)); !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", spec, err, want)
		}
	}
}

// A cron line is read in its zone: the hour that summer time leaves out is not
// made up for, and the one that comes twice is there twice.
func TestNextInAZone(t *testing.T) {
	for _, tt := range []struct{ line, after, want string }{
		{"30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"}, // there is no half past two on the 29th
		{"30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"30 2 * * *", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"},
		{"0 9 * * 1", "2026-06-01T07:00:00Z", "2026-06-08T07:00:00Z"},
	} {
		s := schedule.Spec{Cron: tt.line, Zone: "Europe/Berlin"}
		after, err := time.Parse(time.RFC3339, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		at, err := s.Next(after)
		if got := at.Format(time.RFC3339); err != nil || got != tt.want {
			t.Errorf("%q after %s: %s, %v; want %s", tt.line, tt.after, got, err, tt.want)
		}
	}
}

// fleet stands for the runs that a schedule starts.
type fleet struct {
	started []string
	busy    map[string]bool
	answer  schedule.Fired
}

func (f *fleet) on() pawltest.Option {
	return pawltest.On(schedule.Start, func(q schedule.Firing) (schedule.Fired, error) {
		switch {
		case q.Run == "":
			return schedule.Fired{Outcome: schedule.None}, nil
		case f.busy[q.After]:
			return schedule.Fired{Outcome: schedule.Busy}, nil
		case f.answer.Outcome != "":
			return f.answer, nil
		}
		_, at, _ := strings.Cut(q.Run, "@")
		f.started = append(f.started, at)
		return schedule.Fired{Outcome: schedule.Started}, nil
	})
}

func (f *fleet) took(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(f.started, want) {
		t.Errorf("started %q, want %q", f.started, want)
	}
	f.started = nil
}

func begun(t *testing.T, f *fleet, spec string) *pawltest.Run {
	t.Helper()
	return pawltest.Start(t, schedule.Machine(), json.RawMessage(`{"name":"s","machine":"m",`+spec+`}`),
		f.on(), pawltest.At(time.Date(2026, 1, 1, 10, 30, 0, 0, time.UTC)))
}

func state(r *pawltest.Run) schedule.State {
	var s schedule.Schedule
	r.Data(&s)
	return s.State
}

func TestEvery(t *testing.T) {
	f := &fleet{}
	r := begun(t, f, `"every":"1h"`)
	r.Advance(29 * time.Minute)
	f.took(t)
	r.Advance(time.Minute)
	f.took(t, "2026-01-01T11:00:00Z")
	r.Signal("o1", schedule.SignalName, schedule.Order{Trigger: true})
	f.took(t, r.Now().Format(time.RFC3339Nano))
	r.Advance(2 * time.Hour)
	f.took(t, "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z")
	from := time.Date(2025, 12, 31, 22, 0, 0, 0, time.UTC)
	r.Signal("o2", schedule.SignalName, schedule.Order{Backfill: &schedule.Span{From: from, To: from.Add(2 * time.Hour)}})
	f.took(t, "2025-12-31T22:00:00Z", "2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z")
	f.answer = schedule.Fired{Outcome: schedule.Refused, Error: "no such machine"}
	r.Advance(time.Hour)
	if s := state(r); s.Started != 7 || s.Failed != 1 || s.Error != "no such machine" || s.Skipped+s.Missed != 0 {
		t.Errorf("state %+v", s)
	}
}

// What is due while the run before has not ended is skipped, waits, or starts.
func TestOverlap(t *testing.T) {
	first, next := "2026-01-01T11:00:00Z", []string{"2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"}
	for overlap, want := range map[string]struct {
		during, after []string
		skipped       int
	}{
		"skip":  {nil, nil, 2},
		"queue": {nil, next[:1], 1},
		"allow": {next, nil, 0},
	} {
		f := &fleet{busy: map[string]bool{}}
		r := begun(t, f, fmt.Sprintf(`"cron":"0 * * * *","overlap":%q`, overlap))
		r.Advance(time.Hour)
		f.took(t, first)
		f.busy["s@"+first] = true
		r.Advance(2 * time.Hour)
		f.took(t, want.during...)
		delete(f.busy, "s@"+first)
		r.Advance(10 * time.Second)
		f.took(t, want.after...)
		if s := state(r); s.Skipped != want.skipped || len(s.Waiting) != 0 {
			t.Errorf("%s: %+v", overlap, s)
		}
	}
}

// What came while the schedule was held up is started if it is not too old.
func TestCatchUp(t *testing.T) {
	f := &fleet{}
	r := begun(t, f, `"every":"10m","overlap":"allow","catch_up":"25m"`)
	r.Command("p", statemachine.EventPause, statemachine.Command{By: "anna"})
	r.Advance(time.Hour) // the first is held
	f.took(t)
	r.Command("r", statemachine.EventResume, statemachine.Command{By: "anna"})
	s := state(r)
	if f.started[len(f.started)-1] != "2026-01-01T11:30:00Z" || s.Started+s.Missed != 6 || s.Missed != 3 && s.Missed != 2 {
		t.Errorf("started %q, %+v", f.started, s)
	}
}

// A schedule lives for years: it rolls, and few of its records need stay.
func TestAScheduleOfAYear(t *testing.T) {
	f := &fleet{}
	r := begun(t, f, `"every":"4h","overlap":"allow"`)
	r.Advance(365 * 24 * time.Hour)
	records := r.Records()
	last := records[len(records)-1]
	if len(f.started) != 365*6 || last.Rev < 2*365*6 || last.Epoch != int(last.Rev-1)/statemachine.MaxEpoch {
		t.Fatalf("%d started, revision %d, epoch %d", len(f.started), last.Rev, last.Epoch)
	}
	stays, first := 0, 0
	for i, rec := range records {
		for records[first].Seq <= rec.Spare() {
			first++
		}
		stays = max(stays, i+1-first)
	}
	if stays > 2*statemachine.MaxEpoch+1 {
		t.Errorf("up to %d records must stay", stays)
	}
}
