package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// sweepBatch is how many runs the sweeper mends together.
const sweepBatch = 200

// sweeper goes through the last record of every run, partition by partition:
// slowly and for ever. It is the net under everything that should have happened
// by itself. What Redis has lost it has written again at once.
func (w *Worker) sweeper(ctx context.Context) {
	for {
		w.pass = sweepPass{began: time.Now()}
		for _, p := range rand.Perm(queue.Partitions) {
			if !w.health.well(ctx) || !w.pause(ctx) {
				return
			}
			if err := w.sweepPartition(ctx, p); err != nil && ctx.Err() == nil {
				w.metrics.found.interrupted.Inc()
				w.log.Warn("swept only part of a partition", logkey.Partition, p, logkey.Error, err)
				rest(ctx, time.Second)
			}
		}
		w.metrics.passed(&w.pass)
	}
}

// sweepPass is what one pass over all partitions found, for the metrics.
type sweepPass struct {
	began     time.Time
	unflushed int
	oldest    time.Duration
}

// outboxes notes outboxes that are not known to be published.
func (p *sweepPass) outboxes(of []*statemachine.Stored) {
	p.unflushed += len(of)
	for _, r := range of {
		p.oldest = max(p.oldest, time.Since(r.Time))
	}
}

// pause waits for the next partition's turn, and looks every second whether
// Redis has lost runs. It returns false if ctx ended.
func (w *Worker) pause(ctx context.Context) bool {
	until := time.Now().Add(w.cfg.SweepEvery / queue.Partitions)
	for {
		if time.Since(w.looked) >= lookEvery {
			w.rebuild(ctx)
			w.looked = time.Now()
		}
		left := time.Until(until)
		if left <= 0 {
			return ctx.Err() == nil
		}
		if !rest(ctx, min(left, lookEvery)) {
			return false
		}
	}
}

// rest waits; false if ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *Worker) sweepPartition(ctx context.Context, partition int) error {
	var batch []*statemachine.Stored
	var errs []error
	awaited := map[Timer]bool{}
	for r, err := range w.ports.Log.Sweep(ctx, partition) {
		switch {
		case errors.Is(err, statemachine.ErrFormat):
			w.metrics.found.strange.Inc()
			w.log.Error("left a run alone: its last record cannot be read", logkey.Partition, partition, logkey.Error, err)
			continue
		case err != nil:
			return err
		case r.Tomb != nil:
			continue
		}
		await(r, awaited)
		if batch = append(batch, r); len(batch) == sweepBatch {
			errs = append(errs, w.mend(ctx, batch))
			batch = nil
		}
	}
	errs = append(errs, w.mend(ctx, batch), w.mendTimers(ctx, partition, awaited))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := w.ports.Shadow.Tidy(ctx, partition); err != nil {
		w.trouble(onRedis, err)
	}
	return nil
}

// mend brings Redis up to date, publishes outboxes that were not, issues
// messages again that are gone, and turns inline effects that nobody claims
// into queued ones. What fails for one run does not keep it from the others.
func (w *Worker) mend(ctx context.Context, batch []*statemachine.Stored) error {
	if len(batch) == 0 {
		return nil
	}
	_ = crash.Point("sweep.begun")
	if err := w.mendShadow(ctx, batch); err != nil {
		return err
	}
	batch = slices.DeleteFunc(batch, func(r *statemachine.Stored) bool {
		return time.Since(r.Time) < w.cfg.grace() // its committer's business
	})
	return errors.Join(w.mendOutboxes(ctx, batch), w.mendMessages(ctx, batch), w.mendInline(ctx, batch))
}

func (w *Worker) mendShadow(ctx context.Context, batch []*statemachine.Stored) error {
	runs := make([]string, len(batch))
	for i, r := range batch {
		runs[i] = r.Run
	}
	copies, err := w.ports.Shadow.Load(ctx, runs)
	if err != nil {
		w.trouble(onRedis, err)
		return err
	}
	var saves []Save
	for i, r := range batch {
		c := copies[i]
		if c != nil && c.Seq >= r.Seq {
			continue
		}
		if c == nil && r.Status.Ended() {
			continue // its copy has expired, as it should
		}
		saves = append(saves, Save{Stored: r, Owner: w.cfg.ID, Lease: w.cfg.lease()})
	}
	if len(saves) == 0 {
		return nil
	}
	if _, err := w.ports.Shadow.Save(ctx, saves); err != nil {
		w.trouble(onRedis, err)
		return err
	}
	w.metrics.found.copy.Add(float64(len(saves)))
	w.metrics.rebuiltInSweep.Add(float64(len(saves)))
	return nil
}

// mendOutboxes publishes what is not known to be published. A hint may be
// lost: then it is published twice, which harms nothing. Messages that pending
// work waits for are mendMessages' business: those can be looked for.
func (w *Worker) mendOutboxes(ctx context.Context, batch []*statemachine.Stored) error {
	var runs []string
	var open []*statemachine.Stored
	for _, r := range batch {
		if slices.ContainsFunc(r.Outbox, func(e statemachine.Entry) bool {
			return e.Kind != statemachine.EntryEffect && e.Kind != statemachine.EntryTimer
		}) {
			runs, open = append(runs, r.Run), append(open, r)
		}
	}
	if len(open) == 0 {
		return nil
	}
	copies, err := w.ports.Shadow.Load(ctx, runs)
	if err != nil {
		w.trouble(onRedis, err)
		copies = make([]*Copy, len(open))
	}
	var unsure []*statemachine.Stored
	for i, r := range open {
		c := copies[i]
		if c == nil && r.Status.Ended() {
			continue // its copy has expired; what it had to say was said, or its wake is still there
		}
		if c == nil || c.Flushed != r.Txid {
			unsure = append(unsure, r)
		}
	}
	if len(unsure) == 0 {
		return nil
	}
	w.metrics.found.outbox.Add(float64(len(unsure)))
	w.pass.outboxes(unsure)
	items := outbox.Items(unsure...)
	errs := w.publish(ctx, items)
	failed := map[string]bool{}
	for i, err := range errs {
		failed[items[i].Run] = failed[items[i].Run] || err != nil
		if errors.Is(err, errBoxed) {
			errs[i] = nil // that was said
		}
	}
	var hints []Hint
	for _, r := range unsure {
		if !failed[r.Run] {
			hints = append(hints, Hint{Run: r.Run, Txid: r.Txid})
		}
	}
	if len(hints) == 0 {
		return errors.Join(errs...)
	}
	if err := w.ports.Shadow.Flushed(ctx, hints); err != nil {
		w.trouble(onRedis, err)
	}
	return errors.Join(errs...)
}

// mendMessages issues again the messages that pending work waits for and that
// are no longer stored: of queued effects, and of timers.
func (w *Worker) mendMessages(ctx context.Context, batch []*statemachine.Stored) error {
	var items []outbox.Item
	for _, r := range batch {
		if !w.has(r) {
			continue // its messages may be on their way round those who lack the machine, too
		}
		entries := r.Timers()
		for i := range r.Pending {
			if p := &r.Pending[i]; p.Place == statemachine.Queued {
				entries = append(entries, statemachine.Entry{Kind: statemachine.EntryEffect, ID: p.ID, Effect: p.Effect})
			}
		}
		for _, e := range entries {
			items = append(items, outbox.Item{Run: r.Run, Machine: r.Machine, State: r.To, Seq: r.Seq, Txid: r.Txid, Entry: e})
		}
	}
	if len(items) == 0 {
		return nil
	}
	stored, err := w.ports.Mail.Stored(ctx, items)
	if err != nil {
		return err
	}
	var gone []outbox.Item
	for i, it := range items {
		if !stored[i] {
			gone = append(gone, it)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	w.metrics.found.message.Add(float64(len(gone)))
	w.log.Warn("issued lost messages again", logkey.Count, len(gone))
	return errors.Join(w.ports.Mail.Publish(ctx, gone)...)
}

// mendInline turns inline effects that nobody claims into queued ones: a
// record first, then their messages from its outbox.
func (w *Worker) mendInline(ctx context.Context, batch []*statemachine.Stored) error {
	var errs []error
	for _, r := range batch {
		var free []string
		for i := range r.Pending {
			if p := &r.Pending[i]; p.Place == statemachine.Inline {
				free = append(free, p.ID)
			}
		}
		if len(free) == 0 {
			continue
		}
		if err := w.requeue(ctx, r, free); err != nil {
			errs = append(errs, fmt.Errorf("hand effects of run %q to the fleet: %w", r.Run, err))
		}
	}
	return errors.Join(errs...)
}

// has reports whether this worker has the machine of a run.
func (w *Worker) has(r *statemachine.Stored) bool {
	def, ok := w.catalog.Definition(r.Machine, r.Version)
	return ok && def.Hash == r.Def
}

// requeue claims effects, so that nobody resumes them meanwhile, and appends
// the record that hands them to the fleet.
func (w *Worker) requeue(ctx context.Context, r *statemachine.Stored, effects []string) error {
	if !w.has(r) {
		return nil // those who have the machine sweep, too
	}
	def, _ := w.catalog.Definition(r.Machine, r.Version)
	claims := make([]Claim, len(effects))
	for i, e := range effects {
		claims[i] = w.claim(r.Run, e)
	}
	granted, err := w.ports.Claims.Claim(ctx, claims)
	if err != nil {
		w.trouble(onRedis, err)
		return nil
	}
	_ = crash.Point("sweep.claimed")
	f := def.Begin(r.Run, r, statemachine.Env{Now: time.Now().UTC(), Build: w.cfg.Build, By: w.cfg.ID})
	var mine []Claim
	for i, e := range effects {
		if !granted[i].OK {
			continue
		}
		mine = append(mine, claims[i])
		if _, err := f.Apply(statemachine.Event{ID: statemachine.QueueEventID(e), Kind: statemachine.EventQueue, Effect: e, At: time.Now().UTC()}); err != nil {
			return err
		}
	}
	if len(mine) == 0 {
		return nil
	}
	sealed, err := f.Seal()
	if err != nil {
		return errors.Join(err, w.ports.Claims.Release(ctx, mine))
	}
	a := w.ports.Log.Append(ctx, []Append{{Record: sealed.Record, Bytes: sealed.Bytes}})[0]
	if a.Err != nil || a.Last != nil { // lost: the run moves, so it is in good hands
		return errors.Join(a.Err, w.ports.Claims.Release(ctx, mine))
	}
	_ = crash.Point("sweep.appended")
	w.metrics.found.requeued.Add(float64(len(mine)))
	w.log.Info("handed inline effects to the fleet", logkey.Run, r.Run, logkey.Count, len(mine))
	rec := &sealed.Stored
	rec.Seq = a.Seq
	release := make([]string, len(mine))
	for i, c := range mine {
		release[i] = c.Effect
	}
	if _, err := w.ports.Shadow.Save(ctx, []Save{{Stored: rec, Release: release, Owner: w.cfg.ID, Lease: w.cfg.lease()}}); err != nil {
		w.trouble(onRedis, err)
	}
	if err := errors.Join(w.ports.Mail.Publish(ctx, outbox.Items(rec))...); err != nil {
		return err
	}
	return w.ports.Shadow.Flushed(ctx, []Hint{{Run: rec.Run, Txid: rec.Txid}})
}
