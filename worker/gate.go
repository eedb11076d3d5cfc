package worker

import (
	"context"
	"math"
	"sync"

	"github.com/pawlrun/pawl/flow"
)

// gate bounds how much of a kind is in hand.
type gate struct {
	mu   sync.Mutex
	free int
	wake chan struct{} // size 1: a put wakes the one who takes
}

// inHand is how many effects of a limited type a worker takes at once: some to
// begin and some to go on with at once, the rest stays in its queue for others.
func inHand(l flow.Limit) int {
	most := math.MaxInt
	if l.Concurrency > 0 {
		most = 2 * l.Concurrency
	}
	if l.Rate.N > 0 {
		most = min(most, 2*l.Rate.Burst())
	}
	return max(most, 16)
}

func newGate(n int) *gate { return &gate{free: n, wake: make(chan struct{}, 1)} }

// take waits until something is free and takes up to n; 0 if ctx ended.
func (g *gate) take(ctx context.Context, n int) int {
	for {
		g.mu.Lock()
		if got := min(n, g.free); got > 0 {
			g.free -= got
			more := g.free > 0
			g.mu.Unlock()
			if more {
				g.signal() // for the next one who waits
			}
			return got
		}
		g.mu.Unlock()
		select {
		case <-g.wake:
		case <-ctx.Done():
			return 0
		}
	}
}

// try takes up to n without waiting, and at most half of what is free, so that
// who waits for messages holds no more; 0 if nothing is.
func (g *gate) try(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free <= 0 {
		return 0
	}
	n = min(n, (g.free+1)/2)
	g.free -= n
	return n
}

// put gives n back. A negative n takes more than was free: a source may hand
// over more than it was asked for, and all of that counts.
func (g *gate) put(n int) {
	g.mu.Lock()
	g.free += n
	g.mu.Unlock()
	g.signal()
}

func (g *gate) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}
