package worker

import (
	"context"
	"slices"
	"sync"
)

// saver writes a lane's records to Redis, beside the lane, and does what may
// only follow: hints and acks. While one batch is under way the next one
// gathers, in which a newer record of a run takes the place of an older one:
// Redis sees as much as it can take, and the lane never waits for it.
type saver struct {
	w *Worker

	mu     sync.Mutex
	next   *batch // gathers; nil if there is nothing to do
	under  *batch // under way, or nil
	closed bool
	wake   chan struct{} // size 1
}

// batch is what one round trip to Redis writes.
type batch struct {
	saves []Save
	last  map[string]int // where the last save of a run is
	hints []Hint
	acks  []*held
	done  chan struct{} // closed when it was written, or could not be
}

func newSaver(w *Worker) *saver { return &saver{w: w, wake: make(chan struct{}, 1)} }

// add changes the batch that gathers.
func (s *saver) add(change func(*batch)) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &batch{last: map[string]int{}, done: make(chan struct{})}
	}
	change(s.next)
	s.mu.Unlock()
	s.signal()
}

func (s *saver) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// put adds a save. It takes the place of the run's save before, unless that
// brings items of logs: Redis needs them all, in their order.
func (b *batch) put(v Save) {
	i, ok := b.last[v.Stored.Run]
	if !ok || len(b.saves[i].Stored.Adds) > 0 {
		b.last[v.Stored.Run] = len(b.saves)
		b.saves = append(b.saves, v)
		return
	}
	before := b.saves[i]
	for _, id := range before.Claim {
		if !slices.Contains(v.Release, id) {
			v.Claim = append(v.Claim, id)
		}
	}
	v.Release = append(before.Release, v.Release...)
	b.saves[i] = v
}

// has reports whether something of one of the runs is to be written.
func (b *batch) has(runs []string) bool {
	if b == nil {
		return false
	}
	return slices.ContainsFunc(runs, func(run string) bool {
		_, ok := b.last[run]
		return ok
	})
}

// wait waits until nothing of these runs is on its way to Redis.
func (s *saver) wait(runs []string) {
	s.mu.Lock()
	var done chan struct{}
	switch {
	case s.next.has(runs):
		done = s.next.done
	case s.under.has(runs):
		done = s.under.done
	}
	s.mu.Unlock()
	if done != nil {
		<-done
	}
}

// run writes batches until it is closed and nothing is left.
func (s *saver) run(ctx context.Context) {
	for range s.wake {
		for s.begin() {
			s.w.tried(func() { s.write(ctx, s.under) })
			for _, h := range s.under.acks {
				s.w.ack(h)
			}
			s.mu.Lock()
			close(s.under.done)
			s.under = nil
			s.mu.Unlock()
		}
		s.mu.Lock()
		over := s.closed && s.next == nil
		s.mu.Unlock()
		if over {
			return
		}
	}
}

// close has run return when nothing is left; nothing may be added after it.
func (s *saver) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
}

// begin takes what has gathered; false if that is nothing.
func (s *saver) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under, s.next = s.next, nil
	return s.under != nil
}

// write writes what a batch asks. What Redis misses by a failure it gets with
// the next record, by a beat or by the sweeper; acks rest on HISTORY alone.
func (s *saver) write(ctx context.Context, b *batch) {
	if len(b.saves) > 0 {
		answers, err := s.w.ports.Shadow.Save(ctx, b.saves)
		if err != nil {
			s.w.trouble(onRedis, err)
		} else {
			s.w.fine(onRedis)
			s.count(answers)
		}
	}
	if len(b.hints) > 0 {
		if err := s.w.ports.Shadow.Flushed(ctx, b.hints); err != nil {
			s.w.trouble(onRedis, err) // the next one to load the run flushes again
		}
	}
}

// count notes how many claims were granted. One that was not is of a handler
// that runs here all the same: its run has moved on, or the claim is there.
func (s *saver) count(answers []Saved) {
	granted, refused := 0, 0
	for _, a := range answers {
		for _, ok := range a.Granted {
			if ok {
				granted++
			} else {
				refused++
			}
		}
	}
	s.w.metrics.claimed(granted, refused)
}
