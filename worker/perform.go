package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
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
	return errors.As(err, &u)
}

// perform calls the handler of an effect, beside the lane.
func (w *Worker) perform(run string, logs map[string]statemachine.LogRef, c *call, h *statemachine.Handler, limit time.Duration) *result {
	ctx, cancel := context.WithTimeoutCause(w.handlers, limit, fmt.Errorf("the attempt took longer than %s", limit))
	defer cancel()
	body, err := w.performKey(ctx, run, logs, c, h)
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

// performKey calls the handler, under the ledger's protection if the effect
// has a business key: whoever comes second gets the recorded result.
func (w *Worker) performKey(ctx context.Context, run string, logs map[string]statemachine.LogRef, c *call, h *statemachine.Handler) ([]byte, error) {
	p := &c.pending
	if p.Key == "" {
		return w.callHandler(ctx, run, logs, c, h)
	}
	mine := LedgerEntry{Run: run, Effect: p.ID, Print: p.Print, State: ledgerClaimed}
	have, seq, err := w.ports.Ledger.Claim(ctx, p.Key, mine)
	if err != nil {
		return nil, untried("claim key %q: %w", p.Key, err)
	}
	switch {
	case have.Print != p.Print:
		return nil, statemachine.Terminal("key_conflict", fmt.Errorf("key %q stands for something else, asked by run %q", p.Key, have.Run))
	case have.State == ledgerDone:
		return have.Result, nil
	case have.State == ledgerReleased: // given up by another: take it over
		switch ok, err := w.ports.Ledger.Settle(ctx, p.Key, seq, mine); {
		case err != nil:
			return nil, untried("take over key %q: %w", p.Key, err)
		case !ok:
			return nil, untried("key %q is being taken by another run", p.Key)
		}
	case have.Run != run || have.Effect != p.ID:
		return nil, untried("key %q is being performed by run %q", p.Key, have.Run)
	}
	body, err := w.callHandler(ctx, run, logs, c, h)
	next := mine
	switch {
	case err == nil:
		next.State, next.Result = ledgerDone, body
	case w.handlers.Err() != nil || !w.givesUp(p, h, err):
		return nil, err // the key stays claimed for the next attempt
	default:
		next.State = ledgerReleased
	}
	return w.settleKey(c, next, body, err)
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

// callHandler resolves the input and calls the handler, with its panics and
// its hanging turned into failures.
func (w *Worker) callHandler(ctx context.Context, run string, logs map[string]statemachine.LogRef, c *call, h *statemachine.Handler) ([]byte, error) {
	input, err := w.resolve(ctx, run, logs, c.pending.Input)
	if err != nil {
		return nil, untried("resolve input: %w", err)
	}
	type answer struct {
		body []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- answer{err: statemachine.Classed("panic", fmt.Errorf("%v\n%s", v, debug.Stack()))}
			}
		}()
		body, err := h.Call(ctx, c.pending.IdempotencyKey(), input)
		done <- answer{body, err}
	}()
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		late := time.NewTimer(hungAfter)
		defer late.Stop()
		select {
		case a = <-done:
		case <-late.C:
			w.metrics.hung.Inc()
			w.log.Error("handler did not return at its deadline", logkey.Run, run, logkey.Effect, c.pending.Effect)
			return nil, statemachine.Classed("hung", errors.New("the handler did not return at its deadline"))
		}
	}
	switch {
	case a.err != nil && ctx.Err() != nil && !statemachine.IsTerminal(a.err) && !statemachine.IsLater(a.err):
		return nil, statemachine.Classed(statemachine.ClassTimeout, context.Cause(ctx))
	case a.err != nil:
		return nil, a.err
	case len(a.body) > maxResult:
		return nil, statemachine.Terminal("too_large", fmt.Errorf("the result has %d bytes, at most %d are allowed", len(a.body), maxResult))
	case len(a.body) == 0:
		return []byte("null"), nil
	case !json.Valid(a.body):
		return nil, statemachine.Terminal("bad_result", errors.New("the result is not JSON"))
	}
	return a.body, nil
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
