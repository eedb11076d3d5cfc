package statemachine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// update is what a run can be told that answers, without the types.
type update struct {
	name string
	fits func(body json.RawMessage) error
	take func(data any, body json.RawMessage) (any, error) // nil: it has none
}

// Update declares a signal that the machine answers, under a name: take
// accepts it and returns the answer, or refuses it with an error, and then
// nothing of the run has changed. The error's class is "refused", or that which
// [Terminal] or [Classed] gave it. Take is pure, and is called once for an id of
// an update: who sends the same again is told the same. A run takes updates in
// any state, also while it is paused or parked, but not on its way to its end;
// what it waits for goes on waiting.
//
// The payload has at most MaxSignal bytes of JSON, the answer MaxReply.
func Update[T, P, A any](m *Machine[T], name string, take func(*T, P) (A, error)) {
	u := update{name: name}
	u.fits = func(body json.RawMessage) error { return unmarshal(body, new(P)) }
	if take != nil {
		u.take = func(d any, body json.RawMessage) (any, error) {
			var p P
			if err := unmarshal(body, &p); err != nil {
				return nil, err
			}
			return take(d.(*T), p)
		}
	}
	m.updates = append(m.updates, u)
}

// Updates are the names of the updates that runs of the machine take.
func (d *Definition) Updates() []string {
	names := make([]string, len(d.updates))
	for i, u := range d.updates {
		names[i] = u.name
	}
	return names
}

// CheckUpdate says why no run of the machine takes an update: a *FaultError of
// ClassUnknownUpdate or ClassInvalidInput.
func (d *Definition) CheckUpdate(name string, body json.RawMessage) error {
	_, err := d.update(name, body)
	return err
}

// update finds an update, and checks that a payload fits it.
func (d *Definition) update(name string, body json.RawMessage) (*update, error) {
	at := slices.IndexFunc(d.updates, func(u update) bool { return u.name == name })
	if at < 0 {
		return nil, &FaultError{Class: ClassUnknownUpdate, Err: fmt.Errorf("machine %s version %d has %s: %q is unknown", d.Name, d.Version, listed("update", d.Updates()), trim(name, maxName))}
	}
	u := &d.updates[at]
	if err := u.fits(payload(body)); err != nil {
		return nil, &FaultError{Class: ClassInvalidInput, Err: fmt.Errorf("update %s: %w", name, inputError(err))}
	}
	return u, nil
}

// listed says which there are of something.
func listed(what string, names []string) string {
	if len(names) == 0 {
		return "no " + what
	}
	return what + " " + strings.Join(names, ", ")
}

// update answers an update, or refuses it.
func (f *Fold) update(e *Event, c Command) error {
	if f.rec.Ending != nil {
		f.refused(e, &Cause{Class: ClassEnding, Message: fmt.Sprintf("the run is on its way to its end (%s)", f.rec.Ending.Status)})
		return nil
	}
	var answer json.RawMessage
	err := f.asked(e, func() error {
		u, err := f.d.update(c.Name, c.Input)
		if err != nil {
			return err
		}
		return f.step(e, "", func(s *step) error {
			a, err := u.take(s.data, payload(c.Input))
			if err != nil {
				return refusal(err)
			}
			if answer, err = marshal(a); err != nil {
				return s.fault(ClassInvalidData, fmt.Errorf("the answer: %w", err))
			}
			return within("answer", len(answer), MaxReply)
		})
	})
	if err == nil && e.Cause == nil {
		f.reply(e, answer, nil)
	}
	return err
}

// refusal is the error of a machine that refuses something: it has a class.
func refusal(err error) error {
	if ClassOf(err) == ClassError {
		return Classed(ClassRefused, err)
	}
	return err
}

// checkUpdates checks the names of updates.
func (d *Definition) checkUpdates() {
	seen := map[string]bool{}
	for _, u := range d.updates {
		switch {
		case !validName(u.name, false):
			d.fault("", "update %q: not a name (%s)", u.name, nameGrammar)
		case seen[u.name]:
			d.fault("", "update %q: declared twice", u.name)
		case u.take == nil:
			d.fault("", "update %q: has no function", u.name)
		}
		seen[u.name] = true
	}
}
