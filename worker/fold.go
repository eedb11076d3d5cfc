package worker

import (
	"context"
	"errors"
	"time"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// fold builds the run's next record of what is at hand; single means: of one
// event only, to find out which one of several makes it too large.
//
// Only what moves the run is folded. What an event that does not move it means
// (a conflict, a result that comes too late) is decided on a committed state:
// once something was applied, such a verdict waits for the next round, since
// this record may lose.
func (l *lane) fold(ctx context.Context, s *slot, def *statemachine.Definition, single bool) {
	var f *statemachine.Fold
	f = def.Begin(s.run, s.state, l.env(s, func(p *statemachine.Pending) bool { return l.w.unhindered(p, def.Name, f.State()) }))
	if s.sealed != nil && s.state != nil && s.sealed.fits(s.state) {
		f.SealLog(s.sealed.log, s.sealed.head, s.sealed.count)
	}
	out := &folded{}
	for _, r := range append([]*result(nil), s.results...) { // a copy: drop takes some out
		if l.foldResult(ctx, s, f, out, r, single) {
			break
		}
	}
	for _, h := range startsFirst(s.held) {
		if l.foldMessage(ctx, s, f, out, h, def.Name, single) {
			break
		}
	}
	n := out.events()
	if n == 0 {
		n = l.letGo(s, f)
	}
	switch {
	case n > 0:
		l.sealFold(ctx, s, def, f, out)
	case s.state == nil && s.nextStart() != nil && s.nextStart().m.Machine != def.Name:
		s.again = true // that start was refused; there is another, of another machine
	}
}

// foldResult applies a handler's return; it reports whether the record is full.
func (l *lane) foldResult(ctx context.Context, s *slot, f *statemachine.Fold, out *folded, r *result, single bool) bool {
	if out.events() > 0 && (single || f.Full()) {
		out.more = true
		return true
	}
	o, err := l.apply(ctx, s, f, l.resultEvent(s, r))
	if isAway(err) {
		l.w.trouble(onNATS, err)
		l.later(s, l.w.cfg.beat())
		return true
	}
	if err != nil && out.events() == 0 && r.err == nil { // the machine cannot take this result
		r.fail(err)
		o, err = l.apply(ctx, s, f, l.resultEvent(s, r))
	}
	switch {
	case err == nil && o == statemachine.Applied:
		out.results = append(out.results, r)
	case out.events() > 0:
		out.more = true
	case err != nil:
		l.log.Error("could not apply a failure", logkey.Run, s.run, logkey.Error, err)
		l.later(s, l.w.cfg.Retry.Max)
	default:
		l.drop(ctx, s, r)
	}
	return false
}

// awayError is why an event cannot be applied for now: what it takes lies where
// nobody answers.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

func isAway(err error) bool {
	var away awayError
	return errors.As(err, &away)
}

// apply applies an event, with the blobs that takes.
func (l *lane) apply(ctx context.Context, s *slot, f *statemachine.Fold, e statemachine.Event) (statemachine.Outcome, error) {
	return f.ApplyWith(e, func(hash string) (b []byte, err error) {
		l.beatWhile(ctx, func() { b, err = l.w.ports.Blobs.Get(ctx, s.run, hash) })
		if err != nil {
			return nil, awayError{err}
		}
		return b, nil
	})
}

// foldMessage applies what a message tells; it reports whether the record is
// full.
func (l *lane) foldMessage(ctx context.Context, s *slot, f *statemachine.Fold, out *folded, h *held, def string, single bool) bool {
	if h.event == nil || h.spent || h.known || s.again {
		return false
	}
	if s.state == nil && out.events() == 0 && h.begins() && h.m.Machine != def {
		return false // judged by its own machine, when it is its turn
	}
	if out.events() > 0 && (single || f.Full()) {
		out.more = true
		return true
	}
	if mayQueueHeld(h.event.Kind, f) && !l.mayResume(s, out) {
		return false
	}
	o, err := l.apply(ctx, s, f, l.timed(s, h))
	if isAway(err) {
		l.w.trouble(onNATS, err)
		l.later(s, l.w.cfg.beat())
		return true
	}
	if err != nil && out.events() == 0 && (h.m.Kind == queue.Result || h.m.Kind == queue.Child) && h.failure == nil { // the machine cannot take this result
		h.fail(statemachine.Terminal(statemachine.ClassOf(err), err))
		o, err = l.apply(ctx, s, f, l.timed(s, h))
	}
	switch {
	case err == nil && o == statemachine.Applied:
		out.held = append(out.held, h)
	case out.events() > 0:
		out.more = true
	case s.assumed || !s.read && s.sent.IsZero(): // a verdict needs a state that HISTORY bears out
		s.history, s.again = true, true
	case err != nil:
		l.refuse(ctx, s, h, err)
	default:
		l.outcome(ctx, s, h, o)
	}
	return false
}

// mayQueueHeld reports whether an event may have what is held queued: a resume,
// and what ends a run that has something to undo: a cancel, and its deadline.
func mayQueueHeld(kind statemachine.EventKind, f *statemachine.Fold) bool {
	switch kind {
	case statemachine.EventResume:
		return true
	case statemachine.EventCancel, statemachine.EventDue:
		return f.Undoes()
	}
	return false
}

// mayResume reports whether what is held may be queued: not within G of the
// pause, since what that found inline its committer may be about to call.
func (l *lane) mayResume(s *slot, out *folded) bool {
	for _, h := range out.held {
		if h.event.Kind == statemachine.EventPause {
			out.more = true
			return false
		}
	}
	if s.state == nil {
		return true // there is no such run yet: nothing is held
	}
	for i := range s.state.Pending {
		if p := &s.state.Pending[i]; p.Place == statemachine.Held {
			if left := l.graceLeft(s, p); left > 0 {
				s.waiting = max(s.waiting, left)
				return false
			}
		}
	}
	return true
}

// sealFold ends the fold. If its record is too large, one event alone is
// tried; if that is still too large, the event is to blame.
func (l *lane) sealFold(ctx context.Context, s *slot, def *statemachine.Definition, f *statemachine.Fold, out *folded) {
	sealed, err := f.Seal()
	var limit *statemachine.LimitError
	switch {
	case err == nil:
		out.sealed = sealed
		s.fold = out
		l.claims(s, out)
	case errors.As(err, &limit) && out.events() > 1:
		l.fold(ctx, s, def, true)
	case len(out.results) > 0 && out.results[0].err == nil:
		out.results[0].fail(err)
		l.fold(ctx, s, def, true)
	case len(out.held) > 0 && s.assumed:
		s.history, s.again = true, true
	case len(out.held) > 0:
		if l.blame(ctx, s, out.held[0], err) {
			l.fold(ctx, s, def, true)
		}
	default:
		l.log.Error("could not seal a record", logkey.Run, s.run, logkey.Error, err)
		l.later(s, l.w.cfg.Retry.Max)
	}
}

// blame holds a message responsible for a record that is too large. What was
// sent to the run has a letter. What the run itself asked for, a time, what came
// of an effect that was accepted, the end of a child, fails for it: nothing else
// will ever tell it. True if the message now says so.
func (l *lane) blame(ctx context.Context, s *slot, h *held, err error) bool {
	switch h.m.Kind {
	case queue.Due, queue.Result, queue.Child:
		if h.failure == nil && h.event.Kind != statemachine.EventBeat {
			h.fail(statemachine.Terminal(statemachine.ClassTooLarge, err))
			return true
		}
	}
	l.refuse(ctx, s, h, err)
	return false
}

// claims lists what the record asks to be done inline here, and what it
// answers.
func (l *lane) claims(s *slot, out *folded) {
	next := out.sealed.Record
	if !l.w.stopping() {
		for i := range next.Pending {
			p := &next.Pending[i]
			if p.Place == statemachine.Inline && p.Rev == next.Rev && s.running[p.ID] == nil && s.holder(p.Wake) != nil {
				out.claims = append(out.claims, p.ID)
			}
		}
	}
	for _, r := range out.results {
		out.release = append(out.release, r.call.pending.ID)
	}
}

// env is what a fold needs of the world; free tells whether flow control has
// nothing against an effect, and may be nil if none is asked.
func (l *lane) env(s *slot, free func(*statemachine.Pending) bool) statemachine.Env {
	inline := len(s.running)
	return statemachine.Env{
		Now: time.Now().UTC(), Build: l.w.cfg.Build, By: l.w.cfg.ID,
		Place: func(p *statemachine.Pending) statemachine.Place {
			if inline >= l.w.cfg.InlinePerRun || !l.inline(s, p) || !free(p) {
				return statemachine.Queued
			}
			inline++
			l.asked++
			return statemachine.Inline
		},
	}
}

// inline decides where a new effect is performed.
func (l *lane) inline(s *slot, p *statemachine.Pending) bool {
	h, ok := l.w.catalog.Handler(p.Effect)
	if !ok || h.Policy.Queued || l.w.stopping() || p.Attempt > 1 || timeout(p, h) > time.Minute {
		return false
	}
	if int(l.w.inlineRunning.Load())+l.asked >= l.w.cfg.InlineMax || p.Depth >= l.w.cfg.WakeDepth {
		return false
	}
	holder := s.holder(p.Wake) // nobody else goes on with it, so do not ask what would only wait
	return holder != nil && time.Since(holder.since) < l.w.cfg.WakeAge
}

// letGo hands the inline effects that are not under way here, and will not
// be, to the fleet: in a stop, where this worker lacks the handler, and where
// flow control holds them up.
func (l *lane) letGo(s *slot, f *statemachine.Fold) int {
	if s.state == nil {
		return 0
	}
	n := 0
	for i := range s.state.Pending {
		p := &s.state.Pending[i]
		_, able := l.w.catalog.Handler(p.Effect)
		if p.Place != statemachine.Inline || able && !l.w.stopping() && l.w.unhindered(p, s.state.Machine, flowState(s.state.Record, p)) || s.running[p.ID] != nil || s.holder(p.Wake) == nil {
			continue
		}
		// What this lane's own last record asks is its own to let go; what
		// another's asks, its committer may be about to call.
		if left := l.graceLeft(s, p); left > 0 && !s.asks(p) {
			s.waiting = max(s.waiting, left)
			continue
		}
		o, err := f.Apply(statemachine.Event{ID: statemachine.QueueEventID(p.ID), Kind: statemachine.EventQueue, Effect: p.ID, At: time.Now().UTC()})
		if err == nil && o == statemachine.Applied {
			n++
		}
	}
	return n
}
