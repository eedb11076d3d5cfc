package pawl_test

import (
	"fmt"
	"testing"
	"time"
)

// pulls waits until so many pulls for starts are open: workers are there.
func (f *fleet) pulls(n int) {
	f.t.Helper()
	eventually(f.t, 60*time.Second, fmt.Sprintf("%d workers", n), func() bool {
		c, err := f.js.Consumer(f.t.Context(), "PAWL_START", "start")
		return err == nil && c.CachedInfo().NumWaiting >= n
	})
}

// shared starts runs and counts the records of each worker, until none has made
// less than four fifths of its share. A machine that is busy with other things
// may favour one of them for a while, and never for long.
func (f *fleet) shared(workers int, prefix, script string) {
	f.t.Helper()
	const rounds, runs = 8, 150
	by, records := map[string]int{}, 0
	for round := range rounds {
		name := func(i int) string { return fmt.Sprintf("%s-%d-%d", prefix, round, i) }
		for i := range runs {
			f.start("kitchensink", name(i), script)
		}
		for i := range runs {
			f.ended(name(i))
			for _, r := range f.history(name(i)) {
				by[r.By]++
				records++
			}
		}
		least := records
		for _, n := range by {
			least = min(least, n)
		}
		if len(by) == workers && least*workers*5 >= records*4 {
			f.t.Logf("%s: %d runs, records by worker: %v", prefix, (round+1)*runs, by)
			return
		}
	}
	f.t.Errorf("%s: %d runs, records by worker: %v, want %d workers and at least 80 %% of a fair share for each", prefix, rounds*runs, by, workers)
}

// Workers need nothing but the two addresses: those that are there share the
// load within a fifth, of steps where they are asked and of queued ones, and so
// does one that is added.
func TestWorkersShareTheLoad(t *testing.T) {
	f := realServers(t)
	for workers := 1; workers <= 3; workers++ {
		startProcess(t, f.env)
		f.pulls(workers)
		f.shared(workers, fmt.Sprintf("inline-%d", workers), `{"steps":[{"do":"noop","repeat":3}]}`)
		f.shared(workers, fmt.Sprintf("queued-%d", workers), `{"steps":[{"do":"noop","repeat":3,"place":"queued"}]}`)
	}
}
