package flow

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Board is what one process knows to be held up. It may be used concurrently;
// the zero value holds nothing up. What has passed is dropped as others come.
type Board struct {
	any atomic.Bool // something may be held up: most of the time nothing is

	mu      sync.Mutex
	notices map[Subject]Notice // those that hold
	changed chan struct{}      // closed when notices change; nil: nobody waits
	prune   int                // how many notices there may be before the past is dropped
}

// Apply takes a notice. A key that is closed stays so until the later time: two
// workers that are told to wait may learn of each other in any order.
func (b *Board) Apply(n Notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apply(n)
	b.tell()
}

// Replace takes all notices there are, in place of those that were known.
func (b *Board) Replace(all []Notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notices = nil
	for _, n := range all {
		b.apply(n)
	}
	b.tell()
}

func (b *Board) apply(n Notice) {
	at, now := n.Subject(), time.Now()
	if !n.Holds(now) {
		if n.Kind != KindKey || !n.Held {
			delete(b.notices, at)
		}
		return
	}
	if have, ok := b.notices[at]; ok && n.Kind == KindKey && have.Until.After(n.Until) {
		return
	}
	if b.notices == nil {
		b.notices = map[Subject]Notice{}
	}
	if b.notices[at] = n; len(b.notices) > b.prune {
		for s, n := range b.notices {
			if !n.Holds(now) {
				delete(b.notices, s)
			}
		}
		b.prune = max(64, 2*len(b.notices))
	}
}

// tell wakes whoever waits. The caller holds mu.
func (b *Board) tell() {
	b.any.Store(len(b.notices) > 0)
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Changed is closed when something is next held up, or goes on.
func (b *Board) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// Get returns what is held up of a subject now.
func (b *Board) Get(s Subject) (Notice, bool) {
	if !b.any.Load() {
		return Notice{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.notices[s]
	return n, ok && n.Holds(time.Now())
}

// Effect reports whether an effect type is paused.
func (b *Board) Effect(effect string) (Notice, bool) {
	return b.Get(Subject{KindEffect, effect, ""})
}

// Why returns what keeps an effect from beginning: its type, the state it is
// asked in, or its key, in this order.
func (b *Board) Why(effect, key, machine, state string) (Notice, bool) {
	if !b.any.Load() {
		return Notice{}, false
	}
	for _, s := range []Subject{{KindEffect, effect, ""}, {KindState, machine, state}, {KindKey, effect, key}} {
		if n, ok := b.Get(s); ok {
			return n, true
		}
	}
	return Notice{}, false
}

// Count is how many subjects of a kind are held up now.
func (b *Board) Count(k Kind) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for s, notice := range b.notices {
		if s.Kind == k && notice.Holds(now) {
			n++
		}
	}
	return n
}

// List returns what is held up now, in order of its subjects.
func (b *Board) List() []Notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	var all []Notice
	for _, n := range b.notices {
		if n.Holds(now) {
			all = append(all, n)
		}
	}
	Sort(all)
	return all
}

// Sort brings notices into the order of their subjects.
func Sort(all []Notice) {
	slices.SortFunc(all, func(a, b Notice) int {
		x, y := a.Subject(), b.Subject()
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Under, y.Under))
	})
}
