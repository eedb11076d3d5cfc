// Package archive turns runs that ended long ago into tombstones, and removes
// what runs that live long need no more, so that HISTORY does not grow for ever.
//
// A run's records are purged only after a record that stands for it, its
// tombstone, was appended as their successor: at no moment is there nothing
// under its id, so a start that comes late does not begin it anew (invariant
// I10). The tombstone itself expires 30 days after the run's end.
//
// Of a run that has rolled, the records before the epoch before its last one are
// purged up to a stream sequence that its last record names. So the last one
// stays, whatever was appended meanwhile.
package archive

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// History is what the archiver needs of HISTORY and BLOBS. Purging is a right
// that nobody else has.
type History interface {
	// Sweep yields the last record of every run of a partition.
	Sweep(ctx context.Context, partition int) iter.Seq2[*statemachine.Stored, error]
	// Bury appends the tombstone, if the record it follows is still the run's
	// last, to expire after ttl. It reports whether it is the run's last now.
	Bury(ctx context.Context, tomb *statemachine.Sealed, ttl time.Duration) (bool, error)
	// Trim removes the records of a run that its last record spares, and returns
	// how many there were.
	Trim(ctx context.Context, last *statemachine.Stored) (uint64, error)
	// Purge removes all records of a run but the last, and its blobs.
	Purge(ctx context.Context, run string) error
}

// Config says what is removed when.
type Config struct {
	After  time.Duration // after its end a run's records are purged; default 7 days
	Every  time.Duration // a pass over all runs; default 1 h
	Build  string        // goes into tombstones
	By     string        // goes into tombstones
	Logger *slog.Logger

	Registry prometheus.Registerer // of the metrics; default: a private one
}

func (c Config) withDefaults() Config {
	if c.After == 0 {
		c.After = 7 * 24 * time.Hour
	}
	if c.Every == 0 {
		c.Every = time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

// Archiver removes what has ended.
type Archiver struct {
	cfg     Config
	history History
	removed prometheus.Counter
}

// New returns an archiver.
func New(cfg Config, history History) *Archiver {
	cfg = cfg.withDefaults()
	removed := prometheus.NewCounter(prometheus.CounterOpts{Name: "pawl_archive_spared_records_total", Help: "Records removed that runs which have rolled need no more."})
	cfg.Registry.MustRegister(removed)
	return &Archiver{cfg: cfg, history: history, removed: removed}
}

// Run works until ctx ends, and returns nil. Several archivers may work at
// once: the tombstone is a conditional append, and purging twice harms nothing.
func (a *Archiver) Run(ctx context.Context) error {
	pause := time.NewTicker(max(a.cfg.Every/queue.Partitions, time.Millisecond))
	defer pause.Stop()
	for {
		for _, p := range rand.Perm(queue.Partitions) {
			select {
			case <-pause.C:
			case <-ctx.Done():
				return nil
			}
			n, err := a.Pass(ctx, p)
			if n > 0 {
				a.cfg.Logger.Info("archived runs", logkey.Count, n, logkey.Partition, p)
			}
			if err != nil && ctx.Err() == nil {
				a.cfg.Logger.Warn("archived only part of a partition", logkey.Partition, p, logkey.Error, err)
			}
		}
	}
}

// Pass goes through one partition and returns how many runs it entombed.
func (a *Archiver) Pass(ctx context.Context, partition int) (int, error) {
	n := 0
	for r, err := range a.history.Sweep(ctx, partition) {
		if errors.Is(err, statemachine.ErrFormat) {
			continue // not ours to judge
		}
		if err != nil {
			return n, err
		}
		done, err := a.retire(ctx, r)
		if err != nil {
			return n, err
		}
		if done {
			n++
			continue
		}
		removed, err := a.history.Trim(ctx, r)
		a.removed.Add(float64(removed))
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// retire entombs a run that ended long enough ago, and finishes what a crash
// left of that.
func (a *Archiver) retire(ctx context.Context, r *statemachine.Stored) (bool, error) {
	switch {
	case r.Tomb != nil && r.Rev > 1 && time.Since(r.Time) < 2*a.cfg.Every:
		return false, a.history.Purge(ctx, r.Run) // its purge may have been cut off
	case r.Tomb != nil || !r.Status.Ended() || time.Since(r.Time) < a.cfg.After:
		return false, nil
	}
	tomb, err := statemachine.Entomb(r, statemachine.Env{Now: time.Now(), Build: a.cfg.Build, By: a.cfg.By})
	if err != nil {
		return false, err
	}
	ttl := max(statemachine.TombstoneFor-time.Since(r.Time), time.Hour)
	last, err := a.history.Bury(ctx, tomb, ttl)
	if err != nil || !last {
		return false, err
	}
	return true, a.history.Purge(ctx, r.Run)
}
