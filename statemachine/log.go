package statemachine

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
)

// Log is an append-only list in the data of a machine, such as the messages of
// a chat. A record carries only what it adds, so that a step costs the same
// however long the list has become.
//
// Callbacks append to it and ask for its length. Its items are read by
// handlers alone: an input that contains the log is recorded as a reference to
// its first Len items, and the handler's copy holds them.
type Log[E any] struct {
	name  string            // JSON name of the field of the data, "" elsewhere
	count int               // items of the run before adds
	adds  []json.RawMessage // added since the last record
	items []E               // elsewhere: what was decoded
	err   error
}

// Append adds items.
func (l *Log[E]) Append(items ...E) {
	for _, item := range items {
		raw, err := marshal(item)
		if err != nil {
			l.err = errors.Join(l.err, fmt.Errorf("item %d of a log: %w", l.Len(), err))
			return
		}
		l.adds = append(l.adds, raw)
	}
}

// Len is the number of items.
func (l Log[E]) Len() int { return l.count + len(l.items) + len(l.adds) }

// Items returns all items. It panics in a callback of a machine, which does
// not have them.
func (l Log[E]) Items() []E {
	if l.name != "" {
		panic(fmt.Sprintf("log %q is read in a callback: only handlers have its items", l.name))
	}
	items := l.items[:len(l.items):len(l.items)]
	for _, raw := range l.adds {
		var e E
		if err := json.Unmarshal(raw, &e); err != nil {
			panic(fmt.Sprintf("an item of a log does not read back: %v", err))
		}
		items = append(items, e)
	}
	return items
}

// All yields the items with their indexes. It panics in a callback of a
// machine, which does not have them.
func (l Log[E]) All() iter.Seq2[int, E] {
	items := l.Items()
	return func(yield func(int, E) bool) {
		for i, e := range items {
			if !yield(i, e) {
				return
			}
		}
	}
}

// MarshalJSON writes a reference to the run's log, or, where the log is not a
// field of a machine's data, its items.
func (l Log[E]) MarshalJSON() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	if l.name != "" {
		return json.Marshal(logRef{Name: &l.name, To: l.Len()})
	}
	all := make([]json.RawMessage, 0, len(l.items)+len(l.adds))
	for _, e := range l.items {
		raw, err := marshal(e)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return marshal(append(all, l.adds...))
}

// UnmarshalJSON reads either form.
func (l *Log[E]) UnmarshalJSON(b []byte) error {
	*l = Log[E]{}
	if len(b) > 0 && b[0] == '{' {
		var ref logRef
		if err := json.Unmarshal(b, &ref); err != nil {
			return err
		}
		if ref.Name == nil || ref.To < 0 {
			return errors.New("a log is an array, or a reference to one")
		}
		l.name, l.count = *ref.Name, ref.To
		return nil
	}
	return json.Unmarshal(b, &l.items)
}

// logRef is the reference form of a log: its first To items.
type logRef struct {
	Name *string `json:"$log"`
	To   int     `json:"to"`
}

// logField is a field of type Log, whatever its items are.
type logField interface {
	admit(name string) error
	bind(name string, count int) error
	drain() ([]json.RawMessage, error)
}

// admit makes the field of a run that begins a log: items that came with the
// input are its first. A reference cannot come from outside.
func (l *Log[E]) admit(name string) error {
	if l.name != "" {
		return fmt.Errorf("%s: a reference to a log cannot be given", name)
	}
	items := l.items
	*l = Log[E]{name: name}
	l.Append(items...)
	return l.err
}

// bind checks the field of a run that goes on: it must be the reference that
// was written.
func (l *Log[E]) bind(name string, count int) error {
	if l.name == "" && l.Len() == 0 && count == 0 {
		l.name = name // a field that is new in the type
	}
	if l.name != name || l.Len() != count {
		return fmt.Errorf("log %q of %d items is stored where %q of %d is expected", l.name, l.Len(), name, count)
	}
	return nil
}

// drain hands over what was added.
func (l *Log[E]) drain() ([]json.RawMessage, error) {
	if l.err != nil {
		return nil, l.err
	}
	adds := l.adds
	l.count, l.adds = l.count+len(adds), nil
	return adds, nil
}

// logSpec is a field of type Log of a machine's data.
type logSpec struct {
	name  string
	index int
}

func (s logSpec) of(data any) logField {
	return reflect.ValueOf(data).Elem().Field(s.index).Addr().Interface().(logField)
}
