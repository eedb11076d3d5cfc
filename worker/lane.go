package worker

import (
	"context"
	"errors"
	"log/slog"

	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// item is what wakes a lane: a message or a handler's return.
type item struct {
	run    string
	held   *held
	result *result
}

// lane drives the runs that hash to it, a batch at a time. Only its own
// goroutine touches its slots. It never waits for a handler.
type lane struct {
	w     *Worker
	in    chan item
	slots map[string]*slot
	due   map[string]*slot // those that want to be looked at again, at slot.due
	past  memory           // what was let go of and will come back for a queued effect
	saver *saver
	log   *slog.Logger
	calls sync.WaitGroup // handlers started by this lane
	next  time.Time      // when messages in hand are prolonged next
	asked int            // effects asked inline in this turn
}

func newLane(w *Worker) *lane {
	return &lane{
		w: w,
		// A lane reads its channel between two batches only; room for two
		// batches keeps the pullers busy meanwhile, and more would only age.
		in:    make(chan item, 2*w.cfg.Batch),
		slots: map[string]*slot{},
		due:   map[string]*slot{},
		saver: newSaver(w),
		log:   w.log,
	}
}

// run works until nothing is in hand after stop is closed, or ctx ends. ctx
// is the context of the lane's work: it outlives the request to stop.
func (l *lane) run(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	var saved sync.WaitGroup
	saved.Go(func() { l.saver.run(ctx) })
	defer saved.Wait()
	defer l.saver.close()
	defer l.calls.Wait() // their context has ended by then, or there are none
	for {
		if l.w.stopping() && len(l.slots) == 0 && len(l.in) == 0 {
			return
		}
		tick.Reset(l.wait())
		active := map[string]*slot{}
		select {
		case it := <-l.in:
			l.accept(it, active)
			l.drain(active)
		case <-tick.C:
		case <-stop:
			stop = nil // from now on, stopping() says so
			for run, s := range l.slots {
				active[run] = s
			}
		case <-ctx.Done():
			l.abandon()
			return
		}
		now := time.Now()
		for run, s := range l.due {
			if !s.due.After(now) {
				active[run] = s
			}
		}
		if len(active) > 0 {
			l.guarded(ctx, active)
		}
		l.beat(ctx)
	}
}

// guarded drives a batch, and keeps a fault of our own that one run brings out
// from taking the process, and with it every other run, down: the runs of the
// batch are driven one by one, and the one that panics again is set aside.
func (l *lane) guarded(ctx context.Context, active map[string]*slot) {
	if l.w.tried(func() { l.turn(ctx, active) }) {
		return
	}
	for run, s := range active {
		if l.slots[run] != s {
			continue
		}
		l.reset(s)
		if l.w.tried(func() { l.turn(ctx, map[string]*slot{run: s}) }) {
			continue
		}
		l.setAside(ctx, s)
	}
}

// reset makes the lane read the run again before anything else.
func (l *lane) reset(s *slot) {
	s.fold, s.sealed, s.again = nil, nil, false
	s.known, s.assumed, s.history = true, false, true
}

// setAside gives the messages of a run that makes a lane panic back for a
// while; one that came too often is dead-lettered.
func (l *lane) setAside(ctx context.Context, s *slot) {
	for _, h := range s.held {
		if h.begins() && h.m.Delivered >= maxTries && l.w.deadLetter(ctx, h.m, statemachine.Terminal(statemachine.ClassPanic, errors.New("workers panic on it; see their logs"))) {
			_ = h.m.Ack()
		} else {
			_ = h.m.Nak(30 * time.Second)
		}
		l.w.settled(h)
	}
	s.held, s.results = nil, nil // what runs reports to a slot anew
	l.forget(s)
}

// drain takes what else is there, up to a batch of runs.
func (l *lane) drain(active map[string]*slot) {
	for len(active) < l.w.cfg.Batch {
		select {
		case it := <-l.in:
			l.accept(it, active)
		default:
			return
		}
	}
}

func (l *lane) accept(it item, active map[string]*slot) {
	s := l.slots[it.run]
	if s == nil {
		s = &slot{run: it.run, running: map[string]*call{}}
		l.slots[it.run] = s
		if it.held != nil {
			l.past.recall(s, it.held)
		}
	}
	active[it.run] = s
	if it.result != nil {
		delete(s.running, it.result.call.pending.ID)
		if !it.result.dropped { // an interrupted one is no attempt; its claim runs out
			s.results = append(s.results, it.result)
		}
		return
	}
	if !s.take(it.held) {
		l.w.settled(it.held)
	}
	// A fresh start needs no read: "no record yet" is a copy like any other,
	// and the append refuses if it is old.
	if !s.known && it.held.m.Kind == queue.Start && it.held.m.Delivered <= 1 {
		s.known, s.assumed = true, true
	}
}

// wait is how long the lane may sleep.
func (l *lane) wait() time.Duration {
	now := time.Now()
	until := now.Add(time.Minute)
	if len(l.slots) > 0 {
		until = l.next
		if l.next.Before(now) {
			until = now.Add(l.w.cfg.beat() / 2)
		}
	}
	for _, s := range l.due {
		if s.due.Before(until) {
			until = s.due
		}
	}
	return max(until.Sub(now), 0)
}

// forget drops a slot that has nothing in hand.
func (l *lane) forget(s *slot) {
	l.past.keep(s)
	delete(l.slots, s.run)
	delete(l.due, s.run)
}

// abandon gives back at once what is still in hand at the end of a stop.
// Claims are left to run out: letting go of one while its handler may still
// be at it would open the window they close.
func (l *lane) abandon() {
	n := 0
	for _, s := range l.slots {
		for _, h := range s.held {
			_ = h.m.Nak(0)
			n++
		}
	}
	for {
		select {
		case it := <-l.in:
			if it.held != nil {
				_ = it.held.m.Nak(0)
				n++
			}
			continue
		default:
		}
		break
	}
	if n > 0 {
		l.log.Info("gave back messages", logkey.Count, n)
	}
}
