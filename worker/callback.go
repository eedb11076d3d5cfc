package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// within is how long what was accepted may take, unless its policy says
// otherwise.
const within = 24 * time.Hour

// admitResult makes the event of what came of an effect that was accepted.
// What its times are is known when its run is: see timed.
func admitResult(h *held) error {
	m := &h.m
	e := &statemachine.Event{ID: statemachine.CallbackEventID(m.ID, m.Try), Kind: statemachine.EventCallback, Effect: m.ID, Try: m.Try, At: m.Time.UTC(), Seq: m.Seq}
	switch m.Name {
	case queue.OutcomeHeartbeat:
		e.Kind, e.ID = statemachine.EventBeat, statemachine.BeatEventID(m.ID, m.Try)
	case queue.OutcomeFailure:
		h.event = e
		h.fail(failureOf(m))
		return nil
	default:
		if err := checkJSON(m.Body); err != nil {
			return statemachine.Terminal("malformed", err)
		}
		e.Body = m.Body
	}
	h.event = e
	return nil
}

// fail makes the event one of a failure.
func (h *held) fail(err error) {
	e := *h.event
	e.Body, e.Cause = nil, &statemachine.Cause{Class: statemachine.ClassOf(err), Message: messageOf(err)}
	h.event, h.failure = &e, err
}

// failureOf is what a service told of a failure, as if it had answered so.
func failureOf(m *queue.Message) error {
	text := m.Headers[queue.HeaderFailureCode] + ": " + m.Headers[queue.HeaderFailureText]
	code, err := strconv.Atoi(m.Headers[queue.HeaderFailureCode])
	if err != nil || code < 300 || code > 599 {
		return errors.New(text)
	}
	after, _ := strconv.ParseUint(m.Headers[queue.HeaderRetryAfter], 10, 20)
	return statemachine.Answered(code, "callback", time.Duration(after)*time.Second, errors.New(text))
}

// timed completes an event about an effect that was accepted by what the run's
// state and the effect's policy say; other events are as they are.
func (l *lane) timed(s *slot, h *held) statemachine.Event {
	e := *h.event
	p := s.pending(e.Effect)
	if p == nil || e.Effect == "" {
		return e
	}
	policy, _ := l.w.catalog.Handler(p.Effect)
	switch {
	case e.Kind == statemachine.EventBeat:
		at := l.deadline(p.At, h.m.Time, policy)
		e.RetryAt = &at
		h.event = &e // so that it is known when it is applied
	case e.Kind == statemachine.EventCallback && h.failure != nil:
		l.failed(&e, p, policy, h.failure)
	case e.Kind == statemachine.EventDue && p.Accepted() && p.Try == e.Try:
		e.Kind, e.ID = statemachine.EventLapse, statemachine.LapseEventID(p.ID, p.Try)
		err := statemachine.Classed(statemachine.ClassTimeout, fmt.Errorf("it was accepted, and nothing came of it by %s", p.RetryAt.Format(time.RFC3339)))
		e.Cause = &statemachine.Cause{Class: statemachine.ClassOf(err), Message: messageOf(err)}
		l.failed(&e, p, policy, err)
	}
	return e
}

// failed gives the failure of an accepted try its next one, unless it was the
// last. Unlike a failure of a handler, it always spends an attempt.
func (l *lane) failed(e *statemachine.Event, p *statemachine.Pending, h *statemachine.Handler, err error) {
	retry := l.w.cfg.retry(h)
	if statemachine.IsTerminal(err) || p.Attempt >= retry.Attempts {
		return
	}
	wait, ok := statemachine.RetryAfterOf(err)
	if !ok {
		wait = retry.delay(p.Attempt)
	}
	at := time.Now().UTC().Add(wait)
	e.RetryAt = &at
}

// deadline is until when an effect that was accepted at a time is waited for,
// after a sign of life now.
func (l *lane) deadline(accepted, now time.Time, h *statemachine.Handler) time.Time {
	end, beat := within, time.Duration(0)
	if h != nil {
		beat = h.Policy.Heartbeat
		if h.Policy.Within > 0 {
			end = h.Policy.Within
		}
	}
	at := accepted.Add(end)
	if silent := now.Add(beat); beat > 0 && silent.Before(at) {
		at = silent
	}
	return at.UTC()
}

// late deals with what came of an effect that waits for it no more: it has a
// letter, since somebody did the work. A sign of life is only that.
func (l *lane) late(ctx context.Context, s *slot, h *held) {
	if h.m.Kind == queue.Child || h.m.Parent != nil { // it is waited for no more, or was another's
		h.spent = true
		return
	}
	if h.m.Kind != queue.Result || h.event.Kind == statemachine.EventBeat {
		return
	}
	l.refuse(ctx, s, h, statemachine.Terminal("late_result",
		fmt.Errorf("try %d of effect %s of run %q is waited for no more: its result was not applied", h.m.Try, h.m.ID, s.run)))
}
