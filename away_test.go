package pawl_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/statemachine"
)

var (
	awayFor  = flag.Duration("away", 3*time.Second, "how long the servers are away in TestServersAwayUnderLoad")
	awayRuns = flag.Int("away-runs", 200, "… and under how many runs")
)

// NATS and Redis go away under load, and come back, Redis empty: no attempt is
// spent, nothing is dead-lettered, and all runs end.
func TestServersAwayUnderLoad(t *testing.T) {
	t.Parallel()
	o := embedded.Options{Dir: t.TempDir(), NATSListen: freeAddr(t), RedisListen: freeAddr(t)}
	s, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	stop := func() { s.Stop() }
	t.Cleanup(func() { stop() })
	f := join(t, s.NATSURL(), true)
	k := newSink(t, func(n int) time.Duration { return time.Duration(20+n%80) * time.Millisecond })
	startProcess(t, map[string]string{"PAWL_NATS_URL": s.NATSURL(), "PAWL_REDIS_ADDR": s.RedisAddr(), "PAWL_WORKER_INLINE_MAX": "50", "PAWL_WORKER_QUEUED_MAX": "50"})
	for i := range *awayRuns {
		f.start("kitchensink", fmt.Sprint("away-", i), killScript(k.URL, i))
	}
	calls := *awayRuns * killSteps
	eventually(t, time.Minute, "a fifth of the calls", func() bool { return sum(k.snapshot()) >= calls/5 })
	if n := sum(k.snapshot()); n > calls*4/5 {
		t.Fatalf("%d of %d calls were made before the servers went away: that is no load", n, calls)
	}
	s.Stop()
	<-time.After(*awayFor)
	if s, err = embedded.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for i := range *awayRuns {
		r := f.ended(fmt.Sprint("away-", i))
		if r.Status != statemachine.StatusSucceeded {
			t.Errorf("%s: %s", r.Run, describe(r))
		}
		for _, h := range f.history(r.Run) {
			for _, p := range h.Pending {
				if p.Attempt != 1 {
					t.Fatalf("%s spent an attempt: %s", r.Run, describe(h))
				}
			}
		}
	}
	if n := len(f.letters(0)); n != 0 {
		t.Errorf("%d letters, want none", n)
	}
	t.Logf("%d runs, servers away for %s: %d calls under %d keys", *awayRuns, *awayFor, sum(k.snapshot()), len(k.snapshot()))
}
