package bulk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

const (
	batch    = 64   // items decided on, noted in the audit record, and changed at once
	largest  = 256  // … by a job that is behind its rate
	mostSeen = 1000 // items whose outcome is looked at, at a time
	leastOf  = 20   // outcomes before a ratio says anything
)

// mostLag is how far behind its rate a job may be and still catch up.
const mostLag = 5 * time.Second

// The pauses between two looks at outcomes.
const (
	firstLook = 100 * time.Millisecond
	mostLook  = time.Second
)

// Decision is what is to become of an item.
type Decision struct {
	Do     bool
	What   string // what is done, of few: "perform email.send again"
	Reason string // if not: why, of few
}

// Outcome is how a change went.
type Outcome int

// The outcomes.
const (
	Open Outcome = iota // not decided yet
	Good
	Bad
)

// RefusedError is returned by Do for an item that cannot be changed, though
// others can.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Job is a change of many items. Its functions are called by one goroutine,
// but for Do.
type Job[T any] struct {
	Items iter.Seq2[T, error] // an error ends the job
	Name  func(T) string      // for people
	// Decide says what is to become of each item.
	Decide func(ctx context.Context, items []T) ([]Decision, error)
	// Do changes an item; when it returns nil, that is durable. It is called by
	// several goroutines. An error that is no *RefusedError ends the job.
	Do func(ctx context.Context, item T) error
	// Outcome says how it went with items that were changed; nil if that needs
	// no looking.
	Outcome func(ctx context.Context, items []T) ([]Outcome, error)
	// Note is told of items before they are changed; nil if nobody is.
	Note func(ctx context.Context, names []string) error
	Options
}

// Options say how far and how fast.
type Options struct {
	Limit     int           // change at most so many; 0: all
	Rate      float64       // a second; 0: as fast as it goes
	Canary    int           // change so many, and go on only if all of them went well
	StopRatio float64       // stop when this share of the outcomes is bad; 0: never
	Wait      time.Duration // how long outcomes are waited for
	Progress  func(Report)  // is told now and then; nil: nobody is
}

// Plan says what Run would do now.
func (j *Job[T]) Plan(ctx context.Context) (*Report, error) {
	k := &work[T]{Job: j, Report: newReport()}
	k.Planned = true
	return k.Report, k.all(ctx)
}

// Run changes what is selected. The report is that of what was done, with an
// error or without.
func (j *Job[T]) Run(ctx context.Context) (*Report, error) {
	k := &work[T]{Job: j, Report: newReport(), due: time.Now()}
	err := k.all(ctx)
	if err == nil && k.Stopped == "" {
		err = k.settle(ctx)
	}
	k.Open = len(k.seen)
	return k.Report, err
}

// work is a job under way.
type work[T any] struct {
	*Job[T]
	*Report
	due    time.Time // when the rate allows the next change
	held   []T
	seen   []T // changed, and looked at for what comes of it
	looked time.Time
}

// all reads what is selected and deals with it, a batch at a time.
func (k *work[T]) all(ctx context.Context) error {
	for item, err := range k.Items {
		if err != nil {
			return errors.Join(k.deal(ctx), err)
		}
		k.held = append(k.held, item)
		if len(k.held) < k.next() {
			continue
		}
		if err := k.deal(ctx); err != nil {
			return err
		}
		if k.Limit > 0 && k.Changed >= k.Limit || k.Stopped != "" {
			k.Rest = true
			return nil
		}
	}
	return k.deal(ctx)
}

// next is how many items are dealt with together: a canary is not mixed with
// what comes after it, a limit is not passed, and a rate is kept evenly. Behind
// it, by a slow batch or since a batch takes its time, the batches are larger.
func (k *work[T]) next() int {
	n := batch
	if k.Rate > 0 && !k.Planned {
		behind := min(time.Since(k.due), mostLag).Seconds() * k.Rate
		n = max(1, min(n, int(k.Rate/10)), int(min(behind, largest)))
	}
	if k.Limit > 0 {
		n = min(n, k.Limit-k.Changed)
	}
	if k.Canary > k.Changed {
		n = min(n, k.Canary-k.Changed)
	}
	return max(1, n)
}

// deal decides on the items in hand and changes those that may be.
func (k *work[T]) deal(ctx context.Context) error {
	items := k.held
	k.held = nil
	if len(items) == 0 || k.Stopped != "" {
		return nil
	}
	decisions, err := k.Decide(ctx, items)
	if err != nil {
		return err
	}
	var meant []T
	var whats, names []string
	for i, d := range decisions {
		k.Selected++
		if !d.Do {
			k.refused(d.Reason, k.Name(items[i]))
			continue
		}
		meant, whats, names = append(meant, items[i]), append(whats, d.What), append(names, k.Name(items[i]))
	}
	if k.Planned {
		for i := range meant {
			k.changed(whats[i], names[i])
		}
		k.tell()
		return ctx.Err()
	}
	if len(meant) == 0 {
		return ctx.Err()
	}
	if err := k.pace(ctx, len(meant)); err != nil {
		return err
	}
	if k.Note != nil {
		if err := k.Note(ctx, names); err != nil {
			return err
		}
	}
	failure := k.change(ctx, meant, whats, names)
	k.tell()
	if failure != nil {
		return failure
	}
	return k.judge(ctx)
}

// change changes the items of a batch, all at once. Each is counted, whatever becomes of
// the others.
func (k *work[T]) change(ctx context.Context, items []T, whats, names []string) error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i := range items {
		wg.Go(func() { errs[i] = k.Do(ctx, items[i]) })
	}
	wg.Wait()
	var failure error
	for i, err := range errs {
		refused, is := errors.AsType[*RefusedError](err)
		switch {
		case err == nil:
			k.changed(whats[i], names[i])
			if k.Outcome != nil && len(k.seen) < mostSeen && (k.Changed <= k.Canary || k.StopRatio > 0) {
				k.seen = append(k.seen, items[i])
			}
		case is:
			k.refused(refused.Reason, names[i])
		case failure == nil:
			failure = fmt.Errorf("%s: %w", names[i], err)
		}
	}
	return failure
}

// pace waits until the rate allows n changes. What a job is behind its rate it
// catches up with, unless it is very late.
func (k *work[T]) pace(ctx context.Context, n int) error {
	if k.Rate <= 0 {
		return ctx.Err()
	}
	if late := time.Since(k.due) - mostLag; late > 0 {
		k.due = k.due.Add(late)
	}
	err := sleep(ctx, time.Until(k.due))
	k.due = k.due.Add(time.Duration(float64(n) / k.Rate * float64(time.Second)))
	return err
}

// judge stops the job if the canary, or too many of those that are looked at,
// did not go well.
func (k *work[T]) judge(ctx context.Context) error {
	if k.Outcome == nil {
		return nil
	}
	if k.Canary > 0 && k.Changed == k.Canary {
		if err := k.settle(ctx); err != nil {
			return err
		}
		k.due = time.Now() // it waited on purpose
		if bad, open := k.Bad, len(k.seen); bad > 0 || open > 0 {
			k.Stopped = fmt.Sprintf("of the first %d, %d failed", k.Canary, bad)
			if open > 0 {
				k.Stopped += fmt.Sprintf(" and %d are undecided after %s", open, k.Wait)
			}
		}
		return nil
	}
	if k.StopRatio <= 0 || time.Since(k.looked) < mostLook {
		return nil
	}
	return k.look(ctx)
}

// look asks for the outcomes that are open.
func (k *work[T]) look(ctx context.Context) error {
	k.looked = time.Now()
	outcomes, err := k.Outcome(ctx, k.seen)
	if err != nil {
		return err
	}
	open := k.seen[:0]
	for i, o := range outcomes {
		switch o {
		case Good:
			k.Good++
		case Bad:
			k.Bad++
		default:
			open = append(open, k.seen[i])
		}
	}
	clear(k.seen[len(open):])
	k.seen = open
	if n := k.Good + k.Bad; k.StopRatio > 0 && n >= leastOf && float64(k.Bad) >= k.StopRatio*float64(n) {
		k.Stopped = fmt.Sprintf("%d of the %d whose outcome is known failed", k.Bad, n)
	}
	return nil
}

// settle waits until all outcomes that are looked at are known, or for Wait.
func (k *work[T]) settle(ctx context.Context) error {
	end := time.Now().Add(k.Wait)
	for pause := firstLook; len(k.seen) > 0; pause = min(2*pause, mostLook) {
		if err := k.look(ctx); err != nil || len(k.seen) == 0 || k.Stopped != "" || !time.Now().Before(end) {
			return err
		}
		k.tell()
		if err := sleep(ctx, min(pause, time.Until(end))); err != nil {
			return err
		}
	}
	return nil
}

func (k *work[T]) tell() {
	if k.Progress != nil {
		r := *k.Report
		r.Open = len(k.seen)
		k.Progress(r)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
