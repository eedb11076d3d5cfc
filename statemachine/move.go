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
	if n.action != nil {
		if over := s.overspent(); over != "" {
			return over, nil
		}
	}
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
		case KindSucceed:
			s.f.finish(Ending{Status: StatusSucceeded})
			return nil
		case KindFail:
			s.f.settle(true)
			s.f.rec.Ending = &Ending{Status: StatusFailed, Cause: s.failed(n)}
			return s.unwind()
		case KindUnwind:
			if len(s.f.rec.Undos) > 0 {
				return s.unwind()
			}
			name, err = s.choose(n)
		case KindDecide:
			name, err = s.choose(n)
		case KindRoll:
			s.f.roll()
			if err = s.hear(n, nil); err == nil {
				name, err = s.choose(n)
			}
		case KindSleep, KindSignal, KindApprove:
			body, waits, failed := s.wait(n.action)
			if waits && failed == nil {
				return s.bound(n)
			}
			if err = failed; err == nil {
				err = s.hear(n, body)
			}
			if err == nil {
				name, err = s.choose(n)
			}
		case KindEach, KindAll, KindFirst:
			var waits bool
			name, waits, err = s.spread(n)
			if waits && err == nil {
				return s.bound(n)
			}
		case KindCall, KindChild:
			if err = s.ask(n); err == nil {
				err = s.bound(n)
			}
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
	s.f.settle(false)
	fr = s.frame()
	fr.State, fr.Visit, fr.Fan = n.name, visit, nil
	s.item, s.f.most = 0, min(s.f.most, n.inline(nil))
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

// failed is the cause of a failing end.
func (s *step) failed(n *node) *Cause {
	c := &Cause{Class: n.class, State: n.name}
	last := s.f.rec.Frames[0].Cause
	switch {
	case n.because != nil:
		c.Message = trim(n.because(s.data), MaxMessage)
	case last != nil:
		c.Message = last.Message
	}
	return c
}

// ask asks for the effect of a state.
func (s *step) ask(n *node) error {
	var p Pending
	var queued bool
	var err error
	if n.kind == KindChild {
		p, err = s.requestChild(n.action)
	} else {
		p, queued, err = s.request(n.action)
	}
	if err != nil {
		return err
	}
	if p.CanUndo = n.undo != nil; p.CanUndo { // there must be room for it once it is known
		if err := within("undos", undosSize(s.f.rec.Undos)+maxUndo, MaxUndos); err != nil {
			return err
		}
	}
	s.pend(p, queued)
	return nil
}

// request computes the effect that an action asks for.
func (s *step) request(a *action) (p Pending, queued bool, err error) {
	effect, input, err := a.pick(s.data)
	var fault *FaultError
	switch {
	case errors.As(err, &fault):
		return p, false, s.fault(fault.Class, fault.Err)
	case err != nil:
		return p, false, s.fault(ClassInvalidData, err)
	}
	if len(input) == 0 {
		input = rawNull
	}
	p = Pending{Effect: effect, Print: Fingerprint(effect, input), Timeout: a.timeout}
	if p.Input, err = s.f.refer(input); err != nil {
		return p, false, err
	}
	if a.key != nil {
		if p.Key = a.key(s.data); p.Key != "" && s.f.rec.Origin != nil {
			p.Key += "~" + digest([]byte(s.f.rec.Run)) // the original's key stands for what the original did
		}
		if err := within("key", len(p.Key), MaxID); err != nil {
			return p, false, err
		}
		if !validID(p.Key) {
			return p, false, s.fault(ClassInvalidData, fmt.Errorf("key %q is not UTF-8", p.Key))
		}
	}
	if a.flow != nil {
		p.Flow = a.flow(s.data)
		if err := within("flow key", len(p.Flow), MaxID); err != nil {
			return p, false, err
		}
		if !validID(p.Flow) {
			return p, false, s.fault(ClassInvalidData, fmt.Errorf("flow key %q is not UTF-8", p.Flow))
		}
	}
	return p, a.queued != nil && a.queued(s.data), nil
}

// pend adds an effect to those that are pending.
func (s *step) pend(p Pending, queued bool) {
	f := s.f
	p.ID = EffectID(f.rec.Run, s.cause, s.asked)
	p.Rev, p.At, p.Try, p.Attempt = f.rec.Rev, later(f.clock, f.env.Now), 1, 1
	s.asked++
	s.place(&p, s.queued || queued)
	f.rec.Pending = append(f.rec.Pending[:len(f.rec.Pending):len(f.rec.Pending)], p)
}

// place decides how a new effect is performed.
func (s *step) place(p *Pending, queued bool) {
	f := s.f
	if f.rec.Status == StatusPaused {
		p.Place = Held
		return
	}
	if p.Child != nil && f.rec.Origin != nil {
		c := Cause{Class: ClassUnconfirmed, Message: "a fork starts no child unasked", State: f.State()}
		f.rec.Status, f.rec.Cause, p.Place, p.Cause = StatusParked, &c, Parked, &c
		return
	}
	if p.Child != nil {
		f.begin(p)
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
