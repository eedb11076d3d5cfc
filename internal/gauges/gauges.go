package gauges

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/logkey"
)

// Options say where snapshots come from, and how often. Both sources are
// needed.
type Options struct {
	Index  func(context.Context) (Index, error)
	Queues func(context.Context) (Queues, error)
	Every  time.Duration // between two snapshots, at least; default 15 s
	Logger *slog.Logger  // default: discards
}

const (
	// share is how many times as long as a snapshot took the pause after it
	// is: taking it costs one percent of the time, whatever it costs.
	share = 100
	// longest is the longest pause.
	longest = 10 * time.Minute
	// patience is how long a snapshot may take.
	patience = 10 * time.Second
	// kept is how many pauses a snapshot is shown that was not renewed.
	kept = 3
)

// part is one snapshot, and when it was taken.
type part[T any] struct {
	name string
	take func(context.Context) (T, error)

	mu    sync.Mutex
	value T
	at    time.Time // zero: never
	took  time.Duration
	pause time.Duration // until the next
}

// Gauges is a collector of what its last snapshots said.
type Gauges struct {
	every  time.Duration
	log    *slog.Logger
	index  part[Index]
	queues part[Queues]
	descs  descs
}

var _ prometheus.Collector = (*Gauges)(nil)

// New returns gauges that show nothing until Run has taken snapshots.
func New(o Options) *Gauges {
	if o.Every <= 0 {
		o.Every = 15 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return &Gauges{
		every: o.Every, log: o.Logger, descs: newDescs(),
		index:  part[Index]{name: "index", take: o.Index},
		queues: part[Queues]{name: "queues", take: o.Queues},
	}
}

// Run takes snapshots until ctx ends.
func (g *Gauges) Run(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() { g.index.run(ctx, g.every, g.log) })
	both.Go(func() { g.queues.run(ctx, g.every, g.log) })
	both.Wait()
	return nil
}

func (p *part[T]) run(ctx context.Context, every time.Duration, log *slog.Logger) {
	for {
		pause, err := p.renew(ctx, every)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Debug("no snapshot of the fleet", logkey.Name, p.name, logkey.Error, err)
		}
		t := time.NewTimer(pause*9/10 + rand.N(pause/5+1)) // workers that start together spread
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// renew takes a snapshot and returns how long to wait for the next.
func (p *part[T]) renew(ctx context.Context, every time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	v, err := p.take(ctx)
	took := time.Since(began)
	if err != nil {
		return every, err // waiting costs nothing
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// One that is slow once, as the first is, says more about the moment.
	slow := min(took, p.took)
	p.value, p.at, p.took, p.pause = v, began, took, min(max(every, share*slow), max(longest, every))
	return p.pause, nil
}

// shown is the last snapshot, with its age; false if there is none, or it is
// too old to be true.
func (p *part[T]) shown() (v T, age, took time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age = time.Since(p.at)
	if p.at.IsZero() || age > kept*p.pause+patience {
		return v, 0, 0, false
	}
	return p.value, age, p.took, true
}
