package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// maxResult bounds what a handler may return.
const maxResult = 32 << 20

// classHung is the class of a handler that ignores its deadline.
const classHung = "hung"

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

// attempt is one try of an effect, beside the lane.
type attempt struct {
	w     *Worker
	run   string
	logs  map[string]statemachine.LogRef
	of    *statemachine.Origin // of a fork; nil: it asks nobody what came of it before
	spot  string               // where it is asked
	c     *call
	h     *statemachine.Handler
	limit time.Duration

	entry   *LedgerEntry // its own in the ledger; nil: it has none
	doubted atomic.Bool  // it is in doubt whether a try before performed the effect
	begun   atomic.Bool  // this one may have
	release func()       // lets the next suspect be called; may be nil
}

// perform calls the handler of an effect, beside the lane, and delivers what
// came of it, once: when the handler returns, or when one that should have is
// waited for no longer.
func (a *attempt) perform(deliver func(*result)) {
	w := a.w
	if r := a.recall(); r != nil {
		deliver(r)
		return
	}
	settled, body, err := a.enter()
	if a.release != nil {
		defer a.release()
	}
	_ = crash.Point("ledger.claimed")
	if settled {
		deliver(w.resultOf(a.c, body, err))
		return
	}
	var over atomic.Bool
	finish := func(body []byte, err error) {
		if over.CompareAndSwap(false, true) {
			_ = crash.Point("call.returned")
			body, err = a.leave(body, err)
			_ = crash.Point("ledger.left")
			deliver(w.resultOf(a.c, body, err))
		}
	}
	ctx, cancel := context.WithTimeoutCause(w.handlers, a.limit, fmt.Errorf("the attempt took longer than %s", a.limit))
	defer cancel()
	a.c.over.Store(time.Now().Add(a.limit).UnixNano())
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(hungAfter, func() {
			if over.Load() {
				return
			}
			w.metrics.hung.Inc()
			w.log.Error("handler did not return at its deadline", logkey.Run, a.run, logkey.Effect, a.c.pending.Effect)
			finish(nil, statemachine.Classed(classHung, errors.New("the handler did not return at its deadline")))
		})
	})
	defer stop()
	finish(a.try(ctx))
}

// resultOf is what a lane is given of a handler's return.
func (w *Worker) resultOf(c *call, body []byte, err error) *result {
	w.throttled(&c.pending, err)
	r := &result{call: c, body: body, err: err}
	outcome := callOK
	switch {
	case err == nil, statemachine.IsAccepted(err):
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

// try calls the handler; if it is in doubt whether that was done before, and
// can be found out, only if it was not.
func (a *attempt) try(ctx context.Context) ([]byte, error) {
	if a.doubted.Load() {
		body, err := a.call(ctx, a.h.Verify)
		if !errors.Is(err, statemachine.ErrNotDone) {
			return body, a.unverified(err)
		}
		a.verified(doubtNotDone)
	}
	a.begun.Store(true)
	return a.call(ctx, a.h.Call)
}

// call resolves the input and calls a function of the handler; its panic is a
// failure.
func (a *attempt) call(ctx context.Context, f func(context.Context, string, json.RawMessage) (json.RawMessage, error)) (body []byte, err error) {
	input, err := a.w.resolve(ctx, a.run, a.logs, a.c.pending.Input)
	if err != nil {
		return nil, untried("resolve input: %w", err)
	}
	p := &a.c.pending
	ctx = statemachine.WithAttempt(ctx, statemachine.Attempt{Run: a.run, Effect: p.ID, Type: p.Effect, N: p.Attempt, Try: p.Try}, func() string {
		return queue.Callback{Run: a.run, Effect: p.ID, Try: p.Try}.Token(a.w.cfg.Secret)
	})
	ctx, told := a.telling(ctx)
	defer told()
	body, err = callSafely(ctx, f, p.IdempotencyKey(), input)
	switch {
	case statemachine.IsAccepted(err) && p.Key != "":
		return nil, statemachine.Terminal("accepted_key", fmt.Errorf("it was accepted, and has the business key %q: what comes of it later cannot be recorded under that", p.Key))
	case statemachine.IsAccepted(err):
		return nil, err
	case err != nil && ctx.Err() != nil && !statemachine.IsTerminal(err) && !statemachine.IsLater(err) && !statemachine.IsUntried(err):
		return nil, statemachine.Classed(statemachine.ClassTimeout, context.Cause(ctx))
	case err != nil:
		return nil, err
	case len(body) > maxResult:
		return nil, statemachine.Terminal(statemachine.ClassTooLarge, fmt.Errorf("the result has %d bytes, at most %d are allowed", len(body), maxResult))
	case len(body) == 0:
		return orNull(body), nil
	case !json.Valid(body):
		return nil, statemachine.Terminal("bad_result", errors.New("the result is not JSON"))
	}
	return body, nil
}

// callSafely calls a handler and returns its panic as a failure.
func callSafely(ctx context.Context, f func(context.Context, string, json.RawMessage) (json.RawMessage, error), key string, input []byte) (body []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			body, err = nil, statemachine.Classed(statemachine.ClassPanic, fmt.Errorf("%v\n%s", v, debug.Stack()))
		}
	}()
	return f(ctx, key, input)
}

// resultEvent is what a handler's return tells the run.
func (l *lane) resultEvent(s *slot, r *result) statemachine.Event {
	p, now := &r.call.pending, time.Now().UTC()
	if r.err == nil {
		return statemachine.Event{ID: statemachine.ResultEventID(p.ID), Kind: statemachine.EventResult, At: now, Effect: p.ID, Name: p.Effect, Try: p.Try, Body: r.body, Recorded: r.recorded}
	}
	e := statemachine.Event{ID: statemachine.FailureEventID(p.ID, p.Try), Kind: statemachine.EventFailure, At: now, Effect: p.ID, Name: p.Effect, Try: p.Try,
		Cause: &statemachine.Cause{Class: r.class, Message: messageOf(r.err), State: s.state.To, Effect: p.Effect, Attempt: p.Attempt}}
	if e.Recorded = r.recorded; r.recorded || r.class == statemachine.ClassUnconfirmed {
		return e // no attempt was made
	}
	h, _ := l.w.catalog.Handler(p.Effect)
	if statemachine.IsAccepted(r.err) { // the attempt is under way
		at := l.deadline(now, now, h)
		e.RetryAt, e.Free, e.Cause.Message = &at, true, "what comes of it is told later"
		return e
	}
	outcome := attemptGivenUp
	if !l.w.givesUp(p, h, r.err) {
		wait, ok := statemachine.RetryAfterOf(r.err)
		if !ok {
			wait = l.w.cfg.retry(h).delay(p.Attempt)
			if l.w.free(p, h, r.err) {
				wait = l.w.cfg.retry(h).delay(p.Try) // attempts do not grow, the waits do
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
	return !w.free(p, h, err) && p.Attempt >= w.cfg.retry(h).Attempts
}

// free reports whether a failure spends no attempt: the effect was not even
// tried, or the other side asks to come later. The latter has an end, or a
// provider that always says "later" would never be dead-lettered.
func (w *Worker) free(p *statemachine.Pending, h *statemachine.Handler, err error) bool {
	if isUntried(err) {
		return true
	}
	return statemachine.IsLater(err) && (p.First == nil || time.Since(*p.First) < 5*max(timeout(p, h), w.cfg.retry(h).Max))
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
		if to == 0 { // a log that has no items yet is in no record
			return nil, true, nil
		}
		ref, ok := logs[log]
		if !ok || to > ref.Count {
			return nil, false, nil
		}
		all, err := w.items(ctx, run, log, ref, to)
		return all, true, err
	})
}
