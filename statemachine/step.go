package statemachine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
)

var errNoStates = errors.New("the machine has no states")

// step is one event's way through the machine: the only place from where
// callbacks are called.
type step struct {
	f      *Fold
	cause  string // id of the event
	item   int    // item or branch of the state that it is about, from 1; 0: the state itself
	data   any    // *T
	meta   *Meta  // nil if T has none
	asked  int    // effects this event asked for so far
	handed int    // outcomes of items this event gave to the data

	// What the effects it asks for get.
	wake   string
	depth  int
	queued bool
}

// step lets the event run through the machine, and stores what it did to the
// data. A panic of a callback is a fault.
func (f *Fold) step(e *Event, wake string, run func(s *step) error) (err error) {
	s := &step{f: f, cause: e.ID, wake: wake}
	defer func() {
		if r := recover(); r != nil {
			err = s.fault(ClassPanic, panicked(r))
		}
	}()
	if err := s.load(e.Kind == EventStart); err != nil {
		return err
	}
	if err := run(s); err != nil {
		return err
	}
	return s.store()
}

// load makes the data ready for callbacks.
func (s *step) load(fresh bool) error {
	f := s.f
	if f.data == nil {
		f.data = f.d.make()
		if !fresh {
			if err := unmarshal(f.rec.Data, f.data); err != nil {
				return s.fault(ClassInvalidData, err)
			}
			for _, l := range f.d.logs {
				if err := l.of(f.data).bind(l.name, f.rec.Logs[l.name].Count); err != nil {
					return s.fault(ClassInvalidData, err)
				}
			}
		}
	}
	s.data = f.data
	if h, ok := s.data.(metaHolder); ok {
		s.meta = h.meta()
		fr := &f.rec.Frames[0]
		*s.meta = Meta{run: f.rec.Run, now: f.clock, visit: fr.Visit, cause: fr.Cause}
	}
	return nil
}

// admit makes the data of the input of a start, and checks it.
func (s *step) admit(input json.RawMessage) error {
	if err := unmarshalStrict(input, s.data); err != nil {
		return s.fault(ClassInvalidInput, inputError(err))
	}
	for _, l := range s.f.d.logs {
		if err := l.of(s.data).admit(l.name); err != nil {
			return s.fault(ClassInvalidInput, err)
		}
	}
	if v, ok := s.data.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return s.fault(ClassRefused, err)
		}
	}
	for _, check := range s.f.d.checks {
		if err := check(s.data); err != nil {
			return s.fault(ClassRefused, err)
		}
	}
	return nil
}

// inputError words an error of encoding/json with the path of the field.
func inputError(err error) error {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		field := t.Field
		if field == "" {
			return fmt.Errorf("%s given where %s is expected", t.Value, t.Type)
		}
		return fmt.Errorf("field %s: %s given where %s is expected", field, t.Value, t.Type)
	}
	return err
}

// store puts the data back into the record, with what it is found by.
func (s *step) store() error {
	f := s.f
	for _, l := range f.d.logs {
		adds, err := l.of(s.data).drain()
		if err != nil {
			return s.fault(ClassInvalidData, err)
		}
		if err := f.addItems(l.name, adds); err != nil {
			return err
		}
	}
	data, err := marshal(s.data)
	if err != nil {
		return s.fault(ClassInvalidData, err)
	}
	if err := depthWithin("data", data); err != nil {
		return err
	}
	f.rec.Data = data
	s.spend()
	return s.index()
}

// index computes the fields the run is found by.
func (s *step) index() error {
	f := s.f
	if len(f.d.indexes) == 0 {
		return nil
	}
	f.rec.Index = make(map[string]string, len(f.d.indexes))
	for _, ix := range f.d.indexes {
		v := ix.value(s.data)
		if err := within("index "+ix.name, len(v), MaxIndex); err != nil {
			return err
		}
		if v != "" {
			f.rec.Index[ix.name] = v
		}
	}
	return nil
}

// addItems puts new items of a log into the record.
func (f *Fold) addItems(log string, items []json.RawMessage) error {
	if len(items) == 0 {
		return nil
	}
	ref := f.rec.Logs[log]
	if ref.Count == ref.Sealed {
		ref.After, ref.Bytes = f.after, 0
	}
	adds := f.rec.Adds[log]
	adds = adds[:len(adds):len(adds)]
	for _, item := range items {
		item, err := f.refer(item)
		if err != nil {
			return err
		}
		adds = append(adds, item)
		ref.Count++
		ref.Bytes += len(item)
	}
	f.rec.Logs = with(f.rec.Logs, log, ref)
	f.rec.Adds = with(f.rec.Adds, log, adds)
	return nil
}

// with returns a copy of m in which k is v.
func with[V any](m map[string]V, k string, v V) map[string]V {
	c := make(map[string]V, len(m)+1)
	maps.Copy(c, m)
	c[k] = v
	return c
}

// inherit sets what the effects get that follow from pending effect p: the
// wake is decided by the place the effect has in the state its answer meets,
// not by who brings the answer.
func (s *step) inherit(p Pending) {
	switch p.Place {
	case Inline:
		s.wake, s.depth = p.Wake, p.Depth+1
	case Queued:
		s.wake, s.depth = EffectWake(p.ID), 0
	case ChildRun: // the event at hand is its end, which has a message of its own
		s.wake, s.depth = s.cause, 0
	default: // nobody is sure to hold a message that would wake an inline effect
		s.queued = true
	}
}

// frame returns the root frame, free to be changed.
func (s *step) frame() *Frame {
	s.f.rec.Frames = slices.Clone(s.f.rec.Frames)
	return &s.f.rec.Frames[0]
}

// caught notes the failure that a Catch routes.
func (s *step) caught(c Cause) {
	s.frame().Cause = &c
	if s.meta != nil {
		s.meta.cause = &c
	}
}

// here returns the state the run is in, which waits for an effect.
func (s *step) here() (*node, error) {
	name := s.f.rec.Frames[0].State
	n := s.f.d.byName[name]
	if n == nil || n.action == nil {
		return nil, s.fault(ClassUnknownState, fmt.Errorf("the machine has no such state that waits for an effect"))
	}
	return n, nil
}

// fault is an error at the state where the run is.
func (s *step) fault(class string, err error) error {
	return &FaultError{Class: class, State: s.f.rec.Frames[0].State, Err: err}
}

// panicked words a panic with the place in the callback where it happened.
func panicked(r any) error {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		fr, more := frames.Next()
		if fr.Function != "" && !strings.HasPrefix(fr.Function, "runtime.") {
			file := fr.File[strings.LastIndexByte(fr.File, '/')+1:]
			return fmt.Errorf("%v (%s:%d)", r, file, fr.Line)
		}
		if !more {
			return fmt.Errorf("%v", r)
		}
	}
}
