package natsqueue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

// TestDisarm takes schedules away: they do not fire, nothing is left of them,
// and those beside them are as they were.
func TestDisarm(t *testing.T) {
	t.Parallel()
	t.Run("batches", func(t *testing.T) {
		t.Parallel()
		opts := brisk()
		opts.Group = GroupAlways
		disarms(t, newFleet(t, natstest.One(t).Conn(), Topology{}, opts))
	})
	replicas(t, disarms)
}

func disarms(t *testing.T, f *fleet) {
	at := time.Now().Add(1500 * time.Millisecond)
	var timers []worker.Timer
	for _, run := range oddRuns {
		f.publishAll(timerItem(run, "E", 1, at, 7), timerItem(run, "E", 2, at, 8), timerItem(run, "F", 1, at, 9))
		timers = append(timers, worker.Timer{Run: run, ID: "E", Try: 1}, worker.Timer{Run: run, ID: "F", Try: 1})
	}
	timers = append(timers, worker.Timer{Run: "nobody", ID: "E", Try: 1}) // of which there is none
	for range 2 {
		for i, err := range f.q.Publisher.Disarm(t.Context(), timers) {
			if err != nil {
				t.Fatalf("disarm %+v: %v", timers[i], err)
			}
		}
	}
	for fired := 0; fired < len(oddRuns); fired++ {
		msgs, err := f.q.Source.Fetch(t.Context(), ConsumerDue, 1, 10*time.Second)
		if err != nil || len(msgs) != 1 {
			t.Fatalf("fetch: %d messages, %v, after %d fired", len(msgs), err, fired)
		}
		if m := msgs[0]; m.Fault != nil || m.ID != "E" || m.Try != 2 {
			t.Errorf("fired: %+v", m)
		}
		if err := msgs[0].Ack(); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := f.q.link.js.Stream(t.Context(), "PAWL_TIMERS")
	if err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "nothing to be left of any timer", func() bool {
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		return err == nil && info.State.Msgs == 0
	})
}

// TestArmed lists the schedules of a partition that nobody knows.
func TestArmed(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		at := time.Now().Add(time.Hour)
		for _, run := range oddRuns {
			f.publishAll(timerItem(run, "E", 1, at, 7), timerItem(run, "F", 3, at, 7))
		}
		before := time.Now().Add(time.Minute)
		armed := func(before time.Time, known func(worker.Timer) bool) []string {
			var all []string
			for p := range queue.Partitions {
				timers, err := f.q.Publisher.Armed(t.Context(), p, before, known)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range timers {
					if queue.Partition(queue.Token(r.Run)) != p {
						t.Errorf("%+v is listed in partition %d", r, p)
					}
					all = append(all, fmt.Sprint(r))
				}
			}
			slices.Sort(all)
			return all
		}
		var want []string
		for _, run := range oddRuns {
			want = append(want, fmt.Sprint(worker.Timer{Run: run, ID: "F", Try: 3}))
		}
		slices.Sort(want)
		if got := armed(before, func(r worker.Timer) bool { return r.ID == "E" && r.Try == 1 }); !slices.Equal(got, want) {
			t.Errorf("listed %q, want %q", got, want)
		}
		if got := armed(time.Now().Add(-time.Minute), func(worker.Timer) bool { return false }); len(got) != 0 {
			t.Errorf("listed what is too young: %q", got)
		}
	})
}
