package statemachine

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Signal waits for a signal with the name and puts its payload into the data;
// a nil take drops it. One that came before, and that nothing took, is taken at
// once, the oldest first. A payload that does not fit V is refused when it
// comes. A state that waits for a signal says for how long: [State.Within] or
// [State.Forever].
func Signal[T, V any](name string, take func(*T, V)) Action[T] {
	a := &action{kind: KindSignal, signals: []string{name}}
	a.signal = func(any) string { return name }
	a.fits = func(body json.RawMessage) error { return unmarshal(body, new(V)) }
	a.take = func(d any, body json.RawMessage) error {
		if take == nil {
			return nil
		}
		var v V
		if err := unmarshal(body, &v); err != nil {
			return err
		}
		take(d.(*T), v)
		return nil
	}
	return waiting[T]{a}
}

// SignalOf is [Signal] for a name that is taken of the data when the state is
// entered: of the same grammar as other names, [a-z][a-z0-9_-]{0,63}.
func SignalOf[T any](name func(*T) string, take func(*T, json.RawMessage)) Action[T] {
	a := &action{kind: KindSignal}
	if name != nil {
		a.signal = func(d any) string { return name(d.(*T)) }
	}
	a.take = func(d any, body json.RawMessage) error {
		if take != nil {
			take(d.(*T), body)
		}
		return nil
	}
	return waiting[T]{a}
}

// listen takes the signal that an action waits for out of the inbox; if it is
// not there, it begins the wait and reports true.
func (s *step) listen(a *action) (json.RawMessage, bool, error) {
	name := a.signal(s.data)
	if !validName(name, false) { // it is one token of a subject: nobody could send it
		return nil, false, s.fault(ClassInvalidData, fmt.Errorf("signal %q: not a name (%s)", trim(name, maxName), nameGrammar))
	}
	at := -1
	for i := range s.f.rec.Inbox {
		if sig := &s.f.rec.Inbox[i]; sig.Name == name && (at < 0 || sig.Seq < s.f.rec.Inbox[at].Seq) {
			at = i
		}
	}
	if at < 0 {
		s.arm(Wait{Kind: WaitSignal, Item: s.item, Signal: name})
		return nil, true, nil
	}
	sig := s.f.rec.Inbox[at]
	s.f.rec.Inbox = slices.Delete(slices.Clone(s.f.rec.Inbox), at, at+1)
	return sig.Body, false, nil
}

// hear takes what came of a wait.
func (s *step) hear(n *node, body json.RawMessage) error {
	if err := n.action.take(s.data, payload(body)); err != nil {
		return s.fault(ClassInvalidInput, err)
	}
	return nil
}

// signal gives a signal to the state that waits for it, or keeps it until one
// does.
func (f *Fold) signal(e *Event, body json.RawMessage) error {
	if err := within("signal", len(body), MaxSignal); err != nil {
		return err
	}
	if err := f.d.fits(e.Name, body); err != nil {
		return err
	}
	f.remember(e.ID)
	listens := func(w Wait) bool { return w.Kind == WaitSignal && w.Signal == e.Name }
	at := slices.IndexFunc(f.rec.Waits, listens)
	if at < 0 {
		inbox := f.rec.Inbox
		f.rec.Inbox = append(inbox[:len(inbox):len(inbox)], InboxSignal{ID: e.ID, Name: e.Name, At: e.At, Seq: e.Seq, Body: body})
		return nil
	}
	return f.step(e, e.ID, func(s *step) error {
		n, err := s.here()
		if err != nil {
			return err
		}
		return s.heard(n, f.rec.Waits[at], body)
	})
}

// fits says why a signal's payload is not what the machine takes by the name.
func (d *Definition) fits(name string, body json.RawMessage) error {
	for _, n := range d.nodes {
		for _, a := range n.listeners(name) {
			if err := a.fits(payload(body)); err != nil {
				return &FaultError{Class: ClassInvalidInput, State: n.name, Err: fmt.Errorf("signal %s: %w", name, inputError(err))}
			}
		}
	}
	return nil
}

// Signals are the names of the signals that the machine is declared to take;
// open says that a state takes one by a name that is made of the data.
func (d *Definition) Signals() (names []string, open bool) {
	for _, n := range d.nodes {
		for _, a := range n.actions() {
			open = open || a.kind == KindSignal && len(a.signals) == 0
			if a.kind == KindSignal {
				names = append(names, a.signals...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), open
}

// CheckSignal says why no run of the machine takes a signal: a *FaultError of
// ClassUnknownSignal or ClassInvalidInput.
func (d *Definition) CheckSignal(name string, body json.RawMessage) error {
	if names, open := d.Signals(); !open && !slices.Contains(names, name) {
		return &FaultError{Class: ClassUnknownSignal, Err: fmt.Errorf("machine %s version %d takes %s: %q is unknown", d.Name, d.Version, listed("signal", names), trim(name, maxName))}
	}
	return d.fits(name, body)
}

// payload is that of a signal as callbacks see it: nothing is null.
func payload(body json.RawMessage) json.RawMessage {
	if len(body) == 0 {
		return rawNull
	}
	return body
}
