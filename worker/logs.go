package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/statemachine"
)

// items reads the first to items of a log: sealed chunks backwards from the
// head, then the tail.
func (w *Worker) items(ctx context.Context, run, log string, ref statemachine.LogRef, to int) ([]json.RawMessage, error) {
	all := make([]json.RawMessage, ref.Count)
	for hash, upto := ref.Head, ref.Sealed; hash != ""; {
		b, err := w.ports.Blobs.Get(ctx, run, hash)
		if err != nil {
			return nil, fmt.Errorf("chunk of log %s: %w", log, err)
		}
		var c statemachine.Chunk
		if err := json.Unmarshal(b, &c); err != nil {
			return nil, fmt.Errorf("chunk %s of log %s: %w", hash, log, err)
		}
		if c.First < 0 || c.First+len(c.Items) != upto {
			return nil, fmt.Errorf("chunk %s of log %s ends at %d, not at %d", hash, log, c.First+len(c.Items), upto)
		}
		copy(all[c.First:], c.Items)
		hash, upto = c.Prev, c.First
	}
	tail, err := w.tail(ctx, run, log, ref)
	if err != nil {
		return nil, err
	}
	copy(all[ref.Sealed:], tail)
	all = all[:to]
	for i, v := range all {
		if b, ok := statemachine.AsBlobRef(v); ok {
			if all[i], err = w.ports.Blobs.Get(ctx, run, b.Hash); err != nil {
				return nil, fmt.Errorf("item %d of log %s: %w", i, log, err)
			}
		}
	}
	return all, nil
}

// tail reads the unsealed items of a log, from Redis if it has them all, else
// from the records that added them.
func (w *Worker) tail(ctx context.Context, run, log string, ref statemachine.LogRef) ([]json.RawMessage, error) {
	n := ref.Count - ref.Sealed
	if n == 0 {
		return nil, nil
	}
	out := make([]json.RawMessage, 0, n)
	if items, ok, err := w.ports.Shadow.Tail(ctx, run, log, ref.Sealed, ref.Count); err == nil && ok && len(items) == n {
		for _, it := range items {
			out = append(out, it)
		}
		return out, nil
	}
	after := ref.After
	for r, err := range w.ports.Log.Read(ctx, run, after) {
		if err == nil && r.Prev != after {
			err = fmt.Errorf("log %s of run %q: records that hold items were removed, since they lie in a chunk", log, run)
		}
		if err != nil {
			return nil, err
		}
		after = r.Seq
		for _, it := range r.Adds[log] {
			if out = append(out, it); len(out) == n {
				return out, nil
			}
		}
	}
	return nil, fmt.Errorf("log %s of run %q: %d of %d items found", log, run, len(out), n)
}

// seal stores the tails of long logs as chunks, so that the next record's
// reference to them stays short and reading them stays quick.
func (l *lane) seal(ctx context.Context, slots []*slot) {
	for _, s := range slots {
		if s.state == nil || s.state.Status.Ended() {
			continue
		}
		for name, ref := range s.state.Logs {
			if !s.state.NeedsSeal(name) || s.sealed != nil {
				continue
			}
			if err := l.sealLog(ctx, s, name, ref); err != nil {
				// The log stays unsealed for now; that costs time, not truth.
				l.log.Warn("could not seal a log", logkey.Run, s.run, logkey.Error, err)
			}
		}
	}
}

func (l *lane) sealLog(ctx context.Context, s *slot, name string, ref statemachine.LogRef) error {
	var items []json.RawMessage
	var err error
	l.beatWhile(ctx, func() { items, err = l.w.tail(ctx, s.run, name, ref) })
	if err != nil {
		return err
	}
	b, err := json.Marshal(statemachine.Chunk{Prev: ref.Head, First: ref.Sealed, Items: items})
	if err != nil {
		return err
	}
	hash := statemachine.BlobHash(b)
	l.beatWhile(ctx, func() { err = l.w.ports.Blobs.Put(ctx, s.run, map[string][]byte{hash: b}) })
	if err != nil {
		return err
	}
	s.sealed = &sealing{log: name, first: ref.Sealed, head: hash, count: ref.Count}
	return nil
}

// fits reports whether a stored chunk still continues the log of a state:
// somebody else may have sealed meanwhile.
func (s *sealing) fits(r *statemachine.Stored) bool {
	ref, ok := r.Logs[s.log]
	return ok && ref.Sealed == s.first && ref.Count >= s.count
}
