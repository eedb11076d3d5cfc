package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Timer names a schedule: the alarm of one try of an effect, or of a wait. No
// two waits have the same, however a run goes, so what is over stays over.
type Timer struct {
	Run string
	ID  string // of the effect, or of the wait
	Try int
}

// disarmer takes away the schedules of what is waited for no more, beside the
// lanes. A schedule left behind wakes nobody up for anything: it costs the
// broker memory until it is due. So nothing waits for a disarmer, it forgets
// what it cannot do, and the sweeper finds what was left.
type disarmer struct {
	w *Worker

	mu     sync.Mutex
	next   []Timer
	closed bool
	wake   chan struct{} // size 1
}

const (
	disarmBatch = 256
	disarmMost  = 1 << 16 // that wait; more are left to the sweeper
)

func newDisarmer(w *Worker) *disarmer { return &disarmer{w: w, wake: make(chan struct{}, 1)} }

// add has schedules taken away.
func (d *disarmer) add(timers []Timer) {
	if len(timers) == 0 {
		return
	}
	d.mu.Lock()
	n := min(len(timers), disarmMost-len(d.next))
	d.next = append(d.next, timers[:n]...)
	d.mu.Unlock()
	d.w.metrics.leftArmed.Add(float64(len(timers) - n))
	signal(d.wake)
}

// run works until it is closed and nothing is left, or ctx ends.
func (d *disarmer) run(ctx context.Context) {
	for range d.wake {
		for ctx.Err() == nil {
			d.mu.Lock()
			part := slices.Clone(d.next[:min(disarmBatch, len(d.next))])
			d.next = d.next[len(part):]
			if len(d.next) == 0 {
				d.next = nil
			}
			d.mu.Unlock()
			if len(part) == 0 {
				break
			}
			_ = crash.Point("disarm.begun")
			d.w.disarm(ctx, part)
		}
		d.mu.Lock()
		over := d.closed && (len(d.next) == 0 || ctx.Err() != nil)
		d.mu.Unlock()
		if over {
			return
		}
	}
}

// close has run return; nothing may be added after it.
func (d *disarmer) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	signal(d.wake)
}

// disarm takes schedules away.
func (w *Worker) disarm(ctx context.Context, timers []Timer) {
	left := 0
	var why error
	for _, err := range w.ports.Timers.Disarm(ctx, timers) {
		if err != nil {
			left, why = left+1, err
		}
	}
	w.metrics.disarmed.Add(float64(len(timers) - left))
	w.metrics.leftArmed.Add(float64(left))
	if left > 0 && ctx.Err() == nil {
		w.log.Warn("left schedules that nothing waits for", logkey.Count, left, logkey.Error, why)
	}
}

// over are the timers of the record before that the record after does not wait
// for. That a timer fired takes its schedule away by itself.
func over(before, after *statemachine.Record) []Timer {
	var out []Timer
	for _, e := range before.Timers() {
		fired := func(v statemachine.Event) bool {
			return (v.Kind == statemachine.EventDue || v.Kind == statemachine.EventLapse) && v.Effect == e.ID && v.Try == e.Try
		}
		if !after.Armed(e.ID, e.Try) && !slices.ContainsFunc(after.Events, fired) {
			out = append(out, Timer{Run: after.Run, ID: e.ID, Try: e.Try})
		}
	}
	return out
}

// mendTimers takes away schedules of a partition that nothing waits for: their
// run moved on, and whoever moved it died, or could not. The records are those
// of the sweep; what they do not wait for the leader is asked about.
func (w *Worker) mendTimers(ctx context.Context, partition int, awaited map[Timer]bool) error {
	armed, err := w.ports.Timers.Armed(ctx, partition, time.Now().Add(-w.cfg.grace()), func(t Timer) bool { return awaited[t] })
	if err != nil || len(armed) == 0 {
		return err
	}
	var errs []error
	for part := range slices.Chunk(armed, sweepBatch) {
		looks := make([]Look, len(part))
		for i, t := range part {
			looks[i] = Look{Run: t.Run}
		}
		read, unread := w.ports.Log.Looks(ctx, looks)
		var stray []Timer
		for i, t := range part {
			switch {
			case errors.Is(unread[i], statemachine.ErrFormat):
			case unread[i] != nil:
				errs = append(errs, unread[i])
			case read[i] == nil || !read[i].Armed(t.ID, t.Try):
				stray = append(stray, t)
			}
		}
		if len(stray) > 0 {
			w.metrics.found.timer.Add(float64(len(stray)))
			w.disarm(ctx, stray)
		}
	}
	return errors.Join(errs...)
}

// await notes what a record waits for, by the token that its schedules have in
// place of the run.
func await(r *statemachine.Stored, awaited map[Timer]bool) {
	for _, e := range r.Timers() {
		awaited[Timer{Run: queue.Token(r.Run), ID: queue.Token(e.ID), Try: e.Try}] = true
	}
}
