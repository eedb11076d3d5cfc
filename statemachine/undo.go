package statemachine

import (
	"encoding/json"
	"fmt"
	"slices"
)

// maxUndo is the most that one Undo counts.
const maxUndo = undoFrame + 2*maxName + MaxInline + MaxID

// undosSize is the size of Undos as the limit counts it.
func undosSize(undos []Undo) int {
	n := 0
	for i := range undos {
		u := &undos[i]
		n += undoFrame + len(u.State) + len(u.Effect) + len(u.Key) + len(u.Flow) + len(u.Input)
	}
	return n
}

// register notes how to take back the effect of a state, whose result is in the
// data.
func (s *step) register(n *node, effect string) error {
	if n.undo == nil {
		return s.fault(ClassUnknownState, fmt.Errorf("the machine has no Undo in this state"))
	}
	p, queued, err := s.request(n.undo)
	if err != nil {
		return err
	}
	undos := s.f.rec.Undos
	s.f.rec.Undos = append(undos[:len(undos):len(undos)], Undo{
		Of: effect, State: n.name, Effect: p.Effect, Key: p.Key, Flow: p.Flow, Input: p.Input, Print: p.Print, Timeout: p.Timeout, Queued: queued,
	})
	return nil
}

// unwind does the next of what is left to be done before the run ends, or
// leaves a state that unwinds: first what is under way has its outcome, then
// what was done is undone, one after the other, the last first.
//
// So an Undo is asked for by a record in which the effect that it takes back
// has its result: no worker starts that effect any more, and what it did is
// known.
func (s *step) unwind() error {
	r := &s.f.rec
	if len(r.Pending) > 0 {
		return nil
	}
	if left := len(r.Undos); left > 0 {
		u := &r.Undos[left-1]
		s.pend(Pending{Effect: u.Effect, Key: u.Key, Flow: u.Flow, Input: u.Input, Print: u.Print, Timeout: u.Timeout, Undoes: u.Of}, u.Queued)
		return nil
	}
	if r.Ending != nil {
		s.f.finish(*r.Ending)
		return nil
	}
	n := s.f.d.byName[r.Frames[0].State]
	if n == nil || n.kind != KindUnwind {
		return s.fault(ClassUnknownState, fmt.Errorf("the machine does not unwind in this state"))
	}
	return s.leave(n)
}

// undone takes the result of an Undo, and goes on with the next.
func (s *step) undone(p Pending, result json.RawMessage) error {
	r := &s.f.rec
	left := len(r.Undos) - 1
	if left < 0 || r.Undos[left].Of != p.Undoes {
		return s.fault(ClassUnknownState, fmt.Errorf("effect %s undoes nothing that was registered", p.ID))
	}
	n := s.f.d.byName[r.Undos[left].State]
	if n == nil || n.undo == nil {
		return s.fault(ClassUnknownState, fmt.Errorf("the machine has no Undo in state %q", r.Undos[left].State))
	}
	if err := n.undo.take(s.data, result); err != nil {
		return s.fault(ClassInvalidResult, err)
	}
	r.Undos = r.Undos[:left:left]
	return s.unwind()
}

// Undoes reports whether a run that ends now has something to undo first, or
// may have: what is pending counts unless it was given up.
func (f *Fold) Undoes() bool {
	if len(f.rec.Undos) > 0 || f.rec.Ending != nil {
		return true
	}
	for i := range f.rec.Pending {
		if p := &f.rec.Pending[i]; p.CanUndo && (p.Place != Parked || p.unknown()) {
			return true
		}
	}
	return false
}

// unknown reports whether the effect was given up, and may have been performed
// all the same: it can be undone once a person has said so.
func (p *Pending) unknown() bool {
	return p.CanUndo && p.Cause != nil && p.Cause.Class == ClassInDoubt
}

// end ends the run where it is, after what there is to undo.
func (f *Fold) end(cause string, end Ending) error {
	if f.Undoes() {
		return f.windUp(cause, end)
	}
	f.cutShort(end)
	return nil
}

// cutShort ends the run at once. Messages that this record would have sent for
// what it drops are not sent.
func (f *Fold) cutShort(end Ending) {
	by := EventCancel
	if end.Cause != nil && end.Cause.Class == ClassTerminated {
		by = EventTerminate
	}
	for i := range f.rec.Pending {
		f.drop(&f.rec.Pending[i], by)
	}
	f.finish(end)
}

// windUp lets a run end once it is unwound. What may be under way is waited
// for: nobody can say of an effect that was asked for whether a worker has
// begun it. What is not, and has no Undo, is dropped; so is what was given up, unless that is in
// doubt.
// A run that was paused is so no longer.
func (f *Fold) windUp(cause string, end Ending) error {
	if f.rec.Ending == nil {
		f.rec.Ending = &end
	}
	f.settle(true)
	if f.rec.Status == StatusPaused {
		f.rec.Status = StatusRunning
	}
	for _, p := range f.rec.Pending {
		switch {
		case p.Tells != "":
			f.retract(p.ID)
			f.remove(p.ID)
		case p.Place == Parked && p.unknown(): // a person says what it came to
		case p.Place == ChildRun && !p.Child.Abandon && !f.emits(EntryChild, p.ID): // it undoes what it did, and then answers
			f.stop(&p, EventCancel)
		case p.Child != nil:
			f.drop(&p, EventCancel)
			f.remove(p.ID)
		case p.Undoes == "" && (p.Place == Parked || !p.CanUndo && (p.Place == Retry || p.Place == Held)):
			f.retract(p.ID)
			f.remove(p.ID)
		case p.Place == Held:
			f.replace(p.ID, f.queue)
		}
	}
	f.rest()
	s := &step{f: f, cause: cause, queued: true} // no message is held that would wake it
	return s.unwind()
}

// finish ends the run.
func (f *Fold) finish(end Ending) {
	f.settle(true)
	r := &f.rec
	r.Status, r.Cause = end.Status, end.Cause
	r.Pending, r.Undos, r.Ending = nil, nil, nil
	if r.Frames[0].Fan != nil {
		r.Frames = slices.Clone(r.Frames)
		r.Frames[0].Fan = nil
	}
	if r.Status == StatusCancelled {
		r.Inbox = nil
	}
}
