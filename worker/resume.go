package worker

import (
	"context"
	"errors"
	"time"

	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// candidate is an effect that a message in hand may resume.
type candidate struct {
	s *slot
	p *statemachine.Pending
}

// resume goes on with effects that nobody performs: inline ones whose wake is
// in hand, and queued ones whose message is. Always claim, then look, then
// call: a look before the claim may be out of date when the claim is granted.
func (l *lane) resume(ctx context.Context, slots []*slot) {
	if l.w.stopping() {
		return
	}
	var found []candidate
	for _, s := range slots {
		if s.again || s.state == nil || s.strange != nil {
			continue
		}
		found = l.candidates(found, s)
	}
	if found = l.admitted(ctx, found); len(found) == 0 {
		return
	}
	defer l.returnUnused(found)
	claims := make([]Claim, len(found))
	for i, c := range found {
		claims[i] = l.w.claim(c.s.run, c.p.ID)
	}
	var granted []Granted
	var err error
	asked := time.Now()
	l.beatWhile(ctx, func() {
		l.saver.settled(claims) // or one of ours would be in the way, or its release come after this
		granted, err = l.w.ports.Claims.Claim(ctx, claims)
	})
	if err != nil {
		l.w.trouble(onRedis, err)
		for _, c := range found {
			c.s.waiting = max(c.s.waiting, l.w.cfg.beat())
		}
		return
	}
	var mine []candidate
	for i, c := range found {
		if granted[i].OK {
			mine = append(mine, c)
			continue
		}
		c.s.waiting = max(c.s.waiting, granted[i].Left)
	}
	_ = crash.Point("resume.claimed")
	l.w.metrics.claimed(len(mine), len(found)-len(mine))
	l.lookAndStart(ctx, mine, asked)
}

// candidates lists what of a run may be gone on with here and now.
func (l *lane) candidates(found []candidate, s *slot) []candidate {
	for i := range s.state.Pending {
		p := &s.state.Pending[i]
		if s.running[p.ID] != nil || s.returned(p.ID) {
			continue
		}
		if _, ok := l.w.catalog.Handler(p.Effect); !ok {
			continue
		}
		switch p.Place {
		case statemachine.Inline:
			if s.holder(p.Wake) == nil {
				continue
			}
			if left := l.graceLeft(s, p); left > 0 && !s.asks(p) {
				s.waiting = max(s.waiting, left)
				continue
			}
		case statemachine.Queued:
			if s.effectMessage(p.ID) == nil {
				continue
			}
		default:
			continue
		}
		found = append(found, candidate{s, p})
	}
	return found
}

// returned reports whether a result of the effect is in hand.
func (s *slot) returned(id string) bool {
	for _, r := range s.results {
		if r.call.pending.ID == id {
			return true
		}
	}
	return false
}

// effectMessage returns the EFFECTS message of an effect that is in hand, or
// nil.
func (s *slot) effectMessage(id string) *held {
	for _, h := range s.held {
		if h.m.Kind == queue.Effect && h.m.ID == id && !h.spent {
			return h
		}
	}
	return nil
}

// handedOn reports whether the state's record turned an inline effect into a
// queued one: somebody may have begun it, though its message is new.
func (s *slot) handedOn(id string) bool {
	for i := range s.state.Events {
		if e := &s.state.Events[i]; e.Kind == statemachine.EventQueue && e.Effect == id {
			return true
		}
	}
	return false
}

// graceLeft is how long the committer of the record that asks p is still to
// be left alone. The record's age is taken by the broker's time where the
// copy knows it.
func (l *lane) graceLeft(s *slot, p *statemachine.Pending) time.Duration {
	asked := p.At
	if p.Rev == s.state.Rev && !s.state.Time.IsZero() {
		asked = s.state.Time
	}
	return l.w.cfg.grace() - time.Since(asked)
}

// lookAndStart looks at the runs of claimed effects, side by side, and calls
// what is still pending in its place. Asked is when the claims were asked for:
// a look that took most of their lease comes too late, since another may have
// them, and have looked, by the time of the call.
func (l *lane) lookAndStart(ctx context.Context, mine []candidate, asked time.Time) {
	if len(mine) == 0 {
		return
	}
	looks := make([]Look, len(mine))
	for i, c := range mine {
		looks[i] = Look{Run: c.s.run, Known: c.s.state}
	}
	var read []*statemachine.Stored
	var errs []error
	l.beatWhile(ctx, func() { read, errs = l.w.ports.Log.Looks(ctx, looks) })
	_ = crash.Point("resume.looked")
	late := time.Since(asked) > l.w.cfg.lease()/2
	var free []Claim
	for i, c := range mine {
		switch err := errs[i]; {
		case err == nil && late:
			free = append(free, l.w.claim(c.s.run, c.p.ID))
			continue
		case errors.Is(err, statemachine.ErrFormat): // somebody newer has the run
			c.s.strange, c.s.again = err, true
			free = append(free, l.w.claim(c.s.run, c.p.ID))
			continue
		case err != nil:
			l.w.trouble(onNATS, err) // the claim runs out by itself
			c.s.waiting = max(c.s.waiting, l.w.cfg.lease())
			continue
		}
		if id := c.p.ID; !l.looked(c.s, *c.p, read[i]) {
			free = append(free, l.w.claim(c.s.run, id))
		}
	}
	l.release(ctx, free)
}

// looked acts on a look that was made after the claim of an effect was; it
// reports whether the handler was called.
func (l *lane) looked(s *slot, was statemachine.Pending, r *statemachine.Stored) bool {
	if r == nil || r.Seq < s.state.Seq { // whoever answered is behind: that confirms nothing
		s.waiting = max(s.waiting, l.w.cfg.beat())
		return false
	}
	if r.Seq > s.state.Seq {
		s.again = true // its outbox, and what else it asks
	}
	l.found(s, r)
	now := s.pending(was.ID)
	if now == nil || now.Place != was.Place {
		return false
	}
	switch {
	case now.Place == statemachine.Queued && s.effectMessage(now.ID) != nil:
		l.start(s, now, s.effectMessage(now.ID).m.Delivered > 1 || s.handedOn(now.ID))
		return true
	case now.Place == statemachine.Inline && s.holder(now.Wake) != nil:
		left := l.graceLeft(s, now)
		if left <= 0 || s.asks(now) {
			l.start(s, now, s.holder(now.Wake).m.Delivered > 1)
			return true
		}
		s.waiting = max(s.waiting, left)
	}
	return false
}

// release lets go of claims whose effects are answered, or not ours to do.
func (l *lane) release(ctx context.Context, claims []Claim) {
	if len(claims) == 0 {
		return
	}
	var err error
	l.beatWhile(ctx, func() {
		l.saver.settled(claims) // they may be on their way
		err = l.w.ports.Claims.Release(ctx, claims)
	})
	if err != nil {
		l.w.trouble(onRedis, err)
	}
}

// drop forgets a result that answers nothing any more. Its claim goes: the
// record that answered the effect is durable.
func (l *lane) drop(ctx context.Context, s *slot, r *result) {
	for i, o := range s.results {
		if o == r {
			s.results = append(s.results[:i:i], s.results[i+1:]...)
			break
		}
	}
	l.w.metrics.call(&r.call.pending, callDropped)
	l.log.Info("dropped a result", logkey.Run, s.run, logkey.Effect, r.call.pending.Effect, logkey.EffectID, r.call.pending.ID)
	l.release(ctx, []Claim{l.w.claim(s.run, r.call.pending.ID)})
}

// start calls a handler beside the lane. Again says that it may have been
// begun before.
func (l *lane) start(s *slot, p *statemachine.Pending, again bool) {
	h, ok := l.w.catalog.Handler(p.Effect)
	if !ok || s.running[p.ID] != nil {
		return
	}
	limit := timeout(p, h)
	c := &call{pending: *p, again: again}
	c.over.Store(time.Now().Add(limit).UnixNano())
	s.running[p.ID] = c
	if p.Place == statemachine.Inline {
		l.w.inlineRunning.Add(1)
	}
	l.w.metrics.running.Inc()
	a := &attempt{w: l.w, run: s.run, logs: s.state.Logs, c: c, h: h, limit: limit}
	if o := s.state.Origin; o != nil && !p.Told() && p.Undoes == "" {
		a.of, a.spot = o, s.state.Spot(p)
	}
	l.calls.Add(1)
	go a.perform(func(r *result) {
		defer l.calls.Done()
		if c.pending.Place == statemachine.Inline {
			l.w.inlineRunning.Add(-1)
		}
		l.w.metrics.running.Dec()
		l.w.permits.done(c.pending.ID, true)
		select {
		case l.in <- item{run: a.run, result: r}:
		case <-l.w.work.Done(): // the lane is gone
		}
	})
}
