package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pawlrun/pawl/internal/logkey"
)

// health is whether the worker's dependencies answer. While one does not,
// nothing new is pulled and the worker is not ready; what is in hand is kept
// or given back, and no attempt is spent.
type health struct {
	mu     sync.Mutex
	away   map[string]error // by dependency
	waits  map[string]*backoff.ExponentialBackOff
	cond   chan struct{} // closed and replaced when away changes
	notice func(name string, err error)
}

func newHealth(notice func(string, error)) *health {
	return &health{away: map[string]error{}, waits: map[string]*backoff.ExponentialBackOff{}, cond: make(chan struct{}), notice: notice}
}

// changed wakes whoever waits. The caller holds mu.
func (h *health) changed() {
	close(h.cond)
	h.cond = make(chan struct{})
}

// fail notes that a dependency does not answer; first says whether that is
// news.
func (h *health) fail(name string, err error) (first bool) {
	h.mu.Lock()
	_, known := h.away[name]
	h.away[name] = err
	if h.waits[name] == nil {
		h.waits[name] = Retry{Initial: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Max: 10 * time.Second}.series()
	}
	if !known {
		h.changed()
	}
	h.mu.Unlock()
	if !known {
		h.notice(name, err)
	}
	return !known
}

// back notes that a dependency answers again.
func (h *health) back(name string) {
	h.mu.Lock()
	_, known := h.away[name]
	delete(h.away, name)
	if known {
		h.changed()
	}
	h.mu.Unlock()
	if known {
		h.notice(name, nil)
	}
}

// well waits until every dependency answers; false if ctx ended first.
func (h *health) well(ctx context.Context) bool {
	for {
		h.mu.Lock()
		n, c := len(h.away), h.cond
		h.mu.Unlock()
		if n == 0 {
			return ctx.Err() == nil
		}
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
}

// next returns a dependency that is away and how long to wait before it is
// tried; "" if none is.
func (h *health) next() (string, time.Duration, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.away {
		return name, h.waits[name].NextBackOff(), h.cond
	}
	return "", 0, h.cond
}

// trouble reports that a store did not do what it was asked.
func (w *Worker) trouble(name string, err error) {
	if err == nil || w.work.Err() != nil || errors.Is(err, context.Canceled) {
		return
	}
	if w.health.fail(name, err) {
		w.log.Warn("dependency failed", logkey.Dependency, name, logkey.Error, err)
	}
}

// probe tries the dependencies that failed until they answer.
func (w *Worker) probe(ctx context.Context) {
	for {
		name, wait, changed := w.health.next()
		if name == "" {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		limit, cancel := context.WithTimeout(ctx, w.cfg.AckWait/2)
		var err error
		if name == "redis" {
			_, err = w.ports.Shadow.Load(limit, []string{"probe"})
		} else {
			_, err = w.ports.Log.Look(limit, "probe")
		}
		cancel()
		if err == nil {
			w.log.Info("dependency is back", logkey.Dependency, name)
			w.health.back(name)
			continue
		}
		w.health.fail(name, err)
	}
}
