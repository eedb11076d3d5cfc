package worker

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// telling returns the context of a handler whose progress is passed on, and what
// to call when the handler has returned: what it told is then sent before its
// result is recorded.
func (a *attempt) telling(ctx context.Context) (context.Context, func()) {
	var mu sync.Mutex // a handler may tell from several goroutines
	n := 0
	p := &a.c.pending
	ctx = statemachine.WithProgress(ctx, func(item json.RawMessage) {
		mu.Lock()
		defer mu.Unlock()
		t := queue.Progress{Run: a.run, Effect: p.Effect, ID: p.ID, Attempt: p.Attempt, At: time.Now().UTC(), First: n, Items: []json.RawMessage{item}}
		n++
		if !a.w.ports.Progress.Tell(t) {
			a.w.metrics.unheard.Inc()
		}
	})
	return ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if n > 0 {
			a.w.ports.Progress.Flush()
		}
	}
}
