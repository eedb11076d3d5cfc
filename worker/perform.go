package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/statemachine"
)

// maxResult bounds what a handler may return.
const maxResult = 32 << 20

// hungAfter is how long past its deadline a handler is waited for.
const hungAfter = 2 * time.Second

// errStopping is why handlers are cancelled in a stop; what they then return
// is no attempt.
var errStopping = errors.New("the worker is stopping")

// untriedError is why an effect was not even tried: infrastructure was away,
// or its key is another's at the moment. It never spends an attempt.
type untriedError struct{ err error }

func (e *untriedError) Error() string { return e.err.Error() }
func (e *untriedError) Unwrap() error { return e.err }

func untried(format string, a ...any) error { return &untriedError{fmt.Errorf(format, a...)} }

func isUntried(err error) bool {
	var u *untriedError
	return errors.As(err, &u) || statemachine.IsUntried(err)
}

// perform calls the handler of an effect, beside the lane, and delivers what
// came of it, once: when the handler returns, or when one that should have is
// waited for no longer.
func (w *Worker) perform(run string, logs map[string]statemachine.LogRef, c *call, h *statemachine.Handler, limit time.Duration, deliver func(*result)) {
	ctx, cancel := context.WithTimeoutCause(w.handlers, limit, fmt.Errorf("the attempt took longer than %s", limit))
	defer cancel()
	key, body, err := w.takeKey(ctx, run, c, limit)
	if key == nil && (body != nil || err != nil) {
		deliver(w.resultOf(c, body, err))
		return
	}
	var over atomic.Bool
	finish := func(body []byte, err error) {
		if over.CompareAndSwap(false, true) {
			body, err = w.closeKey(c, h, key, body, err)
			deliver(w.resultOf(c, body, err))
		}
	}
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(hungAfter, func() {
			if over.Load() {
				return
			}
			w.metrics.hung.Inc()
			w.log.Error("handler did not return at its deadline", logkey.Run, run, logkey.Effect, c.pending.Effect)
			finish(nil, statemachine.Classed("hung", errors.New("the handler did not return at its deadline")))
		})
	})
	defer stop()
	finish(w.callHandler(ctx, run, logs, c, h))
}

// resultOf is what a lane is given of a handler's return.
func (w *Worker) resultOf(c *call, body []byte, err error) *result {
	w.throttled(&c.pending, err)
	r := &result{call: c, body: body, err: err}
	outcome := callOK
	switch {
	case err == nil:
	case w.handlers.Err() != nil:
		r.dropped, outcome = true, callInterrupted
	case isUntried(err):
		outcome = callUntried
	default:
		outcome = callFailed
	}
	if r.err != nil {
		r.class = statemachine.ClassOf(r.err)
	}
	w.metrics.call(&c.pending, outcome)
	return r
}

// takeKey claims the business key of an effect in the ledger, for the entry it
// returns; without a key there is none. Whoever comes second gets the recorded
// result, or is told why not: then there is a body or an error, and no entry.
func (w *Worker) takeKey(ctx context.Context, run string, c *call, limit time.Duration) (*LedgerEntry, []byte, error) {
	p := &c.pending
	if p.Key == "" {
		return nil, nil, nil
	}
	mine := LedgerEntry{Run: run, Effect: p.ID, Print: p.Print, State: ledgerClaimed}
	have, seq, err := w.ports.Ledger.Claim(ctx, p.Key, mine)
	if err != nil {
		return nil, nil, untried("claim key %q: %w", p.Key, err)
	}
	switch {
	case have.Print != p.Print:
		return nil, nil, statemachine.Terminal("key_conflict", fmt.Errorf("key %q stands for something else, asked by run %q", p.Key, have.Run))
	case have.State == ledgerDone:
		return nil, orNull(have.Result), nil
	case have.State == ledgerClaimed && have.Run == run && have.Effect == p.ID: // by an attempt before
		return &mine, nil, nil
	case have.State == ledgerClaimed && !w.deserted(ctx, have, limit, p.First):
		return nil, nil, untried("key %q is being performed by run %q", p.Key, have.Run)
	}
	switch ok, err := w.ports.Ledger.Settle(ctx, p.Key, seq, mine); { // given up by another: take it over
	case err != nil:
		return nil, nil, untried("take over key %q: %w", p.Key, err)
	case !ok:
		return nil, nil, untried("key %q is being taken by another run", p.Key)
	}
	return &mine, nil, nil
}

// deserted reports whether nobody will ever say what came of a key that a run
// claimed: its effect is pending no more (the run was cancelled, say), and a
// handler that was at it then is over. Refused is when the key was first asked
// for in vain. That a run has no record is believed only if it is said long after
// that: its tombstone may have expired, or whoever answers may be behind.
func (w *Worker) deserted(ctx context.Context, have LedgerEntry, limit time.Duration, refused *time.Time) bool {
	r, err := w.ports.Log.Look(ctx, have.Run)
	if err != nil {
		w.trouble(onNATS, err)
		return false
	}
	over := limit + hungAfter + w.cfg.AckWait
	if r == nil {
		return refused != nil && time.Since(*refused) > over
	}
	for i := range r.Pending {
		if r.Pending[i].ID == have.Effect {
			return false
		}
	}
	return time.Since(r.At) > over
}

// closeKey records what a handler's return means for the business key that was
// claimed for it, if one was, and returns what counts.
func (w *Worker) closeKey(c *call, h *statemachine.Handler, mine *LedgerEntry, body []byte, err error) ([]byte, error) {
	if mine == nil {
		return body, err
	}
	next := *mine
	switch {
	case err == nil:
		next.State, next.Result = ledgerDone, body
	case w.handlers.Err() != nil || !w.givesUp(&c.pending, h, err):
		return nil, err // the key stays claimed for the next attempt
	default:
		next.State = ledgerReleased
	}
	return w.settleKey(c, next, body, err)
}

// orNull is a result that is one, whatever was recorded.
func orNull(body []byte) []byte {
	if len(body) == 0 {
		return []byte("null")
	}
	return body
}

// settleKey records what came of a business key, and returns what counts: a
// result that is recorded counts before any failure. It does not give up while
// the ledger is away: the result is in hand, and a second run may wait for it.
func (w *Worker) settleKey(c *call, next LedgerEntry, body []byte, failure error) ([]byte, error) {
	key := c.pending.Key
	var counts []byte
	err := backoff.Retry(func() error {
		c.over.Store(time.Now().Add(w.cfg.AckWait).UnixNano()) // still at it
		ctx, cancel := context.WithTimeout(w.work, w.cfg.AckWait)
		defer cancel()
		have, seq, err := w.ports.Ledger.Claim(ctx, key, next)
		switch {
		case errors.Is(err, ErrTooLarge):
			return backoff.Permanent(statemachine.Terminal(statemachine.ClassTooLarge, err))
		case err != nil:
			return err
		case have.State == ledgerDone && have.Print == next.Print: // recorded, by us or by another attempt
			counts = have.Result
			return nil
		case have.Run != next.Run || have.Effect != next.Effect:
			return backoff.Permanent(untried("key %q was taken over by run %q", key, have.Run))
		}
		ok, err := w.ports.Ledger.Settle(ctx, key, seq, next)
		switch {
		case errors.Is(err, ErrTooLarge):
			return backoff.Permanent(statemachine.Terminal(statemachine.ClassTooLarge, err))
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("key %q changed meanwhile", key)
		}
		counts = body
		return nil
	}, backoff.WithContext(w.cfg.Retry.series(), w.work))
	switch {
	case err != nil && failure == nil:
		return nil, fmt.Errorf("record the result of key %q: %w", key, err)
	case counts != nil:
		return counts, nil
	}
	return nil, failure
}

// States of a ledger entry.
const (
	ledgerClaimed  = "claimed"
	ledgerDone     = "done"
	ledgerReleased = "released"
)

// callHandler resolves the input and calls the handler; its panic is a failure.
func (w *Worker) callHandler(ctx context.Context, run string, logs map[string]statemachine.LogRef, c *call, h *statemachine.Handler) (body []byte, err error) {
	input, err := w.resolve(ctx, run, logs, c.pending.Input)
	if err != nil {
		return nil, untried("resolve input: %w", err)
	}
	p := &c.pending
	ctx = statemachine.WithAttempt(ctx, statemachine.Attempt{Run: run, Effect: p.ID, Type: p.Effect, N: p.Attempt, Try: p.Try})
	body, err = callSafely(ctx, h, p.IdempotencyKey(), input)
	switch {
	case err != nil && ctx.Err() != nil && !statemachine.IsTerminal(err) && !statemachine.IsLater(err) && !statemachine.IsUntried(err):
		return nil, statemachine.Classed(statemachine.ClassTimeout, context.Cause(ctx))
	case err != nil:
		return nil, err
	case len(body) > maxResult:
		return nil, statemachine.Terminal("too_large", fmt.Errorf("the result has %d bytes, at most %d are allowed", len(body), maxResult))
	case len(body) == 0:
		return orNull(body), nil
	case !json.Valid(body):
		return nil, statemachine.Terminal("bad_result", errors.New("the result is not JSON"))
	}
	return body, nil
}

// callSafely calls a handler and returns its panic as a failure.
func callSafely(ctx context.Context, h *statemachine.Handler, key string, input []byte) (body []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			body, err = nil, statemachine.Classed("panic", fmt.Errorf("%v\n%s", v, debug.Stack()))
		}
	}()
	return h.Call(ctx, key, input)
}

// resultEvent is what a handler's return tells the run.
func (l *lane) resultEvent(s *slot, r *result) statemachine.Event {
	p, now := &r.call.pending, time.Now().UTC()
	if r.err == nil {
		return statemachine.Event{ID: statemachine.ResultEventID(p.ID), Kind: statemachine.EventResult, At: now, Effect: p.ID, Name: p.Effect, Try: p.Try, Body: r.body}
	}
	e := statemachine.Event{ID: statemachine.FailureEventID(p.ID, p.Try), Kind: statemachine.EventFailure, At: now, Effect: p.ID, Name: p.Effect, Try: p.Try,
		Cause: &statemachine.Cause{Class: r.class, Message: messageOf(r.err), State: s.state.To, Effect: p.Effect, Attempt: p.Attempt}}
	h, _ := l.w.catalog.Handler(p.Effect)
	outcome := attemptGivenUp
	if !l.w.givesUp(p, h, r.err) {
		wait, ok := statemachine.RetryAfterOf(r.err)
		if !ok {
			wait = l.w.cfg.Retry.delay(p.Attempt)
			if l.w.free(p, h, r.err) {
				wait = l.w.cfg.Retry.delay(p.Try) // attempts do not grow, the waits do
			}
		} else if _, wave := statemachine.ThrottledFor(r.err); wave {
			wait += spread(wait)
		}
		at := now.Add(wait)
		e.RetryAt, e.Free = &at, l.w.free(p, h, r.err)
		outcome = attemptRetried
	}
	l.w.metrics.attempts.WithLabelValues(p.Effect, outcome).Inc()
	return e
}

// givesUp reports whether a failure is the effect's last.
func (w *Worker) givesUp(p *statemachine.Pending, h *statemachine.Handler, err error) bool {
	if statemachine.IsTerminal(err) {
		return true
	}
	attempts := w.cfg.Retry.Attempts
	if h != nil && h.Policy.Attempts > 0 {
		attempts = h.Policy.Attempts
	}
	return !w.free(p, h, err) && p.Attempt >= attempts
}

// free reports whether a failure spends no attempt: the effect was not even
// tried, or the other side asks to come later. The latter has an end, or a
// provider that always says "later" would never be dead-lettered.
func (w *Worker) free(p *statemachine.Pending, h *statemachine.Handler, err error) bool {
	if isUntried(err) {
		return true
	}
	return statemachine.IsLater(err) && (p.First == nil || time.Since(*p.First) < 5*max(timeout(p, h), w.cfg.Retry.Max))
}

// resolve replaces references to blobs and logs in an effect's input by what
// they refer to.
func (w *Worker) resolve(ctx context.Context, run string, logs map[string]statemachine.LogRef, input []byte) ([]byte, error) {
	if ref, ok := statemachine.AsBlobRef(input); ok {
		b, err := w.ports.Blobs.Get(ctx, run, ref.Hash)
		if err != nil {
			return nil, err
		}
		input = b
	}
	return statemachine.ResolveLogs(input, func(log string, to int) ([]json.RawMessage, bool, error) {
		ref, ok := logs[log]
		if !ok || to > ref.Count {
			return nil, false, nil
		}
		all, err := w.items(ctx, run, log, ref, to)
		return all, true, err
	})
}
