package api

import (
	"context"
	"sync"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// The pauses between two looks at a run that is waited for.
const (
	// A run that has rested is looked at again at once, one that moves all the
	// time less and less often.
	leastPause = time.Millisecond
	mostLeast  = 10 * time.Millisecond
	// The bell rings before the record is committed.
	rungPause = 2 * time.Millisecond
	// With a bell, looks are only for when it was missed.
	bellPause = 5 * time.Second
)

// watchers look at runs that somebody waits for: once for all who wait for the
// same run, and only when something is about to happen to it.
type watchers struct {
	answers *Answers
	fault   func(what string, p any) *Error // logs a panic

	mu   sync.Mutex
	runs map[string]*watched
	eyes sync.WaitGroup // those who look
}

func newWatchers(a *Answers, fault func(what string, p any) *Error) *watchers {
	return &watchers{answers: a, fault: fault, runs: map[string]*watched{}}
}

// watched is a run that somebody waits for.
type watched struct {
	id    string
	stop  context.CancelFunc
	bell  chan struct{} // size 1: it is rung
	users int           // who wait; watchers.mu guards it

	mu      sync.Mutex
	eager   int // who want every record, and not only the last
	looked  bool
	last    *statemachine.Stored // nil: there is no such run
	err     error                // why it cannot be read; nothing is looked at any more
	changed chan struct{}        // closed and replaced when the above changes
}

// until waits for a record of a run that satisfies done, and returns it. Done
// is called with nil while there is no run; its error ends the wait. With
// eager every record is looked at, else those by which the run ends and, later,
// what else there is. When ctx ends, the last record is returned with ctx's
// error.
func (w *watchers) until(ctx context.Context, id string, eager bool, done func(*statemachine.Stored) (bool, error)) (*statemachine.Stored, error) {
	run := w.join(id, eager)
	defer w.leave(run, eager)
	for {
		run.mu.Lock()
		looked, last, err, changed := run.looked, run.last, run.err, run.changed
		run.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if looked {
			if ok, err := done(last); ok || err != nil {
				return last, err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if !looked {
				return nil, context.Cause(ctx)
			}
			return last, context.Cause(ctx)
		}
	}
}

// join begins to watch a run, or joins those who do.
func (w *watchers) join(id string, eager bool) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	run := w.runs[id]
	if run == nil {
		ctx, cancel := context.WithCancel(context.Background())
		run = &watched{id: id, stop: cancel, bell: make(chan struct{}, 1), changed: make(chan struct{})}
		w.runs[id] = run
		w.eyes.Go(func() { w.guarded(ctx, run) }) // until the last who waits has left
	}
	run.users++
	if eager {
		run.mu.Lock()
		run.eager++
		run.mu.Unlock()
		run.ring() // what there is may be older than what this one did
	}
	return run
}

// leave ends a wait.
func (w *watchers) leave(run *watched, eager bool) {
	if eager {
		run.mu.Lock()
		run.eager--
		run.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if run.users--; run.users == 0 {
		w.drop(run)
		run.stop()
	}
}

// drop makes the next who asks for the run begin anew; mu is held.
func (w *watchers) drop(run *watched) {
	if w.runs[run.id] == run {
		delete(w.runs, run.id)
	}
}

func (r *watched) ring() {
	select {
	case r.bell <- struct{}{}:
	default:
	}
}

// guarded is look; a fault in there is told to those who wait, and harms nobody
// else.
func (w *watchers) guarded(ctx context.Context, run *watched) {
	defer func() {
		if p := recover(); p != nil {
			w.giveUp(run, w.fault("looking at run "+quoted(run.id), p))
		}
	}()
	w.look(ctx, run)
}

// giveUp tells those who wait for a run why it cannot be looked at.
func (w *watchers) giveUp(run *watched, err error) {
	w.mu.Lock()
	w.drop(run)
	w.mu.Unlock()
	run.see(nil, err)
}

// look looks at a run until nobody waits for it any more, or it has ended.
func (w *watchers) look(ctx context.Context, run *watched) {
	usual := mostPause
	if b := w.answers.Bell; b != nil {
		silence, err := b.Bell(run.id, func(status statemachine.Status) {
			run.mu.Lock()
			wanted := run.eager > 0 || status.Ended()
			run.mu.Unlock()
			if wanted {
				run.ring()
			}
		})
		if err == nil { // else it is looked at more often
			defer silence()
			usual = bellPause
		}
	}
	p := pauses{next: firstPause, least: leastPause, most: usual}
	for {
		last, err := w.answers.Log.Look(ctx, run.id)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.giveUp(run, err)
			return
		}
		if run.see(last, nil) {
			p.next = firstPause
		}
		if last != nil && last.Status.Ended() || !p.rest(ctx, run.bell) {
			return
		}
	}
}

// see notes what was found; it reports whether that is new.
func (r *watched) see(last *statemachine.Stored, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.looked && (last == nil || r.last != nil && last.Seq <= r.last.Seq) {
		return false
	}
	r.looked, r.last, r.err = true, last, err
	close(r.changed)
	r.changed = make(chan struct{})
	return true
}

// pauses are those between the looks at one run.
type pauses struct {
	next  time.Duration // unless the bell rings
	least time.Duration // even if it does
	most  time.Duration
}

// rest waits for the bell, or until the next look is due; false if ctx ended.
func (p *pauses) rest(ctx context.Context, bell <-chan struct{}) bool {
	began := time.Now()
	t := time.NewTimer(p.next)
	defer t.Stop()
	select {
	case <-t.C:
		if p.next >= mostLeast { // it has rested
			p.least = leastPause
		}
		p.next = min(2*p.next, p.most)
		return true
	case <-bell:
		p.next = rungPause
	case <-ctx.Done():
		return false
	}
	least := time.NewTimer(p.least - time.Since(began))
	defer least.Stop()
	p.least = min(2*p.least, mostLeast)
	select {
	case <-least.C:
		return true
	case <-ctx.Done():
		return false
	}
}
