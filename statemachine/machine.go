package statemachine

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Machine is a state machine over data of type T, as its author writes it.
// States are declared in order; the first is where a run begins. Faults are
// not reported here but all at once by [Catalog.Check].
//
// T is stored as JSON between events: only what its JSON holds is there in the
// next record. T may embed [Meta] and may have fields of type [Log].
type Machine[T any] struct {
	name    string
	version int
	nodes   []*node
	indexes []index
	checks  []func(any) error
	longest time.Duration
	bounded bool // Deadline was called
	budgets []*budget
	queries []query
	updates []update
}

// New begins a machine. The version is raised when the graph changes: a run
// keeps the version it started with.
func New[T any](name string, version int) *Machine[T] {
	return &Machine[T]{name: name, version: version}
}

// State declares a state: the run performs the action, and then moves on. A
// nil action makes it a decision, see [Machine.Decide].
func (m *Machine[T]) State(name string, a Action[T]) *State[T] {
	n := &node{name: name, kind: KindDecide}
	if a != nil {
		n.action = a.erase(nil)
		n.kind = n.action.kind
	}
	m.nodes = append(m.nodes, n)
	return &State[T]{n: n}
}

// Decide declares a state that does nothing but choose where to go; the run
// never rests in it.
func (m *Machine[T]) Decide(name string) *State[T] { return m.State(name, nil) }

// Unwind declares a state that performs what is registered by [State.Undo], the
// last first, and then moves on: with nothing left to undo.
func (m *Machine[T]) Unwind(name string) *State[T] {
	n := &node{name: name, kind: KindUnwind}
	m.nodes = append(m.nodes, n)
	return &State[T]{n: n}
}

// Succeed declares a state that ends the run well.
func (m *Machine[T]) Succeed(name string) {
	m.nodes = append(m.nodes, &node{name: name, kind: KindSucceed})
}

// Fail declares a state that ends the run as failed, with the class of the
// failure, once what is registered by [State.Undo] was performed.
func (m *Machine[T]) Fail(name, class string) *FailState[T] {
	n := &node{name: name, kind: KindFail, class: class}
	m.nodes = append(m.nodes, n)
	return &FailState[T]{n: n}
}

// Index declares a field by which runs are found: at most 8 of at most 256
// bytes. A run whose value is empty is not found by it.
func (m *Machine[T]) Index(name string, value func(*T) string) {
	ix := index{name: name}
	if value != nil {
		ix.value = func(d any) string { return value(d.(*T)) }
	}
	m.indexes = append(m.indexes, ix)
}

// Deadline bounds how long a run may take, from its start: then it fails with
// the class "deadline", once what is registered by [State.Undo] was performed.
func (m *Machine[T]) Deadline(d time.Duration) { m.longest, m.bounded = d, true }

// Check adds a condition on the input: a start whose data does not meet it is
// refused. A Validate() error method of T is such a condition, too.
func (m *Machine[T]) Check(check func(*T) error) {
	if check != nil {
		m.checks = append(m.checks, func(d any) error { return check(d.(*T)) })
	}
}

// Definitions compiles the machine, so that it can be added to a catalog. It
// implements [Machines].
func (m *Machine[T]) Definitions() []*Definition {
	d := &Definition{
		Name: m.name, Version: m.version,
		indexes: slices.Clone(m.indexes), checks: slices.Clone(m.checks), budgets: slices.Clone(m.budgets), queries: slices.Clone(m.queries),
		updates: slices.Clone(m.updates),
		make:    func() any { return new(T) }, longest: m.longest,
	}
	if m.bounded && (m.longest <= 0 || m.longest > MaxWait) {
		d.fault("", "Deadline of %s: it is more than 0, at most %s", m.longest, MaxWait)
	}
	for _, n := range m.nodes { // copies: compiling twice at the same time is no race
		c := *n
		d.nodes = append(d.nodes, &c)
	}
	d.describeData(reflect.TypeFor[T]())
	d.compile()
	return []*Definition{d}
}

// index is a field by which runs are found.
type index struct {
	name  string
	value func(data any) string
}

// describeData finds the logs of the data type, and fields that a run would
// forget between two records.
func (d *Definition) describeData(t reflect.Type) {
	if t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		isLog := isLog(f.Type)
		switch {
		case f.Anonymous && f.Type == reflect.TypeFor[Meta]():
		case isLog && (!f.IsExported() || tag == "-"):
			d.fault("", "log %s of %s is not stored: it needs an exported field", f.Name, t)
		case isLog:
			name := tag
			if name == "" {
				name = f.Name
			}
			d.logs = append(d.logs, logSpec{name: name, index: f.Index[0]})
		case !f.Anonymous && (!f.IsExported() || f.Tag.Get("json") == "-"):
			d.fault("", "field %s of %s is not stored: a run would forget it between two records", f.Name, t)
		case containsLog(f.Type, map[reflect.Type]bool{}):
			d.fault("", "field %s of %s contains a log: only a field of the data itself can be one", f.Name, t)
		}
	}
}

// isLog reports whether t is Log of some type of items.
func isLog(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[logField]())
}

// containsLog reports whether a log lies anywhere in values of type t, where
// it would be stored whole.
func containsLog(t reflect.Type, seen map[reflect.Type]bool) bool {
	if isLog(t) {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return containsLog(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() && containsLog(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// fault notes a fault of the machine; state is "" if it is of no one state.
func (d *Definition) fault(state, format string, args ...any) {
	d.faults = append(d.faults, d.faultAt(state, format, args...))
}

// faultAt words a fault: one line that names the machine and the state.
func (d *Definition) faultAt(state, format string, args ...any) error {
	at := fmt.Sprintf("machine %q version %d", d.Name, d.Version)
	if state != "" {
		at += fmt.Sprintf(": state %q", state)
	}
	return fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...))
}
