package statemachine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// take applies an event that has business with the state it meets.
func (f *Fold) take(e *Event) error {
	f.clock = later(f.clock, e.At)
	f.most = MaxInline
	if len(f.rec.Frames) > 0 {
		f.most = f.d.byName[f.State()].inline(f.rec.Frames[0].Fan)
	}
	body, err := compact(e.Body)
	if err != nil {
		return &FaultError{Class: ClassInvalidInput, State: f.rec.To, Err: err}
	}
	if err := depthWithin("value", body); err != nil {
		return err
	}
	switch e.Kind {
	case EventStart:
		err = f.start(e, body)
	case EventFork:
		err = f.fork(body, e)
	default:
		err = f.turn(e, body)
	}
	if err != nil {
		return err
	}
	if f.rec.Status.Ended() {
		if f.rec.Parent != nil {
			f.emit(Entry{Kind: EntryAnswer, ID: f.rec.Parent.Effect})
		}
		f.emit(Entry{Kind: EntryFinished, ID: finishedID})
	}
	if e.Body, err = f.refer(body); err != nil {
		return err
	}
	f.rec.Events = append(f.rec.Events[:len(f.rec.Events):len(f.rec.Events)], *e)
	f.rec.To = f.rec.Frames[0].State
	return f.limits()
}

// turn applies an event to a run that exists.
func (f *Fold) turn(e *Event, body json.RawMessage) error {
	switch e.Kind {
	case EventSignal:
		return f.signal(e, body)
	case EventResult:
		return f.result(e, body)
	case EventFailure, EventLapse:
		return f.failure(e)
	case EventChild:
		return f.ended(e, body)
	case EventCallback:
		return f.callback(e, body)
	case EventBeat:
		f.prolong(e)
		return nil
	}
	if e.Kind.IsCommand() {
		return f.command(e, body)
	}
	if e.Kind == EventDue && f.rec.wait(e.Effect) >= 0 {
		return f.elapsed(e)
	}
	if e.Cause != nil { // due, and the record that queues it could not be stored
		return f.failure(e)
	}
	f.replace(e.Effect, f.queue) // due, queue
	return nil
}

// start begins the run.
func (f *Fold) start(e *Event, body json.RawMessage) error {
	f.rec.Input, f.rec.Tenant, f.rec.Parent = Fingerprint(f.d.Name, body), e.Tenant, e.Parent
	f.rec.Status = StatusRunning
	f.rec.Frames = []Frame{{ID: 0, Kind: FrameRoot}}
	return f.step(e, StartEventID, func(s *step) error {
		if err := s.admit(body); err != nil {
			return err
		}
		if len(f.d.nodes) == 0 {
			return s.fault(ClassUnknownState, errNoStates)
		}
		if e.Due == nil || !e.Due.After(s.now()) {
			return s.begin()
		}
		if wait := e.Due.Sub(s.now()); wait > MaxWait {
			return s.fault(ClassInvalidInput, fmt.Errorf("it is to begin at %s: at most %s from now", e.Due.Format(time.RFC3339), MaxWait))
		}
		f.rec.Frames[0].State = f.d.nodes[0].name
		s.arm(Wait{Kind: WaitStart, Due: e.Due})
		return nil
	})
}

// begin enters the first state.
func (s *step) begin() error {
	s.deadline()
	return s.enter(s.f.d.nodes[0].name)
}

// deadline begins the wait that bounds the run, if it has a bound.
func (s *step) deadline() {
	if s.f.d.longest > 0 {
		due := s.now().Add(s.f.d.longest)
		s.arm(Wait{Kind: WaitDeadline, Due: &due})
	}
}

// result takes the answer to an effect, wherever the effect is.
func (f *Fold) result(e *Event, body json.RawMessage) error { return f.answer(e, e.Effect, body) }

// answer ends a pending effect with its result.
func (f *Fold) answer(e *Event, effect string, body json.RawMessage) error {
	p := f.remove(effect)
	if p.Place == Parked {
		f.rest()
	}
	if p.Tells != "" {
		return nil // somebody was told: the run waits for what they say
	}
	return f.step(e, "", func(s *step) error {
		s.inherit(p)
		if p.Undoes != "" {
			return s.undone(p, body)
		}
		n, err := s.here()
		if err != nil {
			return err
		}
		if p.Item > 0 {
			if f.rec.Ending != nil {
				return s.unwind()
			}
			s.item = p.Item
			return s.proceed(n, body, nil)
		}
		if err := n.action.take(s.data, body); err != nil {
			return s.fault(ClassInvalidResult, err)
		}
		if p.CanUndo && !e.Recorded { // what the original did, it may take back
			if err := s.register(n, p.ID); err != nil {
				return err
			}
		}
		if f.rec.Ending != nil {
			return s.unwind()
		}
		return s.leave(n)
	})
}

// failure notes a failed try: the effect waits for the next, or is given up.
func (f *Fold) failure(e *Event) error {
	c := Cause{Class: ClassError}
	if e.Cause != nil {
		c = *e.Cause
	}
	p := *f.pending(e.Effect)
	c.State, c.Effect, c.Attempt = f.rec.Frames[p.Frame].State, p.Effect, p.Attempt
	e.Cause = &c
	if f.rec.Ending != nil && p.Undoes == "" && !p.CanUndo {
		e.RetryAt = nil // the run ends: it is tried no more
	}
	if e.RetryAt == nil {
		return f.giveUp(e, p, c)
	}
	f.replace(p.ID, func(p *Pending) {
		f.fail(p, c)
		p.Place, p.RetryAt = Retry, e.RetryAt
		p.Try++
		if !e.Free {
			p.Attempt++
		}
		f.emit(Entry{Kind: EntryTimer, ID: p.ID, Effect: p.Effect, Try: p.Try, Due: e.RetryAt})
	})
	return nil
}

// fail notes why a try of a pending effect failed.
func (f *Fold) fail(p *Pending, c Cause) {
	p.Wake, p.Depth, p.RetryAt, p.Cause = "", 0, nil, &c
	if p.First == nil {
		first := f.clock
		p.First = &first
	}
}

// giveUp routes the failure to where the state catches it; else, or if the
// machine cannot go on from there, the run is parked. A run that ends goes on
// to its end; only an Undo that fails parks it, and what can be undone and nobody
// knows whether it was done.
func (f *Fold) giveUp(e *Event, p Pending, c Cause) error {
	if c.Class == ClassUnconfirmed && f.rec.Ending == nil && p.Undoes == "" {
		f.unconfirmed(p.ID, c)
		return nil
	}
	if p.Undoes != "" || p.Tells != "" || f.rec.Ending != nil && p.CanUndo && c.Class == ClassInDoubt {
		return f.park(p.ID, c)
	}
	if f.rec.Ending != nil {
		f.remove(p.ID)
		s := &step{f: f, cause: e.ID}
		s.inherit(p)
		return s.unwind()
	}
	n := f.d.byName[c.State]
	if n != nil && f.goesOn(n, p, c.Class) {
		before := f.post
		err := f.route(e, p, c, n)
		if err == nil {
			err = f.limits()
		}
		if err == nil {
			return nil
		}
		f.post, f.data = before, nil
		if isMissing(err) {
			return err
		}
		c.Message = trim(c.Message+"; where it is caught: "+err.Error(), MaxMessage)
	}
	return f.park(p.ID, c)
}

// goesOn reports whether the machine says what follows when the effect is given
// up.
func (f *Fold) goesOn(n *node, p Pending, class string) bool {
	if p.Item > 0 {
		return n.action != nil && n.action.many != nil && f.bears(n, class)
	}
	return n.caught(class) != ""
}

// route goes on from an effect that is given up: the state leaves through a
// Catch or, if it does many at once, may have that as an outcome.
func (f *Fold) route(e *Event, p Pending, c Cause, n *node) error {
	f.remove(p.ID)
	return f.step(e, "", func(s *step) error {
		s.inherit(p)
		if p.Item > 0 {
			s.item = p.Item
			return s.proceed(n, nil, &c)
		}
		s.caught(c)
		return s.enter(n.caught(c.Class))
	})
}

// park lets the run wait for a person, and tells the dead letters.
func (f *Fold) park(id string, c Cause) error {
	if tells := f.pending(id).Tells != ""; !tells && f.rec.Status != StatusPaused { // else it is parked when it is resumed
		f.rec.Status, f.rec.Cause = StatusParked, &c
	}
	var err error
	f.replace(id, func(p *Pending) {
		f.fail(p, c)
		p.Place = Parked
		var body json.RawMessage
		letter := f.letter(p, c)
		body, err = marshal(letter)
		f.emit(Entry{Kind: EntryLetter, ID: letter.ID, Effect: p.Effect, Body: body})
	})
	return err
}

// replace changes a pending effect; this record gives it its place.
func (f *Fold) replace(id string, change func(p *Pending)) {
	f.rec.Pending = slices.Clone(f.rec.Pending)
	p := f.pending(id)
	change(p)
	p.Rev, p.At = f.rec.Rev, later(f.clock, f.env.Now)
}

// remove takes a pending effect out.
func (f *Fold) remove(id string) Pending {
	p := *f.pending(id)
	rest := make([]Pending, 0, len(f.rec.Pending))
	for _, q := range f.rec.Pending {
		if q.ID != id {
			rest = append(rest, q)
		}
	}
	f.rec.Pending = rest
	return p
}

// emit puts an entry into the outbox.
func (f *Fold) emit(e Entry) {
	f.rec.Outbox = append(f.rec.Outbox[:len(f.rec.Outbox):len(f.rec.Outbox)], e)
}
