package statemachine

import (
	"errors"
	"fmt"
	"maps"
)

// leave moves on from a state whose action is done.
func (s *step) leave(n *node) error {
	target, err := s.choose(n)
	if err != nil {
		return err
	}
	return s.enter(target)
}

// choose returns where the run goes from a state.
func (s *step) choose(n *node) (string, error) {
	for _, w := range n.whens {
		if w.pred(s.data) {
			return w.to, nil
		}
	}
	if n.next == "" {
		return "", s.fault(ClassUnknownState, fmt.Errorf("no exit applies and no state follows"))
	}
	return n.next, nil
}

// enter moves through states, from the one named, until the run waits for an
// effect or has ended.
func (s *step) enter(name string) error {
	for range MaxMoves {
		n := s.f.d.byName[name]
		if n == nil {
			return s.fault(ClassUnknownState, fmt.Errorf("the machine has no state %q", name))
		}
		if !s.visit(n) {
			name = n.over
			continue
		}
		var err error
		switch n.kind {
		case KindSucceed, KindFail:
			s.end(n)
			return nil
		case KindDecide:
			name, err = s.choose(n)
		case KindCall:
			err = s.ask(n.action)
			to := n.caught(ClassUnknownEffect)
			if err == nil || to == "" || !isUnknownEffect(err) {
				return err
			}
			s.caught(Cause{Class: ClassUnknownEffect, Message: trim(err.Error(), MaxMessage), State: n.name})
			name, err = to, nil
		}
		if err != nil {
			return err
		}
	}
	return s.fault(ClassTooManyMoves, fmt.Errorf("%d moves without an effect", MaxMoves))
}

func isUnknownEffect(err error) bool {
	var fault *FaultError
	return errors.As(err, &fault) && fault.Class == ClassUnknownEffect
}

// visit enters the state, unless it was entered as often as it may be.
func (s *step) visit(n *node) bool {
	visit := 1
	fr := &s.f.rec.Frames[0]
	if n.again {
		visit = fr.Visits[n.name] + 1
	}
	if n.limit > 0 && visit > n.limit {
		return false
	}
	fr = s.frame()
	fr.State, fr.Visit = n.name, visit
	if n.again {
		visits := maps.Clone(fr.Visits)
		if visits == nil {
			visits = map[string]int{}
		}
		visits[n.name] = visit
		fr.Visits = visits
	}
	if s.meta != nil {
		s.meta.visit = visit
	}
	return true
}

// end ends the run.
func (s *step) end(n *node) {
	r := &s.f.rec
	r.Pending, r.Cause = nil, nil
	if n.kind == KindSucceed {
		r.Status = StatusSucceeded
		return
	}
	r.Status = StatusFailed
	c := Cause{Class: n.class, State: n.name}
	last := r.Frames[0].Cause
	switch {
	case n.because != nil:
		c.Message = trim(n.because(s.data), MaxMessage)
	case last != nil:
		c.Message = last.Message
	}
	r.Cause = &c
}

// ask asks for the effect of an action.
func (s *step) ask(a *action) error {
	f := s.f
	effect, input, err := a.pick(s.data)
	var fault *FaultError
	switch {
	case errors.As(err, &fault):
		return s.fault(fault.Class, fault.Err)
	case err != nil:
		return s.fault(ClassInvalidData, err)
	}
	if len(input) == 0 {
		input = rawNull
	}
	p := Pending{
		ID: EffectID(f.rec.Run, s.cause, s.asked), Effect: effect, Print: Fingerprint(effect, input),
		Rev: f.rec.Rev, At: later(f.clock, f.env.Now), Try: 1, Attempt: 1, Timeout: a.timeout,
	}
	s.asked++
	if p.Input, err = f.refer(input); err != nil {
		return err
	}
	if a.key != nil {
		p.Key = a.key(s.data)
		if err := within("key", len(p.Key), MaxID); err != nil {
			return err
		}
		if !validID(p.Key) {
			return s.fault(ClassInvalidData, fmt.Errorf("key %q is not UTF-8", p.Key))
		}
	}
	s.place(&p, s.queued || a.queued != nil && a.queued(s.data))
	f.rec.Pending = append(f.rec.Pending[:len(f.rec.Pending):len(f.rec.Pending)], p)
	return nil
}

// place decides how a new effect is performed.
func (s *step) place(p *Pending, queued bool) {
	f := s.f
	if f.rec.Status == StatusPaused {
		p.Place = Held
		return
	}
	if !queued && f.env.Place != nil {
		p.Wake, p.Depth = s.wake, s.depth
		if f.env.Place(p) == Inline {
			p.Place = Inline
			return
		}
	}
	p.Place, p.Wake, p.Depth = Queued, "", 0
	f.emit(Entry{Kind: EntryEffect, ID: p.ID, Effect: p.Effect})
}
