package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/statemachine"
)

// Names of the dependencies, as /readyz shows them.
const (
	onNATS  = "nats"
	onRedis = "redis"
)

// health is whether the worker's dependencies do what they are asked. While
// one does not, nothing new is pulled and the worker is not ready; what is in
// hand is kept or given back, and no attempt is spent.
//
//	well ─▶ away (pulls nothing) ─▶ on trial (pulls, not ready) ─▶ well
//	          ▲        a read is answered │        a write succeeds, or
//	          └───────────────────────────┘        nothing fails for a while
//	             something fails: the next wait is longer
//
// A store that answers reads may still refuse writes: only work shows it.
type health struct {
	mu     sync.Mutex
	sick   map[string]*sickness
	cond   chan struct{} // closed and replaced when sick changes
	notice func(name string, err error)
}

// sickness is what is known of a dependency that failed.
type sickness struct {
	err   error
	waits *backoff.ExponentialBackOff
	trial time.Time // when it was put on trial; zero: it is away
}

// trialTime is how long nothing must fail before a dependency that nobody
// needed meanwhile is taken to be well.
const trialTime = 2 * time.Second

func newHealth(notice func(string, error)) *health {
	return &health{sick: map[string]*sickness{}, cond: make(chan struct{}), notice: notice}
}

// changed wakes whoever waits. The caller holds mu.
func (h *health) changed() {
	close(h.cond)
	h.cond = make(chan struct{})
}

// fail notes that a dependency did not do what it was asked; news says whether
// it was well before.
func (h *health) fail(name string, err error) (news bool) {
	h.mu.Lock()
	s := h.sick[name]
	news = s == nil
	if news {
		s = &sickness{waits: Retry{Initial: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Max: 3 * time.Second}.series()}
		h.sick[name] = s
	}
	s.err, s.trial = err, time.Time{}
	h.changed()
	h.mu.Unlock()
	h.notice(name, err)
	return news
}

// try puts a dependency on trial.
func (h *health) try(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sick[name]; s != nil {
		s.trial = time.Now()
		h.changed()
	}
}

// worked notes that a dependency did what it was asked; news says whether it
// was sick before.
func (h *health) worked(name string) (news bool) {
	h.mu.Lock()
	if news = h.sick[name] != nil; news {
		delete(h.sick, name)
		h.changed()
	}
	h.mu.Unlock()
	if news {
		h.notice(name, nil)
	}
	return news
}

// away reports whether a dependency is away.
func (h *health) away() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sick {
		if s.trial.IsZero() {
			return true
		}
	}
	return false
}

// well waits until no dependency is away; false if ctx ended first.
func (h *health) well(ctx context.Context) bool {
	for {
		h.mu.Lock()
		c := h.cond
		h.mu.Unlock()
		if !h.away() {
			return ctx.Err() == nil
		}
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
}

// next returns the dependency that needs attention first, and when: one that
// is away is to be asked, one on trial to be taken for well. It is "" if none.
func (h *health) next() (name string, in time.Duration, trial bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, s := range h.sick {
		d, t := time.Duration(0), !s.trial.IsZero()
		if t {
			d = trialTime - time.Since(s.trial)
		} else {
			d = s.waits.NextBackOff()
		}
		if name == "" || d < in {
			name, in, trial = n, d, t
		}
	}
	return name, in, trial, h.cond
}

// trouble reports that a store did not do what it was asked.
func (w *Worker) trouble(name string, err error) {
	if err == nil || w.work.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, statemachine.ErrFormat) {
		return
	}
	w.metrics.troubles[name].Inc()
	if w.health.fail(name, err) {
		w.log.Warn("dependency failed", logkey.Dependency, name, logkey.Error, err)
	}
}

// fine reports that a store took a write.
func (w *Worker) fine(name string) {
	if w.health.worked(name) {
		w.log.Info("dependency is back", logkey.Dependency, name)
	}
}

// heal asks dependencies that are away until they answer, and then lets work
// show whether they are well.
func (w *Worker) heal(ctx context.Context) {
	for {
		name, in, trial, changed := w.health.next()
		if name == "" {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		if trial {
			t := time.NewTimer(max(in, 0))
			select {
			case <-t.C:
				w.fine(name)
			case <-changed:
				t.Stop()
			case <-ctx.Done():
				t.Stop()
				return
			}
			continue
		}
		if !rest(ctx, in) {
			return
		}
		if w.answers(ctx, name) {
			w.health.try(name)
		}
	}
}

// answers reports whether a dependency answers.
func (w *Worker) answers(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.AckWait/2)
	defer cancel()
	if name == onRedis {
		claim := Claim{Run: "health", Effect: "health", Owner: w.cfg.ID, Lease: time.Second}
		_, err := w.ports.Claims.Claim(ctx, []Claim{claim}) // a write: a full Redis answers reads
		return err == nil
	}
	_, err := w.ports.Log.Look(ctx, "health")
	return err == nil
}
