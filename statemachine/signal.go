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
// entered.
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
	if !validID(name) || name == "" || len(name) > MaxID {
		return nil, false, s.fault(ClassInvalidData, fmt.Errorf("signal %q: a name is UTF-8 of 1 to %d bytes", trim(name, 64), MaxID))
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
	for _, n := range f.d.nodes {
		for _, a := range n.listeners(e.Name) {
			if err := a.fits(payload(body)); err != nil {
				return &FaultError{Class: ClassInvalidInput, State: n.name, Err: fmt.Errorf("signal %s: %w", e.Name, inputError(err))}
			}
		}
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

// payload is that of a signal as callbacks see it: nothing is null.
func payload(body json.RawMessage) json.RawMessage {
	if len(body) == 0 {
		return rawNull
	}
	return body
}
