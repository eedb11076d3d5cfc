package pawl_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/statemachine"
)

// startAt publishes a start as any producer does.
func (v *vigils) startAt(run, input string, at time.Time) {
	v.t.Helper()
	m := &nats.Msg{Subject: "pawl.start.vigil", Data: []byte(input), Header: nats.Header{
		"Pawl-Run-Id": {run}, "Pawl-Start-At": {at.Format(time.RFC3339Nano)},
	}}
	if _, err := v.js.PublishMsg(v.t.Context(), m); err != nil {
		v.t.Fatal(err)
	}
}

// TestStartsThatBeginLater has runs begin at a time: each once, none before by
// the broker's clock, though workers stop and Redis forgets meanwhile. One is
// cancelled before.
func TestStartsThatBeginLater(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	stop := v.work(v.catalog())
	const n = 30
	at := time.Now().Add(4 * time.Second)
	for i := range n {
		for range 2 { // twice: it is the same start
			v.startAt(fmt.Sprint("v", i), `{"nap":"0s","wait":"1ms"}`, at)
		}
	}
	v.startAt("past", `{"nap":"0s","wait":"1ms"}`, at.Add(-time.Hour))
	v.startAt("never", `{"nap":"0s","wait":"1ms"}`, at.AddDate(1, 0, 0))
	v.startAt("v0", `{"nap":"1s","wait":"1ms"}`, at) // another input
	v.ended("past")
	waits := func(r *statemachine.Stored) bool {
		return len(r.Waits) == 1 && r.Waits[0].Kind == statemachine.WaitStart
	}
	for i := range n {
		v.reaches(fmt.Sprint("v", i), waits)
	}
	v.reaches("never", waits)
	if r := v.becomes("never", v.asked, explain.Sleeping); !strings.HasPrefix(r.Text, "it begins at ") {
		t.Errorf("explained as %+v", r)
	}
	v.command(statemachine.EventCancel, "never", "c", statemachine.Command{Reason: "no more"})
	if r := v.ended("never"); r.Status != statemachine.StatusCancelled {
		t.Errorf("cancelled: %s", describe(r))
	}
	stop()
	if err := redis.NewClient(&redis.Options{Addr: v.redis}).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	v.work(v.catalog())
	for i := range n {
		run := fmt.Sprint("v", i)
		if r := v.ended(run); r.Status != statemachine.StatusSucceeded {
			t.Errorf("%s: %s", run, describe(r))
		}
		v.neverEarly(run)
		for _, r := range v.history(run)[1:] {
			if r.Time.Before(at) {
				t.Errorf("%s moved at %s, before %s", run, r.Time, at)
			}
		}
	}
	v.once(n + 1)
	if l := v.letters(1)[0]; l.Run != "v0" || l.Class != "id_conflict" {
		t.Errorf("letter %+v", l)
	}
	natstest.Await(t, "all schedules to be gone", func() bool { return len(v.timers()) == 0 })
}
