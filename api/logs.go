package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/statemachine"
)

// logs gathers the last n items of every log of a run, as of its record r;
// n < 0 is all of them. Sealed items lie in chunks that link backwards, the
// others in the records since:
//
//	[0 … … … … … … … Sealed)[Sealed … … Count)
//	chunk ◀─ chunk ◀─ Head   adds of the records after After
func (a *Answers) logs(ctx context.Context, r *statemachine.Stored, n int) (map[string]Items, error) {
	if len(r.Logs) == 0 {
		return map[string]Items{}, nil
	}
	fresh, err := a.unsealed(ctx, r)
	if err != nil {
		return nil, err
	}
	logs := make(map[string]Items, len(r.Logs))
	for _, name := range slices.Sorted(maps.Keys(r.Logs)) {
		ref := r.Logs[name]
		if got, want := len(fresh[name]), ref.Count-ref.Sealed; got != want {
			return nil, fmt.Errorf("log %q of run %q: the records hold %d items since the last chunk, not %d", name, r.Run, got, want)
		}
		from := 0
		if n >= 0 {
			from = max(0, ref.Count-n)
		}
		sealed, err := a.sealed(ctx, r.Run, ref, from)
		if err != nil {
			return nil, fmt.Errorf("log %q of run %q: %w", name, r.Run, err)
		}
		items := slices.Concat(sealed, fresh[name][max(0, from-ref.Sealed):])
		if items == nil {
			items = Items{}
		}
		logs[name] = items
	}
	return logs, nil
}

// unsealed collects the items that lie in records, in one reading for all logs.
func (a *Answers) unsealed(ctx context.Context, r *statemachine.Stored) (map[string]Items, error) {
	fresh := make(map[string]Items)
	after, found := r.Seq, false
	for _, ref := range r.Logs {
		if ref.Count > ref.Sealed {
			after, found = min(after, ref.After), true
		}
	}
	if !found {
		return fresh, nil
	}
	for old, err := range a.Log.Read(ctx, r.Run, after) {
		if err != nil {
			return nil, err
		}
		if old.Seq > r.Seq {
			break // appended since r was read
		}
		for name, items := range old.Adds {
			if old.Seq > r.Logs[name].After {
				fresh[name] = append(fresh[name], items...)
			}
		}
		if old.Seq == r.Seq {
			break
		}
	}
	return fresh, nil
}

// sealed returns items [from, Sealed) of a log, from its chunks.
func (a *Answers) sealed(ctx context.Context, run string, ref statemachine.LogRef, from int) (Items, error) {
	var parts []Items
	for next, head := ref.Sealed, ref.Head; next > from; {
		if head == "" {
			return nil, fmt.Errorf("the chunks end at item %d", next)
		}
		if a.Blobs == nil {
			return nil, errors.New("its chunks cannot be read here")
		}
		b, err := a.Blobs.Get(ctx, run, head)
		if err != nil {
			return nil, err
		}
		var c statemachine.Chunk
		if err := json.Unmarshal(b, &c); err != nil {
			return nil, fmt.Errorf("chunk %s: %w", head, err)
		}
		if c.First < 0 || len(c.Items) == 0 || c.First+len(c.Items) != next {
			return nil, fmt.Errorf("chunk %s holds items %d to %d, and not those before %d", head, c.First, c.First+len(c.Items), next)
		}
		parts = append(parts, c.Items[max(0, from-c.First):])
		next, head = c.First, c.Prev
	}
	slices.Reverse(parts)
	return slices.Concat(parts...), nil
}
