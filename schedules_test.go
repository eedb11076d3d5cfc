package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/schedule"
	"github.com/pawlrun/pawl/statemachine"
)

// scheduled is how a schedule stands.
func (v *vigils) scheduled(run string) schedule.Schedule {
	v.t.Helper()
	var s schedule.Schedule
	if err := json.Unmarshal(v.last(run).Data, &s); err != nil {
		v.t.Fatal(err)
	}
	return s
}

// TestASchedule starts a run each second, while workers stop in the middle and
// Redis forgets: one for each time, none before it and none left out. It is
// paused, resumed, told to start one, and cancelled.
func TestASchedule(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	catalog := func() *statemachine.Catalog { return pawl.Schedules(v.catalog()) }
	stop := v.work(catalog())
	v.start("schedule", "ticks", `{"name":"tick","every":"1s","overlap":"allow","machine":"vigil","input":{"nap":"0s","wait":"1ms"}}`)
	many := func(n int) func() bool { return func() bool { return v.scheduled("ticks").State.Started >= n } }
	v.reaches("ticks", func(*statemachine.Stored) bool { return true })
	natstest.Await(t, "two starts", many(2))
	stop()
	if err := redis.NewClient(&redis.Options{Addr: v.redis}).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	stop = v.work(catalog())
	natstest.Await(t, "five starts", many(5))
	v.command(statemachine.EventPause, "ticks", "p", statemachine.Command{By: "anna"})
	v.reaches("ticks", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusPaused })
	stop()
	v.work(catalog())
	v.command(statemachine.EventResume, "ticks", "r", statemachine.Command{By: "anna"})
	natstest.Await(t, "eight starts", many(8))
	v.command(statemachine.EventCancel, "ticks", "c", statemachine.Command{By: "anna"})
	v.ended("ticks")
	s := v.scheduled("ticks")
	if s.State.Missed+s.State.Skipped+s.State.Failed != 0 {
		t.Errorf("state %+v", s.State)
	}
	natstest.Await(t, "every run that was started to end", func() bool {
		n := 0
		for run, r := range v.lastOf(context.Background()) {
			if strings.HasPrefix(run, "tick@") && r.Status == statemachine.StatusSucceeded {
				n++
			}
		}
		return n >= s.State.Started
	})
	first := v.history("ticks")[0].At
	n := 0
	for at := first.Truncate(time.Second).Add(time.Second); n < s.State.Started; at = at.Add(time.Second) {
		n++
		run := fmt.Sprint("tick@", at.Format(time.RFC3339))
		if r := v.history(run)[0]; r.Time.Before(at) {
			t.Errorf("%s began at %s", run, r.Time)
		}
	}
}
