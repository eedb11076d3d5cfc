package pawl_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// timers are the subjects of all schedules there are.
func (v *vigils) timers() []string {
	v.t.Helper()
	stream, err := v.js.Stream(v.t.Context(), "PAWL_TIMERS")
	if err != nil {
		v.t.Fatal(err)
	}
	info, err := stream.Info(v.t.Context(), jetstream.WithSubjectFilter("pawl.timer.>"))
	if err != nil {
		v.t.Fatal(err)
	}
	var all []string
	for s := range info.State.Subjects {
		all = append(all, s)
	}
	return all
}

// TestSchedulesGoWithTheirWaits ends waits before their time: of their state, of
// their run, and by a cancel. Their schedules are gone long before they are due.
func TestSchedulesGoWithTheirWaits(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	v.work(v.catalog())
	const n = 20
	for i := range n {
		v.start("vigil", fmt.Sprint("v", i), `{"nap":"0s","wait":"24h"}`)
		v.signal(fmt.Sprint("v", i), "s", `"hello"`)
	}
	for i := range n {
		v.ended(fmt.Sprint("v", i))
	}
	v.start("vigil", "asleep", `{"nap":"48h","wait":"1ms"}`)
	v.start("vigil", "stays", `{"nap":"48h","wait":"1ms"}`)
	for _, run := range []string{"asleep", "stays"} {
		v.reaches(run, func(r *statemachine.Stored) bool { return r.To == "sleep" })
	}
	v.command(statemachine.EventCancel, "asleep", "c", statemachine.Command{Reason: "no more"})
	v.ended("asleep")
	v.once(n)
	of := func(run string) string {
		token := queue.Token(run)
		return fmt.Sprintf("pawl.timer.%d.%s.", queue.Partition(token), token)
	}
	natstest.Await(t, "the schedules of one run to be left", func() bool {
		all := v.timers()
		return len(all) == 2 && strings.HasPrefix(all[0], of("stays")) && strings.HasPrefix(all[1], of("stays"))
	})
}

// TestTheSweeperDisarms leaves schedules behind, as who dies after a record
// does: of a run that ended, of a try before, and of a run that is gone. The
// sweeper takes them away, and no other.
func TestTheSweeperDisarms(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	stop := v.work(v.catalog())
	v.start("vigil", "over", `{"nap":"0s","wait":"1ms"}`)
	v.ended("over")
	v.start("vigil", "asleep", `{"nap":"48h","wait":"1ms"}`)
	v.reaches("asleep", func(r *statemachine.Stored) bool { return r.To == "sleep" })
	natstest.Await(t, "the sleeper's two schedules", func() bool { return len(v.timers()) == 2 })
	stop()
	at := time.Now().Add(720 * time.Hour)
	for _, run := range []string{"over", "asleep", "gone"} {
		token := queue.Token(run)
		part := fmt.Sprintf("%d.%s.AAAAAAAAAAAAAAAAAAAAAA.1", queue.Partition(token), token)
		body, err := json.Marshal(map[string]any{"run": run, "effect": "AAAAAAAAAAAAAAAAAAAAAA", "type": "timer", "try": 1, "asked": 1})
		if err != nil {
			t.Fatal(err)
		}
		m := &nats.Msg{Subject: "pawl.timer." + part, Data: body, Header: nats.Header{
			"Nats-Schedule": {"@at " + at.UTC().Format(time.RFC3339Nano)}, "Nats-Schedule-Target": {"pawl.due." + part},
		}}
		if _, err := v.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if got := v.timers(); len(got) != 5 {
		t.Fatalf("there are %d schedules, want 5: %q", len(got), got)
	}
	v.work(v.catalog(), func(c *pawl.Config) { c.Worker.SweepEvery = 2 * time.Second })
	natstest.Await(t, "the schedules that nobody waits for to go", func() bool { return len(v.timers()) == 2 })
	if r := v.becomes("asleep", v.asked, explain.Sleeping); r.Message == nil || r.Message.Place != explain.Scheduled {
		t.Errorf("explained as %+v", r)
	}
}
