package statemachine

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// gate begins an approval.
func (s *step) gate(act *action) error {
	n, err := s.here()
	if err != nil {
		return err
	}
	a := act.approval(s.data)
	if err := a.Check(); err != nil {
		return s.fault(ClassInvalidData, fmt.Errorf("approval: %w", err))
	}
	if n.within == nil && !n.forever && a.Expire == 0 {
		return s.fault(ClassInvalidData, errors.New("approval: the state says neither Within nor Forever, and it does not expire"))
	}
	shown, err := act.shown(s.data)
	if err != nil {
		return s.fault(ClassInvalidData, err)
	}
	g := &Gate{
		By: slices.Clone(a.By), Quorum: max(a.Quorum, 1), Pinned: a.Pinned, Visit: s.f.rec.Frames[0].Visit,
		Hash: digest(shown), Remind: Duration(a.Remind), Default: a.Default,
	}
	for _, e := range a.Escalate {
		g.Escalate = append(g.Escalate, Level{Duration(e.After), e.By})
	}
	if g.Shown, err = s.f.refer(shown); err != nil {
		return err
	}
	w := Wait{Kind: WaitApproval, Item: s.item, Gate: g}
	if a.Expire != 0 {
		if w.Due, err = s.until("Expire", a.Expire); err != nil {
			return err
		}
	}
	s.arm(w)
	id := s.f.rec.Waits[len(s.f.rec.Waits)-1].ID
	if a.Remind != 0 {
		due := s.now().Add(a.Remind)
		s.arm(Wait{Kind: WaitRemind, Of: id, Due: &due})
	}
	if len(a.Escalate) > 0 {
		due := s.now().Add(a.Escalate[0].After)
		s.arm(Wait{Kind: WaitEscalate, Of: id, Due: &due})
	}
	return s.tell(n, act, id, Notice{Kind: NoticeAsk, To: g.By})
}

// asking is the action that waits for an approval.
func (s *step) asking(n *node, w *Wait) (*action, error) {
	a := n.action
	if w.Item > 0 && a.many != nil {
		if size, one := a.many.open(s.data); w.Item <= size {
			a = one(w.Item - 1)
		}
	}
	if a.approval == nil {
		return nil, s.fault(ClassUnknownState, errors.New("the machine asks for no such approval in this state"))
	}
	return a, nil
}

// tell asks for the effect by which approvers hear of an approval.
func (s *step) tell(n *node, a *action, approval string, what Notice) error {
	if a.tell == nil {
		return nil
	}
	w, _ := s.f.rec.Gate(approval)
	what.Approval, what.Hash, what.Deadline = approval, w.Gate.Hash, s.f.rec.Deadline(w)
	if what.Kind == NoticeAsk && n.within != nil { // it is armed with what the state waits for
		due, err := s.until("Within", n.within(s.data))
		if err != nil {
			return err
		}
		if what.Deadline == nil || due.Before(*what.Deadline) {
			what.Deadline = due
		}
	}
	if s.meta != nil {
		s.meta.notice = &what
		defer func() { s.meta.notice = nil }()
	}
	p, queued, err := s.request(a.tell)
	if err != nil {
		return err
	}
	s.f.silence(func(p *Pending) bool { return p.Tells == approval && p.Place == Parked })
	p.Tells = approval
	s.pend(p, queued)
	return nil
}

// silence drops effects that tell somebody of an approval.
func (f *Fold) silence(which func(*Pending) bool) {
	for _, p := range f.rec.Pending {
		if p.Tells != "" && which(&p) {
			f.retract(p.ID)
			f.remove(p.ID)
		}
	}
}

// regate changes the gate of an approval.
func (f *Fold) regate(id string, change func(g *Gate)) {
	f.rewait(id, func(w *Wait) {
		g := *w.Gate
		change(&g)
		w.Gate = &g
	})
}

// rearm lets a wait begin anew, until another time.
func (f *Fold) rearm(id string, due time.Time) {
	f.rewait(id, func(w *Wait) {
		w.Try++
		w.Due = &due
		if e, ok := w.Timer(); ok {
			f.emit(e)
		}
	})
}

// remind tells those who have not answered, unless they are being told yet, and
// lets the next reminder come.
func (s *step) remind(n *node, w Wait) error {
	f := s.f
	a, ok := f.rec.Gate(w.Of)
	if !ok || w.Try >= MaxReminders {
		f.unwait(w.ID)
	} else {
		f.rearm(w.ID, w.Due.Add(time.Duration(a.Gate.Remind)))
	}
	told := func(p Pending) bool { return p.Tells == w.Of && p.Place != Parked }
	if !ok || slices.ContainsFunc(f.rec.Pending, told) {
		return nil
	}
	act, err := s.asking(n, a)
	if err != nil {
		return err
	}
	return s.tell(n, act, w.Of, Notice{Kind: NoticeRemind, To: a.Gate.Missing(), Reminder: w.Try})
}

// escalate lets others decide as well, and tells them.
func (s *step) escalate(n *node, w Wait) error {
	f := s.f
	a, ok := f.rec.Gate(w.Of)
	if !ok || len(a.Gate.Escalate) == 0 {
		f.unwait(w.ID)
		return nil
	}
	now, rest := a.Gate.Escalate[0], a.Gate.Escalate[1:]
	f.regate(a.ID, func(g *Gate) {
		g.By = slices.Clone(g.By)
		for _, who := range now.By {
			if !slices.Contains(g.By, who) {
				g.By = append(g.By, who)
			}
		}
		g.Escalate = slices.Clone(rest)
	})
	if len(rest) == 0 {
		f.unwait(w.ID)
	} else {
		f.rearm(w.ID, a.At.Add(time.Duration(rest[0].After)))
	}
	act, err := s.asking(n, a)
	if err != nil {
		return err
	}
	return s.tell(n, act, w.Of, Notice{Kind: NoticeEscalate, To: now.By})
}

// decided gives the data what an approval came to, and goes on. What reminds
// people of it, or tells them, ends.
func (s *step) decided(n *node, w Wait, what Decision) error {
	if _, err := s.asking(n, &w); err != nil {
		return err
	}
	body, err := marshal(what)
	if err != nil {
		return s.fault(ClassInvalidData, err)
	}
	for _, o := range s.f.rec.Waits {
		if o.Of == w.ID {
			s.f.unwait(o.ID)
		}
	}
	s.f.silence(func(p *Pending) bool { return p.Tells == w.ID })
	return s.heard(n, w, body)
}

// approval takes what an approver says or hands on, or says why not.
func (f *Fold) approval(e *Event, c Command) error {
	if why := f.rec.Refusal(e.Kind, c, e.At); why != nil {
		f.refused(e, why)
		return nil
	}
	return f.asked(e, func() error {
		if e.Kind == EventDelegate {
			return f.delegate(e, c)
		}
		return f.decide(e, c)
	})
}

// decide takes what an approver says, and goes on if that decides.
func (f *Fold) decide(e *Event, c Command) error {
	f.regate(c.Approval, func(g *Gate) {
		g.Answers = append(g.Answers[:len(g.Answers):len(g.Answers)], Vote{By: c.By, Verdict: c.Verdict, At: f.clock, Reason: c.Reason})
	})
	w, _ := f.rec.Gate(c.Approval)
	verdict := w.Gate.decides()
	if verdict == "" {
		return nil
	}
	return f.step(e, "", func(s *step) error {
		s.queued = true // no message is held that would wake it
		n, err := s.here()
		if err != nil {
			return err
		}
		return s.decided(n, *w, Decision{Verdict: verdict, Answers: w.Gate.Answers})
	})
}

// delegate hands an approver's part to somebody else, who is told.
func (f *Fold) delegate(e *Event, c Command) error {
	from, _ := approver(c.By)
	f.regate(c.Approval, func(g *Gate) {
		g.By = slices.Clone(g.By)
		g.By[slices.Index(g.By, from)] = c.To
		g.Delegated = append(g.Delegated[:len(g.Delegated):len(g.Delegated)], Delegation{From: c.By, To: c.To, At: f.clock, Reason: c.Reason})
	})
	return f.step(e, "", func(s *step) error {
		s.queued = true
		n, err := s.here()
		if err != nil {
			return err
		}
		w, _ := f.rec.Gate(c.Approval)
		act, err := s.asking(n, w)
		if err != nil {
			return err
		}
		return s.tell(n, act, w.ID, Notice{Kind: NoticeDelegate, To: []string{c.To}})
	})
}
