package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/pawlrun/pawl/statemachine"
)

// unbounded is more bytes than there are.
const unbounded = math.MaxInt

// logs gathers the last n items of every log of a run, as of its record r;
// n < 0 is all of them. If they have more than so many bytes, those at the
// beginning of long logs are left out, and cut says so. Sealed items lie in chunks that link backwards, the
// others in the records since:
//
//	[0 … … … … … … … Sealed)[Sealed … … Count)
//	chunk ◀─ chunk ◀─ Head   adds of the records after After
func (a *Answers) logs(ctx context.Context, r *statemachine.Stored, n, most int) (logs map[string]Items, cut bool, err error) {
	logs = make(map[string]Items, len(r.Logs))
	if len(r.Logs) == 0 {
		return logs, false, nil
	}
	fresh, err := a.unsealed(ctx, r)
	if err != nil {
		return nil, false, err
	}
	share := most / len(r.Logs)
	for _, name := range slices.Sorted(maps.Keys(r.Logs)) {
		ref := r.Logs[name]
		if got, want := len(fresh[name]), ref.Count-ref.Sealed; got != want {
			return nil, false, fmt.Errorf("log %q of run %q: the records hold %d items since the last chunk, not %d", name, r.Run, got, want)
		}
		from := 0
		if n >= 0 {
			from = max(0, ref.Count-n)
		}
		tail := fresh[name][max(0, from-ref.Sealed):]
		sealed, err := a.sealed(ctx, r.Run, ref, from, share-size(tail))
		if err != nil {
			return nil, false, fmt.Errorf("log %q of run %q: %w", name, r.Run, err)
		}
		items := within(slices.Concat(sealed, tail), share)
		cut = cut || len(items) < ref.Count-from
		if items == nil {
			items = Items{}
		}
		logs[name] = items
	}
	return logs, cut, nil
}

// size is how many bytes items have in JSON.
func size(items Items) int {
	n := 0
	for _, it := range items {
		n += len(it) + len(",")
	}
	return n
}

// within is the last items that have at most so many bytes.
func within(items Items, most int) Items {
	i := len(items)
	for n := 0; i > 0; i-- {
		if n += len(items[i-1]) + len(","); n > most {
			break
		}
	}
	return items[i:]
}

// copied takes the items that lie in records from copies, as far as these have
// them.
func (a *Answers) copied(ctx context.Context, r *statemachine.Stored) map[string]Items {
	fresh := make(map[string]Items)
	if a.Copies == nil {
		return fresh
	}
	for name, ref := range r.Logs {
		tail, ok, err := a.Copies.Tail(ctx, r.Run, name, ref.Sealed, ref.Count)
		if err != nil {
			break // and the others will fare no better
		}
		if !ok {
			continue
		}
		for _, it := range tail {
			fresh[name] = append(fresh[name], it)
		}
	}
	return fresh
}

// unsealed collects the items that lie in records, in one reading for all
// logs; where no log can have items it leaps over the records.
func (a *Answers) unsealed(ctx context.Context, r *statemachine.Stored) (map[string]Items, error) {
	fresh := a.copied(ctx, r)
	have := slices.Collect(maps.Keys(fresh))
	// next is where items that are still missing may lie after a record: right
	// after it, or later, or nowhere.
	next := func(seq uint64) (after uint64, missing bool) {
		after = r.Seq
		for name, ref := range r.Logs {
			if len(fresh[name]) < ref.Count-ref.Sealed {
				after, missing = min(after, max(seq, ref.After)), true
			}
		}
		return after, missing
	}
	for after, missing := next(0); missing; {
		from, first := after, true
		for old, err := range a.Log.Read(ctx, r.Run, from) {
			if err == nil && first && old.Prev != from {
				err = errorf(ClassConflict, "run %s: items of its logs as of revision %d lay in records that were removed", quoted(r.Run), r.Rev)
			}
			if err != nil {
				return nil, err
			}
			if first = false; old.Seq > r.Seq {
				return fresh, nil // appended since r was read
			}
			for name, items := range old.Adds {
				if old.Seq > r.Logs[name].After && !slices.Contains(have, name) {
					fresh[name] = append(fresh[name], items...)
				}
			}
			if after, missing = next(old.Seq); !missing || after > old.Seq {
				break
			}
		}
		if after == from { // nothing was found: they are not there
			break
		}
	}
	return fresh, nil
}

// sealed returns items [from, Sealed) of a log, from its chunks. It reads no
// chunk more once it has so many bytes: the items then begin later.
func (a *Answers) sealed(ctx context.Context, run string, ref statemachine.LogRef, from, most int) (Items, error) {
	var parts []Items
	bytes := 0
	for next, head := ref.Sealed, ref.Head; next > from && bytes <= most; {
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
		part := Items(c.Items[max(0, from-c.First):])
		bytes += size(part)
		parts = append(parts, part)
		next, head = c.First, c.Prev
	}
	slices.Reverse(parts)
	return slices.Concat(parts...), nil
}
