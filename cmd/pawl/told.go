package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// watchLines prints what is seen of a run, a line each.
type watchLines struct {
	*app
	mu      sync.Mutex
	lines   *json.Encoder
	started time.Time
	held    []queue.Progress // told after the record printed last; until live
	live    bool             // the records of the past are printed
	err     error            // of the output
	seen    uint64           // sequence of the last progress that came
	more    chan struct{}    // size 1: seen has changed
}

func newWatchLines(a *app) *watchLines {
	w := &watchLines{app: a, lines: json.NewEncoder(a.Stdout), more: make(chan struct{}, 1)}
	w.lines.SetEscapeHTML(false)
	return w
}

// now is how old a record of the present may be.
const now = 2 * time.Second

// record prints a record, after what was told before it; nil says that there is
// none at the moment.
func (w *watchLines) record(r *statemachine.Stored) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r == nil {
		w.live = true
		w.release(time.Now())
		return w.err
	}
	w.started = r.Started
	w.release(r.At)
	w.live = w.live || time.Since(r.At) < now
	return w.print(api.RevisionOf(r), progress(r.At.Sub(r.Started), r))
}

// told takes what a handler told.
func (w *watchLines) told(t queue.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, t)
	if w.live {
		w.release(time.Now())
	}
	w.seen = t.Seq
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// release prints what was told until a time; mu is held.
func (w *watchLines) release(until time.Time) {
	for len(w.held) > 0 && !w.held[0].At.After(until) {
		t := w.held[0]
		w.held = w.held[1:]
		at := t.At.Sub(w.started).Round(time.Millisecond)
		_ = w.print(map[string]any{"progress": t}, fmt.Sprintf("%8s     ·  %-30s  %s", at, cli.Clean(t.Effect), cli.Clean(words(t.Items))))
	}
}

// print prints a line; mu is held.
func (w *watchLines) print(v any, text string) error {
	switch {
	case w.err != nil:
	case w.JSON():
		w.err = w.lines.Encode(v)
	default:
		_, w.err = fmt.Fprintln(w.Stdout, text)
	}
	return w.err
}

// words are items as people read them: texts one after the other, as a model
// writes them, and other values as they are.
func words(items []json.RawMessage) string {
	var b strings.Builder
	for i, it := range items {
		var text string
		if json.Unmarshal(it, &text) == nil {
			b.WriteString(text)
			continue
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.Write(it)
	}
	return b.String()
}

// listen prints what handlers tell of the run, beside its records. Rest prints
// what was told until now, and ends it.
func (w *watchLines) listen(ctx context.Context, f *cli.Fleet, id string) (rest func()) {
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	deaf := make(chan struct{})
	listening.Go(func() {
		defer close(deaf)
		for t, err := range f.Queue.Progress.Follow(ctx, id, 0) {
			if err != nil {
				if ctx.Err() == nil {
					fmt.Fprintln(w.Stderr, "progress cannot be shown:", err)
				}
				return
			}
			w.told(t)
		}
	})
	catchUp := func() {
		within, stop := context.WithTimeout(ctx, f.Timeout)
		defer stop()
		last, err := f.Queue.Progress.Last(within, id)
		for err == nil && w.before(last) {
			select {
			case <-w.more:
			case <-deaf:
				return
			case <-within.Done():
				return
			}
		}
	}
	catchUp() // what was told before stands where it belongs among the records
	return func() {
		defer w.all()
		defer listening.Wait()
		defer cancel()
		catchUp()
	}
}

// all prints what is held.
func (w *watchLines) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release(time.Now().Add(time.Hour)) // whatever the other's clock says
}

// before reports whether what has this sequence was not printed yet.
func (w *watchLines) before(seq uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen < seq
}
