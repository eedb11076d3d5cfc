package statemachine

import (
	"errors"
	"fmt"
	"slices"
)

// ClassSentOn is the class of the failure of a state that a person has sent the
// run on from.
const ClassSentOn = "sent_on"

// SendOn says why a parked run cannot be sent on to another state: nil if it
// can, once the effect, or the wait, that is named is left for good. With none
// named, it is the first that was given up. The id of what is left is returned.
func (r *Record) SendOn(effect string) (string, error) {
	given := func(id string) bool { return effect == "" || id == effect }
	p := slices.IndexFunc(r.Pending, func(p Pending) bool { return p.Place == Parked && p.Tells == "" && given(p.ID) })
	w := slices.IndexFunc(r.Waits, func(w Wait) bool { return w.Cause != nil && given(w.ID) })
	switch {
	case r.Status != StatusParked:
		return "", fmt.Errorf("the run is not %s, but %s", StatusParked, r.Status)
	case r.Ending != nil:
		return "", fmt.Errorf("the run is on its way to its end (%s)", r.Ending.Status)
	case p >= 0 && r.Pending[p].Undoes != "":
		return "", errors.New("an undo is retried or resolved, not left")
	case p >= 0 && r.Pending[p].unknown():
		return "", errors.New("what is in doubt and would have to be undone is resolved first")
	case p >= 0:
		return r.Pending[p].ID, nil
	case w >= 0 && r.Waits[w].Kind == WaitDeadline:
		return "", errors.New("the time of the run is over")
	case w >= 0:
		return r.Waits[w].ID, nil
	}
	return "", errors.New("the run has given up no such effect")
}

// Exits lists the states that a state may lead to, as they are declared.
func (d *Definition) Exits(state string) []string {
	n := d.byName[state]
	if n == nil {
		return nil
	}
	var to []string
	for _, e := range n.exits() {
		if !slices.Contains(to, e.To) {
			to = append(to, e.To)
		}
	}
	return to
}

// Branches lists the names of what a state does at once, in the order in which
// records number them; nil if it has none.
func (d *Definition) Branches(state string) []string {
	n := d.byName[state]
	if n == nil || n.action == nil || n.action.many == nil {
		return nil
	}
	var names []string
	for _, b := range n.action.many.branches {
		names = append(names, b.name)
	}
	return names
}

// sendOn leaves what was given up for good, as a Within does, and enters the
// state that a person chose among the exits of the one the run is in. If the
// run has moved meanwhile it changes nothing.
func (f *Fold) sendOn(e *Event, c Command) error {
	from := f.rec.Frames[0].State
	if _, err := f.rec.SendOn(c.Effect); err != nil || !slices.Contains(f.d.Exits(from), c.To) {
		return nil
	}
	return f.step(e, "", func(s *step) error {
		s.queued = true // what was given up holds no message
		f.abandon()
		s.caught(Cause{Class: ClassSentOn, Message: c.Reason, State: from, By: c.By})
		return s.enter(c.To)
	})
}
