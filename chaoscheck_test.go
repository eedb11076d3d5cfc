package pawl_test

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/redisstore"
	"github.com/pawlrun/pawl/statemachine"
)

// heal waits until every run has ended.
func (c *chaos) heal() {
	c.t.Helper()
	at := time.Now()
	for _, p := range c.plans {
		if left := chaosHealth - time.Since(at); left <= 0 || !waits(left, func() bool { r := c.look(p.id); return r != nil && r.Status.Ended() }) {
			c.figures.Stuck++
			c.t.Errorf("run %s is stuck: %s", p.id, describe(c.look(p.id)))
		}
	}
	c.figures.Healed = time.Since(at).Seconds()
}

// look is a run's last record, nil if nobody knows for now.
func (c *chaos) look(run string) *statemachine.Stored {
	r, err := c.queue.Log.Look(c.t.Context(), run)
	if err != nil {
		return nil
	}
	return r
}

// check compares what happened with what should have.
func (c *chaos) check() {
	c.t.Helper()
	f := &c.figures
	f.Runs, f.Unknown = len(c.plans), c.unknown
	var late []time.Duration
	catalog := catalog(c.t, c.t.TempDir())
	all := c.lastOf(c.t.Context()) // also children
	for run, last := range all {
		f.Ended[string(last.Status)]++
		var prev *statemachine.Stored
		for _, r := range c.history(run) { // is one chain
			f.Records++
			f.Events += len(r.Events)
			def, ok := catalog.Definition(r.Machine, r.Version)
			if !ok {
				c.t.Fatalf("run %s is of machine %s version %d", run, r.Machine, r.Version)
			}
			err := def.Refold(prev, r.Record, func(hash string) ([]byte, error) { return c.queue.Blobs.Get(c.t.Context(), run, hash) })
			if err != nil {
				f.Forks++
				c.t.Errorf("run %s, revision %d cannot be folded again: %v", run, r.Rev, err)
			}
			if prev != nil && prev.Status.Ended() {
				f.Forks++
				c.t.Errorf("run %s goes on at revision %d, after its end", run, r.Rev)
			}
			late = append(late, c.timers(prev, r)...)
			prev = r
		}
	}
	slices.Sort(late)
	if f.Timers = len(late); f.Timers > 0 {
		f.LateP50, f.LateP99 = late[len(late)/2].Seconds()*1000, late[len(late)*99/100].Seconds()*1000
	}
	c.performed(all)
	for _, l := range c.letters(0) {
		if l.Class != "run_ended" { // what a producer sent again, and came too late
			c.t.Errorf("a letter: %+v", l)
		}
	}
	c.idle()
	ends := c.ends()
	for _, n := range ends {
		f.Again += n - 1 // as after any crash that a deduplication window does not cover
	}
	if *chaosFor == 0 && f.Again > 0 {
		c.t.Errorf("%d ends were told again", f.Again)
	}
	if len(ends) != len(all) {
		c.t.Errorf("%d ends were told, want %d", len(ends), len(all))
	}
	c.shadow(all)
	if f.Lost+f.Duplicates+f.Forks+f.Stuck+f.Early > 0 {
		c.t.Errorf("lost %d, duplicates %d, forks %d, stuck %d, early timers %d", f.Lost, f.Duplicates, f.Forks, f.Stuck, f.Early)
	}
}

// timers are how late the times came that a record tells of, by the broker's
// clock.
func (c *chaos) timers(prev, r *statemachine.Stored) (late []time.Duration) {
	if prev == nil {
		return nil
	}
	for i := range r.Events {
		if r.Events[i].Kind != statemachine.EventDue {
			continue
		}
		for _, w := range prev.Waits {
			if w.ID != r.Events[i].Effect || w.Due == nil {
				continue
			}
			by := r.Time.Sub(*w.Due)
			if by < 0 {
				c.figures.Early++
				c.t.Errorf("run %s: a time of %s came at %s", r.Run, w.Due, r.Time)
			}
			late = append(late, by)
		}
	}
	return late
}

// performed compares the steps that were asked for with those that the sink saw.
func (c *chaos) performed(all map[string]*statemachine.Stored) {
	c.t.Helper()
	f := &c.figures
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	f.Effects, f.Repeats = len(c.sink.calls), c.sink.total-len(c.sink.calls)
	asked := map[string]bool{}
	for _, p := range c.plans {
		last := all[p.id]
		if last == nil {
			f.Lost++
			c.t.Errorf("run %s was acknowledged, and is not there", p.id)
			continue
		}
		if want := statemachine.StatusSucceeded; last.Status != want && !(p.cancelled && last.Status == statemachine.StatusCancelled) {
			f.Lost++
			c.t.Errorf("run %s: %s", p.id, describe(last))
		}
		for _, step := range p.steps {
			asked[step] = true
			switch n := len(c.sink.keys[step]); {
			case n > 1:
				f.Duplicates++
				c.t.Errorf("step %s was performed under %d keys", step, n)
			case n == 0 && last.Status == statemachine.StatusSucceeded:
				f.Lost++
				c.t.Errorf("step %s was never performed, though its run has succeeded", step)
			}
		}
	}
	for step := range c.sink.keys {
		if !asked[step] && !strings.HasPrefix(step, "null") {
			f.Duplicates++
			c.t.Errorf("step %s was performed, and nobody asked", step)
		}
	}
	// A key is called again only where a fault came between a call and its record:
	// there is at most one such call in flight in each slot of a handler.
	faults := 0
	for _, n := range f.Faults {
		faults += n
	}
	if most := faults * len(c.workers) * 32; f.Repeats > most {
		c.t.Errorf("%d calls were repeated at %d faults", f.Repeats, faults)
	}
}

// shadow waits until Redis has every run as HISTORY has it.
func (c *chaos) shadow(all map[string]*statemachine.Stored) {
	c.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: c.fleet.redis})
	c.t.Cleanup(func() { _ = client.Close() })
	incarnation, err := c.queue.Incarnation(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := redisstore.Open(c.t.Context(), client, redisstore.Options{Incarnation: incarnation})
	if err != nil {
		c.t.Fatal(err)
	}
	var runs []string
	for run := range all {
		runs = append(runs, run)
	}
	for chunk := range slices.Chunk(runs, 200) {
		eventually(c.t, time.Minute, "Redis to agree with HISTORY", func() bool {
			copies, err := s.Load(c.t.Context(), chunk)
			if err != nil {
				return false
			}
			for i, got := range copies {
				want := all[chunk[i]]
				if got == nil || got.Seq != want.Seq || string(got.Bytes) != string(want.Bytes) {
					return false
				}
			}
			return true
		})
	}
}
