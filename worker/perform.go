package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

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

// perform calls the handler of an effect, beside the lane.
func (w *Worker) perform(run string, logs map[string]statemachine.LogRef, c *call, h *statemachine.Handler, limit time.Duration) *result {
	ctx, cancel := context.WithTimeoutCause(w.handlers, limit, fmt.Errorf("the attempt took longer than %s", limit))
	defer cancel()
	body, err := w.performKey(ctx, run, logs, c, h)
	r := &result{call: c, body: body, err: err}
	outcome := "ok"
	switch {
	case err == nil:
	case context.Cause(w.handlers) != nil:
		r.dropped, outcome = true, "interrupted"
	case ctx.Err() != nil:
		r.err = statemachine.Classed("timeout", context.Cause(ctx))
		outcome = "timeout"
	default:
		outcome = "failed"
	}
	if r.err != nil {
		r.class = statemachine.ClassOf(r.err)
	}
	w.metrics.effects.WithLabelValues(c.pending.Effect, string(c.pending.Place), outcome).Inc()
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
		return nil, statemachine.Later(0, fmt.Errorf("claim key %q: %w", p.Key, err))
	}
	switch {
	case have.Print != p.Print:
		return nil, statemachine.Terminal("key_conflict", fmt.Errorf("key %q stands for something else, asked by run %q", p.Key, have.Run))
	case have.State == ledgerDone:
		return have.Result, nil
	case have.State == ledgerReleased:
		ok, err := w.ports.Ledger.Settle(ctx, p.Key, seq, mine)
		if err != nil || !ok {
			return nil, statemachine.Later(0, fmt.Errorf("key %q is being taken by another run: %w", p.Key, errors.Join(err)))
		}
		if have, seq, err = w.ports.Ledger.Claim(ctx, p.Key, mine); err != nil {
			return nil, statemachine.Later(0, fmt.Errorf("claim key %q: %w", p.Key, err))
		}
	}
	if have.Run != run || have.Effect != p.ID {
		return nil, statemachine.Later(0, fmt.Errorf("key %q is being performed by run %q", p.Key, have.Run))
	}
	body, err := w.callHandler(ctx, run, logs, c, h)
	next := mine
	switch {
	case err == nil:
		next.State, next.Result = ledgerDone, body
	case w.givesUp(p, h, err):
		next.State = ledgerReleased
	default:
		return nil, err // the key stays claimed for the next attempt
	}
	// The result counts only once the key holds it: a second run may be
	// waiting for it. Its own deadline: the handler may have used up the other.
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.AckWait)
	defer cancel()
	ok, serr := w.ports.Ledger.Settle(settle, p.Key, seq, next)
	switch {
	case err != nil:
		return nil, err
	case serr != nil:
		return nil, statemachine.Later(0, fmt.Errorf("record the result of key %q: %w", p.Key, serr))
	case !ok: // another attempt of this effect was quicker: its result counts
		if have, _, err = w.ports.Ledger.Claim(settle, p.Key, mine); err == nil && have.State == ledgerDone && have.Print == p.Print {
			return have.Result, nil
		}
		return nil, statemachine.Later(0, fmt.Errorf("key %q changed hands", p.Key))
	}
	return body, nil
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
		return nil, statemachine.Later(0, fmt.Errorf("resolve input: %w", err))
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
	outcome := "given_up"
	if !l.w.givesUp(p, h, r.err) {
		wait, ok := statemachine.RetryAfterOf(r.err)
		if !ok {
			wait = l.w.cfg.Retry.delay(p.Attempt)
		}
		at := now.Add(wait)
		e.RetryAt, e.Free = &at, l.w.free(p, h, r.err)
		outcome = "retried"
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

// free reports whether a failure spends no attempt: the other side asks to
// come later, or infrastructure was away. That has an end, or a provider that
// always says "later" would never be dead-lettered (d47).
func (w *Worker) free(p *statemachine.Pending, h *statemachine.Handler, err error) bool {
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
