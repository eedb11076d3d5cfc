package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/statemachine"
)

const (
	// lookEvery is how often a worker looks whether Redis has lost runs.
	lookEvery = time.Second
	// rebuildLease is how long other workers leave a partition to the one that
	// writes it again. One of 1,000 runs takes a tenth of a second.
	rebuildLease = 15 * time.Second
	// rebuilders is how many partitions are read and written at once: while
	// one waits for HISTORY, another does for Redis.
	rebuilders = 2
	// breath is between two partitions, for the runs that are under way.
	breath = 2 * time.Millisecond
)

// rebuild has every run written again of the partitions of which Redis has
// lost some, as fast as it goes: until then lists are incomplete. Workers
// divide the partitions among them.
func (w *Worker) rebuild(ctx context.Context) {
	missing, err := w.ports.Shadow.Incomplete(ctx)
	if err != nil || len(missing) == 0 {
		return // what keeps Redis from answering shows elsewhere
	}
	rand.Shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
	began, runs := time.Now(), 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range rebuilders {
		wg.Go(func() {
			for w.health.well(ctx) && rest(ctx, breath) {
				mu.Lock()
				if len(missing) == 0 {
					mu.Unlock()
					return
				}
				p := missing[0]
				missing = missing[1:]
				mu.Unlock()
				n, err := w.rebuildPartition(ctx, p)
				mu.Lock()
				runs += n
				mu.Unlock()
				if err != nil && ctx.Err() == nil {
					w.log.Warn("wrote only part of a partition to Redis", logkey.Partition, p, logkey.Error, err)
					rest(ctx, time.Second)
				}
			}
		})
	}
	wg.Wait()
	if runs > 0 {
		w.log.Info("wrote runs again that Redis had lost", logkey.Count, runs, logkey.Duration, time.Since(began))
	}
}

// rebuildPartition writes every run of a partition that belongs into Redis,
// whether it is there or not: its entry in the index may be gone alone.
func (w *Worker) rebuildPartition(ctx context.Context, partition int) (runs int, err error) {
	token, err := w.ports.Shadow.BeginRebuild(ctx, partition, rebuildLease)
	if err != nil || token == "" {
		return 0, w.shadowed(err)
	}
	_ = crash.Point("rebuild.partition")
	var saves []Save
	save := func() error {
		if len(saves) == 0 {
			return nil
		}
		if _, err := w.ports.Shadow.Save(ctx, saves); err != nil {
			return w.shadowed(err)
		}
		runs += len(saves)
		w.metrics.rebuiltInSweep.Add(float64(len(saves)))
		saves = saves[:0]
		return nil
	}
	for r, err := range w.ports.Log.Sweep(ctx, partition) {
		switch {
		case errors.Is(err, statemachine.ErrFormat):
			continue // the slow sweep says so
		case err != nil:
			return runs, err
		case r.Tomb != nil || !w.ports.Shadow.Keeps(r):
			continue
		}
		if saves = append(saves, Save{Stored: r, Owner: w.cfg.ID, Lease: w.cfg.lease()}); len(saves) == w.cfg.Batch {
			if err := save(); err != nil {
				return runs, err
			}
		}
	}
	if err := save(); err != nil {
		return runs, err
	}
	if err := w.ports.Shadow.SetComplete(ctx, partition, token); err != nil {
		return runs, w.shadowed(err)
	}
	return runs, nil
}

// shadowed notes that Redis does not do what it should.
func (w *Worker) shadowed(err error) error {
	if err == nil {
		return nil
	}
	w.trouble(onRedis, err)
	return fmt.Errorf("write to redis: %w", err)
}
