package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// twin is HISTORY, BLOBS and DLQ in memory, and what fills them.
type twin struct {
	t       *testing.T
	seq     uint64
	mu      sync.Mutex // of runs: who waits looks at them while they move
	runs    map[string][]*statemachine.Stored
	blobs   map[string][]byte
	letters []deadletter.Letter
	broken  error // what reading yields
	now     time.Time
}

var began = time.Date(2026, 10, 31, 8, 0, 0, 0, time.UTC)

func newTwin(t *testing.T) *twin {
	return &twin{t: t, runs: map[string][]*statemachine.Stored{}, blobs: map[string][]byte{}, now: began}
}

// of are the records of a run.
func (w *twin) of(run string) []*statemachine.Stored {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[run]
}

func (w *twin) answers() *Answers {
	return &Answers{Log: w, Blobs: blobTwin{w}, Letters: letterTwin{w}}
}

func (w *twin) Look(_ context.Context, run string) (*statemachine.Stored, error) {
	if w.broken != nil {
		return nil, w.broken
	}
	if all := w.of(run); len(all) > 0 {
		return all[len(all)-1], nil
	}
	return nil, nil
}

func (w *twin) Read(_ context.Context, run string, after uint64) iter.Seq2[*statemachine.Stored, error] {
	return func(yield func(*statemachine.Stored, error) bool) {
		for _, r := range w.of(run) {
			if r.Seq > after && !yield(r, nil) {
				return
			}
		}
		if w.broken != nil {
			yield(nil, w.broken)
		}
	}
}

func (w *twin) Sweep(_ context.Context, partition int) iter.Seq2[*statemachine.Stored, error] {
	return func(yield func(*statemachine.Stored, error) bool) {
		for _, run := range slices.Sorted(maps.Keys(w.runs)) {
			if queue.Partition(queue.Token(run)) != partition {
				continue
			}
			all := w.of(run)
			if !yield(all[len(all)-1], nil) {
				return
			}
		}
		if partition == 7 && w.broken != nil && !yield(nil, w.broken) {
			return
		}
	}
}

func (w *twin) blob(hash string) ([]byte, error) {
	b, ok := w.blobs[hash]
	if !ok {
		return nil, errors.New("no such blob")
	}
	return b, nil
}

func (w *twin) Of(_ context.Context, kind deadletter.Kind, machine string, after uint64) iter.Seq2[deadletter.Letter, error] {
	return func(yield func(deadletter.Letter, error) bool) {
		for _, l := range w.letters {
			if l.Seq <= after || kind != "" && kind != l.Kind || machine != "" && machine != l.Machine {
				continue
			}
			if !yield(l, nil) {
				return
			}
		}
		if w.broken != nil {
			yield(deadletter.Letter{}, w.broken)
		}
	}
}

// blobTwin and letterTwin give one twin two methods of one name.
type blobTwin struct{ *twin }

func (b blobTwin) Get(_ context.Context, _, hash string) ([]byte, error) { return b.blob(hash) }

type letterTwin struct{ *twin }

func (w letterTwin) Get(_ context.Context, seq uint64) (deadletter.Letter, bool, error) {
	for _, l := range w.letters {
		if l.Seq == seq {
			return l, true, nil
		}
	}
	return deadletter.Letter{}, false, w.broken
}

func (b blobTwin) Piece(_ context.Context, _, hash string, offset int64, most int) ([]byte, int64, error) {
	v, ok := b.blobs[hash]
	if !ok {
		return nil, 0, fmt.Errorf("blob %s: %w", hash, ErrNotFound)
	}
	from := min(int(offset), len(v))
	return v[from:min(from+most, len(v))], int64(len(v)), nil
}

func (w letterTwin) OfStart(_ context.Context, machine string, message uint64) (deadletter.Letter, bool, error) {
	for _, l := range w.letters {
		if l.Kind == deadletter.KindStart && l.Machine == machine && l.SrcSeq == message {
			return l, true, nil
		}
	}
	return deadletter.Letter{}, false, w.broken
}

// counter is a machine with a log: it asks for as many steps as its input says.
type counter struct {
	N       int                               `json:"n"`
	Done    int                               `json:"done"`
	Results statemachine.Log[json.RawMessage] `json:"results"`
	Other   statemachine.Log[string]          `json:"other"`
}

const step statemachine.Effect[int, json.RawMessage] = "step"

func counting(name string) *statemachine.Definition {
	m := statemachine.New[counter](name, 1)
	m.Index("n", func(c *counter) string { return fmt.Sprint(c.N) })
	m.State("count", statemachine.Call(step, func(c *counter) int { return c.Done }, func(c *counter, v json.RawMessage) {
		c.Done++
		c.Results.Append(v)
		if c.Done == 3 {
			c.Other.Append("three")
		}
	})).Visits(10_000, "failed").When(func(c *counter) bool { return c.Done < c.N }, "count").Then("done")
	m.Succeed("done")
	m.Fail("failed", "too_many")
	return m.Definitions()[0]
}

func (w *twin) apply(d *statemachine.Definition, run string, e statemachine.Event) *statemachine.Stored {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	var last *statemachine.Stored
	if all := w.of(run); len(all) > 0 {
		last = all[len(all)-1]
	}
	fold := d.Begin(run, last, statemachine.Env{Now: w.now, Build: "b1", By: "w1", Place: func(*statemachine.Pending) statemachine.Place { return statemachine.Inline }})
	w.seal(fold, last)
	if outcome, err := fold.Apply(e); err != nil || outcome != statemachine.Applied {
		w.t.Fatalf("%s of %s: %v, %v", e.Kind, run, outcome, err)
	}
	sealed, err := fold.Seal()
	if err != nil {
		w.t.Fatal(err)
	}
	maps.Copy(w.blobs, sealed.Blobs)
	r, err := statemachine.Decode(sealed.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	w.seq += 3 // other runs' records are between
	s := &statemachine.Stored{Record: r, Seq: w.seq, Bytes: sealed.Bytes}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[run] = append(w.runs[run], s)
	return s
}

// seal moves long tails of logs into chunks, as a worker does, but sooner.
func (w *twin) seal(fold *statemachine.Fold, last *statemachine.Stored) {
	w.t.Helper()
	if last == nil {
		return
	}
	for name, ref := range last.Logs {
		if ref.Count-ref.Sealed < 4 {
			continue
		}
		var items []json.RawMessage
		for _, r := range w.of(last.Run) {
			if r.Seq > ref.After {
				items = append(items, r.Adds[name]...)
			}
		}
		b, err := json.Marshal(statemachine.Chunk{Prev: ref.Head, First: ref.Sealed, Items: items})
		if err != nil {
			w.t.Fatal(err)
		}
		hash := statemachine.BlobHash(b)
		w.blobs[hash] = b
		fold.SealLog(name, hash, ref.Count)
	}
}

// drive carries a run to its end, or for a number of steps.
func (w *twin) drive(d *statemachine.Definition, run string, n, steps int) {
	w.t.Helper()
	r := w.apply(d, run, statemachine.Event{Kind: statemachine.EventStart, Body: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
	for i := 0; i < steps && !r.Status.Ended(); i++ {
		result := json.RawMessage(fmt.Sprintf(`"result %d"`, i))
		r = w.apply(d, run, statemachine.Event{Kind: statemachine.EventResult, Effect: r.Pending[0].ID, Body: result})
	}
}
