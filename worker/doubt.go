package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/statemachine"
)

// What Redis knows of tries it may forget, so what must not be forgotten of
// them is in the ledger: that one began whose effect is not simply repeated,
// what a business key stands for, and which tries end with their worker. An
// entry is claimed before the handler is called, and settled when it returned:
//
//	           ┌─ done      it has the result
//	claimed ───┼─ failed    it did nothing, another try follows
//	           ├─ unknown   it was cut off: a timeout, a panic, a stop
//	           └─ released  the effect was given up: the next may take the key
//
// A try is in doubt if its entry is unknown, or is still claimed when it must
// be over. Most effects have no entry: they have the default key, are repeated
// when in doubt, and their message comes for the first time.

// maxCrashes is how many workers may die at an effect, one after the other,
// before it is given up. One death more goes unseen where there is no entry
// before a message's second delivery.
const maxCrashes = 3

// ledgerKey is the key of the effect's entry.
func ledgerKey(p *statemachine.Pending) string {
	if p.Key != "" {
		return p.Key
	}
	return statemachine.EffectWake(p.ID) // no business key of anybody
}

// enter claims the ledger entry of an effect that needs one. Settled means
// that the handler is not to be called: there is a recorded result, or it is
// said why not.
func (a *attempt) enter() (settled bool, body []byte, err error) {
	p := &a.c.pending
	if p.Key == "" && !a.h.Policy.Asks() && !a.c.again {
		return false, nil, nil
	}
	began := time.Now()
	a.c.over.Store(math.MaxInt64) // nothing has begun that could hang
	a.c.noted = p.Key == ""
	mine := LedgerEntry{Run: a.run, Effect: p.ID, Print: p.Print, State: LedgerClaimed, Try: p.Try, By: a.w.cfg.ID, Until: a.until()}
	have, seq, err := a.claim(mine)
	switch {
	case err != nil:
		return true, nil, err
	case have.Print != p.Print && !a.decided(have): // a redrive may bring another input
		a.w.metrics.conflicts.WithLabelValues(p.Effect).Inc()
		a.w.log.Error("a key stands for something else", logkey.Run, a.run, logkey.Effect, p.Effect, logkey.Other, have.Run)
		return true, nil, statemachine.Terminal(statemachine.ClassKeyConflict, fmt.Errorf("key %q stands for something else, asked by run %q", p.Key, have.Run))
	case have.State == LedgerDone:
		return true, orNull(have.Result), nil
	case have.State == LedgerCleared:
		return true, nil, untried("it was answered")
	case a.entry == nil:
		if seq, err = a.takeOver(have, seq, mine); err != nil {
			return true, nil, err
		}
	}
	if time.Since(began) > a.w.cfg.fresh() {
		if err = a.stillAsked(); err == nil {
			a.entry.Until = a.until()
			_, err = a.replace(seq, *a.entry)
		}
		if err != nil {
			_, err = a.leave(nil, err)
			return true, nil, err
		}
	}
	return false, nil, nil
}

// until is when a try that is begun now is over at the latest.
func (a *attempt) until() time.Time { return time.Now().UTC().Add(a.limit + hungAfter) }

// decided reports whether an entry is of a try about which a person has
// decided, by redriving the effect.
func (a *attempt) decided(have LedgerEntry) bool {
	p := &a.c.pending
	return have.Run == a.run && have.Effect == p.ID && have.Try < p.Redriven
}

// claim creates the entry, or returns the one that is there. An answer that
// does not come may mean a claim that was stored, and so a doubt where there
// is none: where that matters it is asked again until there is one.
func (a *attempt) claim(mine LedgerEntry) (have LedgerEntry, seq uint64, err error) {
	key := ledgerKey(&a.c.pending)
	err = a.persist(func(ctx context.Context) (err error) {
		have, seq, err = a.w.ports.Ledger.Claim(ctx, key, mine)
		return err
	})
	if err != nil {
		return have, 0, untried("claim key %q: %w", key, err)
	}
	if have.By == mine.By && have.Try == mine.Try && have.Until.Equal(mine.Until) {
		a.entry = &mine
	}
	return have, seq, nil
}

// replace puts an entry in the place of the one with a sequence.
func (a *attempt) replace(seq uint64, next LedgerEntry) (at uint64, err error) {
	key := ledgerKey(&a.c.pending)
	err = a.persist(func(ctx context.Context) (err error) {
		at, err = a.w.ports.Ledger.Settle(ctx, key, seq, next)
		return err
	})
	switch {
	case err != nil:
		return 0, untried("take key %q: %w", key, err)
	case at == 0:
		return 0, untried("key %q is being taken by another", key)
	}
	return at, nil
}

// persist asks the ledger; again and again if nothing else may happen before
// there is an answer.
func (a *attempt) persist(ask func(context.Context) error) error {
	once := func() error {
		ctx, cancel := context.WithTimeout(a.w.handlers, a.w.cfg.AckWait)
		defer cancel()
		return ask(ctx)
	}
	if !a.h.Policy.Asks() {
		return once()
	}
	return backoff.Retry(func() error {
		err := once()
		if err != nil {
			a.w.trouble(onNATS, err)
		}
		return err
	}, backoff.WithContext(a.w.cfg.Retry.series(), a.w.handlers))
}

// takeOver replaces the entry of a try that is over, if the policy allows.
func (a *attempt) takeOver(have LedgerEntry, seq uint64, mine LedgerEntry) (uint64, error) {
	p := &a.c.pending
	own := have.Run == a.run && have.Effect == p.ID
	if !own && have.State != LedgerReleased && !a.w.deserted(have, a.limit, p.First) {
		return 0, untried("key %q is being performed by run %q", p.Key, have.Run)
	}
	decided := a.decided(have)
	died := have.State == LedgerClaimed && have.By != ""
	if own && !decided {
		mine.Crashes = have.Crashes
		if died {
			mine.Crashes++
			a.w.metrics.crashes.WithLabelValues(p.Effect).Inc()
		}
	}
	if mine.Crashes >= maxCrashes {
		return 0, statemachine.Terminal(statemachine.ClassCrash, fmt.Errorf("%d workers died while they performed it, the last was %s", mine.Crashes, have.By))
	}
	if (died || have.State == LedgerUnknown) && a.h.Policy.Asks() {
		if left := time.Until(have.Until); left > 0 { // whoever has it may be at it still
			return 0, &untriedError{statemachine.RetryAfter(left, fmt.Errorf("worker %s may be performing it", have.By))}
		}
		if a.h.Policy.InDoubt == statemachine.Verify {
			a.doubted.Store(true)
			mine.Doubt = true
		} else if !decided {
			a.w.metrics.doubts.WithLabelValues(p.Effect, doubtHalted).Inc()
			return 0, statemachine.Terminal(statemachine.ClassInDoubt, fmt.Errorf("try %d began with worker %s, and nobody knows whether it performed the effect", have.Try, have.By))
		}
	}
	if mine.Crashes >= maxCrashes-1 {
		if err := a.alone(); err != nil {
			return 0, err
		}
	}
	mine.Until = a.until()
	at, err := a.replace(seq, mine)
	if err == nil {
		a.entry = &mine
	}
	return at, err
}

// stillAsked reports that an effect is not to be called any more: it took long
// until it could be.
func (a *attempt) stillAsked() error {
	p := &a.c.pending
	r, err := a.w.ports.Log.Look(a.w.handlers, a.run)
	if err != nil {
		return untried("look at the run: %w", err)
	}
	if r != nil {
		for i := range r.Pending {
			if q := &r.Pending[i]; q.ID == p.ID && q.Try == p.Try && (q.Place == statemachine.Inline || q.Place == statemachine.Queued) {
				return nil
			}
		}
	}
	return untried("the run does not ask for it any more")
}

// alone waits until no other effect is called at which so many workers died.
// What kills the next one is then known: what only happened to be under way
// beside it is not given up in its place. Who takes long is not waited for.
func (a *attempt) alone() error {
	select {
	case a.w.suspects <- struct{}{}:
	case <-a.w.handlers.Done():
		return untried("stopped before its turn")
	}
	a.release = sync.OnceFunc(func() { <-a.w.suspects })
	time.AfterFunc(a.w.cfg.AckWait, a.release)
	return nil
}

// Outcomes of a doubt.
const (
	doubtDone    = "done"
	doubtNotDone = "not_done"
	doubtUnknown = "unknown"
	doubtHalted  = "halted"
)

// verified notes that a doubt is over.
func (a *attempt) verified(outcome string) {
	a.doubted.Store(false)
	a.w.metrics.doubts.WithLabelValues(a.c.pending.Effect, outcome).Inc()
	a.w.log.Warn("found out what came of an effect in doubt", logkey.Run, a.run, logkey.Effect, a.c.pending.Effect, logkey.Outcome, outcome)
}

// unverified is what it means that a verifier did not say that the effect was
// not done.
func (a *attempt) unverified(err error) error {
	if err == nil {
		a.verified(doubtDone)
		return nil
	}
	a.w.metrics.doubts.WithLabelValues(a.c.pending.Effect, doubtUnknown).Inc()
	return statemachine.Classed(statemachine.ClassInDoubt, fmt.Errorf("nobody knows whether a try before performed the effect, and to find out failed: %w", err))
}

// leave settles the entry by what came of the try, and returns what counts.
func (a *attempt) leave(body []byte, err error) ([]byte, error) {
	if a.entry == nil {
		return body, err
	}
	p, next := &a.c.pending, *a.entry
	next.Until, next.Crashes, next.Doubt = time.Now().UTC(), 0, false
	switch {
	case err == nil && p.Key == "":
		return body, nil // the record is what settles it
	case err == nil:
		next.State, next.Result = LedgerDone, body
	case a.w.handlers.Err() != nil:
		next.State = LedgerFailed
		if a.begun.Load() || a.doubted.Load() {
			next.State = LedgerUnknown
		}
		ctx, cancel := context.WithTimeout(a.w.work, hungAfter)
		defer cancel()
		if ok, err := a.settleOnce(ctx, next, nil); !ok || err != nil {
			a.w.log.Warn("could not note that a handler was interrupted", logkey.Run, a.run, logkey.Effect, p.Effect)
		}
		return nil, err
	case a.h.Policy.Asks() && (a.doubted.Load() || unsure(err)):
		next.State = LedgerUnknown
	case a.w.givesUp(p, a.h, err):
		next.State = LedgerReleased
	default:
		next.State = LedgerFailed
	}
	return a.settle(next, body, err)
}

// unsure reports whether a try that failed may have performed the effect all
// the same.
func unsure(err error) bool {
	if isUntried(err) {
		return false
	}
	switch statemachine.ClassOf(err) {
	case statemachine.ClassTimeout, statemachine.ClassPanic, statemachine.ClassInDoubt, statemachine.ClassAccepted, classHung:
		return true
	}
	return statemachine.IsUnsure(err)
}

// settle records what came of a try, and returns what counts: a result that is
// recorded counts before any failure. It does not give up while the ledger is
// away: the result is in hand, and a second run may wait for it.
func (a *attempt) settle(next LedgerEntry, body []byte, failure error) ([]byte, error) {
	counts := body
	err := backoff.Retry(func() error {
		a.c.over.Store(time.Now().Add(a.w.cfg.AckWait).UnixNano()) // still at it
		ctx, cancel := context.WithTimeout(a.w.work, a.w.cfg.AckWait)
		defer cancel()
		ok, err := a.settleOnce(ctx, next, &counts)
		switch {
		case errors.Is(err, ErrTooLarge):
			return backoff.Permanent(statemachine.Terminal(statemachine.ClassTooLarge, err))
		case err == nil && !ok:
			return fmt.Errorf("key %q changed meanwhile", ledgerKey(&a.c.pending))
		}
		return err
	}, backoff.WithContext(a.w.cfg.Retry.series(), a.w.work))
	switch {
	case err != nil && failure == nil:
		return nil, fmt.Errorf("record the result of key %q: %w", ledgerKey(&a.c.pending), err)
	case err == nil && counts != nil:
		return counts, nil
	}
	return nil, failure
}

// settleOnce settles the entry if it still is ours. Counts is set to a result
// that is recorded already.
func (a *attempt) settleOnce(ctx context.Context, next LedgerEntry, counts *[]byte) (bool, error) {
	key := ledgerKey(&a.c.pending)
	have, seq, err := a.w.ports.Ledger.Claim(ctx, key, next)
	switch {
	case err != nil:
		return false, err
	case have.State == LedgerDone && have.Print == next.Print: // recorded, by us or by another attempt
		if counts != nil {
			*counts = have.Result
		}
		return true, nil
	case have.Run != next.Run || have.Effect != next.Effect:
		return false, backoff.Permanent(untried("key %q was taken over by run %q", key, have.Run))
	case have.Try > next.Try: // by a later try, which has the say
		return true, nil
	}
	at, err := a.w.ports.Ledger.Settle(ctx, key, seq, next)
	return at != 0, err
}

// deserted reports whether nobody will ever say what came of a key that a run
// claimed: its effect is pending no more (the run was cancelled, say, or the
// state took too long and the run goes on), and a handler that was at it then is
// over. Refused is when the key was first asked
// for in vain. That a run has no record is believed only if it is said long after
// that: its tombstone may have expired, or whoever answers may be behind.
func (w *Worker) deserted(have LedgerEntry, limit time.Duration, refused *time.Time) bool {
	ctx, cancel := context.WithTimeout(w.handlers, w.cfg.AckWait)
	defer cancel()
	r, err := w.ports.Log.Look(ctx, have.Run)
	if err != nil {
		w.trouble(onNATS, err)
		return false
	}
	over := limit + hungAfter
	if r == nil {
		return refused != nil && time.Since(*refused) > over+w.cfg.AckWait
	}
	for i := range r.Pending {
		if r.Pending[i].ID == have.Effect {
			return false
		}
	}
	until := have.Until
	if until.IsZero() { // a build before made the entry
		until = r.At.Add(over)
	}
	return time.Since(until) > w.cfg.AckWait
}

// orNull is a result that is one, whatever was recorded.
func orNull(body []byte) []byte {
	if len(body) == 0 {
		return []byte("null")
	}
	return body
}

// answered clears the ledger entries of effects that the last record answered:
// their results are in HISTORY. One that stays goes with its time to live.
func (l *lane) answered(s *slot) {
	for _, r := range s.fold.results {
		p := &r.call.pending
		if !r.call.noted || s.pending(p.ID) != nil {
			continue
		}
		l.calls.Go(func() {
			ctx, cancel := context.WithTimeout(l.w.work, l.w.cfg.AckWait)
			defer cancel()
			if err := l.w.ports.Ledger.Clear(ctx, ledgerKey(p)); err != nil && ctx.Err() == nil {
				l.log.Warn("could not clear a ledger entry", logkey.Run, s.run, logkey.EffectID, p.ID, logkey.Error, err)
			}
		})
	}
}
