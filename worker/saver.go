package worker

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/crash"
)

// saver writes a lane's records to Redis, beside the lane, and does what may
// only follow: hints and acks. While one batch is under way, and for a rest
// after it, the next one gathers, in which a newer record of a run takes the
// place of an older one: the busier Redis is, the less it is asked, and the
// lane does not wait for it unless it is far ahead.
type saver struct {
	w *Worker

	mu     sync.Mutex
	next   *batch // gathers; nil if there is nothing to do
	under  *batch // under way, or nil
	closed bool
	wake   chan struct{} // size 1
	hurry  chan struct{} // size 1: somebody waits for what gathers
}

// A saver rests for restFactor times as long as its last write took: so it has
// a tenth of the time of a Redis that is its own, and little more of a busy one.
// It rests for AckWait/restMost at most, far below G, when claims are due.
const (
	restFactor = 9
	restMost   = 20
)

// batch is what one round trip to Redis writes.
type batch struct {
	saves []Save
	of    map[string]int // where the save of a run is
	hints []Hint
	acks  []*held
	done  chan struct{} // closed when it was written, or could not be
}

func newSaver(w *Worker) *saver {
	return &saver{w: w, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
}

// add changes the batch that gathers.
func (s *saver) add(change func(*batch)) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &batch{of: map[string]int{}, done: make(chan struct{})}
	}
	change(s.next)
	s.mu.Unlock()
	signal(s.wake)
}

// signal fills a channel of size 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put adds a save. It takes the place of the run's save before, but brings that
// one's claims, releases and items of logs.
func (b *batch) put(v Save) {
	i, ok := b.of[v.Stored.Run]
	if !ok {
		b.of[v.Stored.Run] = len(b.saves)
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
	v.Earlier = before.Earlier
	for log, items := range before.Stored.Adds {
		if v.Earlier == nil {
			v.Earlier = map[string][]json.RawMessage{}
		}
		v.Earlier[log] = append(v.Earlier[log], items...)
	}
	b.saves[i] = v
}

// has reports whether something of one of the runs is to be written.
func (b *batch) has(runs []string) bool {
	if b == nil {
		return false
	}
	return slices.ContainsFunc(runs, func(run string) bool {
		_, ok := b.of[run]
		return ok
	})
}

// moves reports whether a claim, or its release, is to be written.
func (b *batch) moves(c Claim) bool {
	if b == nil {
		return false
	}
	i, ok := b.of[c.Run]
	return ok && (slices.Contains(b.saves[i].Claim, c.Effect) || slices.Contains(b.saves[i].Release, c.Effect))
}

// wait waits until nothing of these runs is on its way to Redis.
func (s *saver) wait(runs []string) {
	s.mu.Lock()
	var done chan struct{}
	switch {
	case s.next.has(runs):
		done = s.next.done
		signal(s.hurry)
	case s.under.has(runs):
		done = s.under.done
	}
	s.mu.Unlock()
	if done != nil {
		<-done
	}
}

// settled waits until none of these claims, nor the release of one, is on its
// way to Redis. Other claims of their runs are no matter.
func (s *saver) settled(claims []Claim) {
	runs := make([]string, 0, len(claims))
	s.mu.Lock()
	for _, c := range claims {
		if s.next.moves(c) || s.under.moves(c) {
			runs = append(runs, c.Run)
		}
	}
	s.mu.Unlock()
	if len(runs) > 0 {
		s.wait(runs)
	}
}

// full returns the batch that gathers if it has more than a lane may be ahead.
func (s *saver) full() *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.next; n != nil && max(len(n.saves), len(n.hints), len(n.acks)) > 16*s.w.cfg.Batch {
		return n
	}
	return nil
}

// room waits until there is room for more.
func (s *saver) room() {
	for b := s.full(); b != nil; b = s.full() {
		signal(s.hurry)
		<-b.done
	}
}

// run writes batches until it is closed and nothing is left.
func (s *saver) run(ctx context.Context) {
	for range s.wake {
		for s.begin() {
			began := time.Now()
			s.w.tried(func() { s.write(ctx, s.under) })
			took := time.Since(began)
			if len(s.under.acks) > 0 {
				_ = crash.Point("ack.begun")
			}
			for _, h := range s.under.acks {
				s.w.ack(h)
			}
			if len(s.under.acks) > 0 {
				_ = crash.Point("ack.sent")
			}
			s.mu.Lock()
			close(s.under.done)
			s.under = nil
			s.mu.Unlock()
			s.rest(took)
		}
		s.mu.Lock()
		over := s.closed && s.next == nil
		s.mu.Unlock()
		if over {
			return
		}
	}
}

// rest leaves Redis alone after a write that took so long, unless somebody waits
// for the next one.
func (s *saver) rest(took time.Duration) {
	t := time.NewTimer(min(restFactor*took, s.w.cfg.AckWait/restMost))
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.hurry:
	}
}

// close has run return when nothing is left; nothing may be added after it.
func (s *saver) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	signal(s.wake)
	signal(s.hurry)
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
	_ = crash.Point("save.begun")
	if len(b.saves) > 0 {
		answers, err := s.w.ports.Shadow.Save(ctx, b.saves)
		if err != nil {
			s.w.trouble(onRedis, err)
		} else {
			s.w.fine(onRedis)
			s.count(answers)
		}
	}
	_ = crash.Point("save.written")
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
