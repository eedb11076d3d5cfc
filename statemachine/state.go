package statemachine

import (
	"reflect"
	"runtime"
	"strings"
	"time"
)

// State is a state being declared. Its exits are tried in this order: When in
// the order written, then Then, or without one the next state in the file.
type State[T any] struct{ n *node }

// Then names where the run goes when no When applies. Without it that is the
// next state in the file.
func (s *State[T]) Then(target string) *State[T] {
	if s.n.then != "" {
		s.n.doubled = append(s.n.doubled, target)
	}
	s.n.then = target
	return s
}

// When names where the run goes if the predicate holds once the action is
// done.
func (s *State[T]) When(pred func(*T) bool, target string) *State[T] {
	w := when{to: target, label: funcName(pred)}
	if pred != nil {
		w.pred = func(d any) bool { return pred(d.(*T)) }
	}
	s.n.whens = append(s.n.whens, w)
	return s
}

// Catch names where the run goes if the action is given up with an error of
// this class; a class that ends in "*" stands for all that begin so, and "*"
// alone for every one. The first Catch that fits is taken; [Meta.Cause] tells
// callbacks what was caught. Without one the run is parked and a letter goes to
// the dead letters.
func (s *State[T]) Catch(class, target string) *State[T] {
	s.n.catches = append(s.n.catches, catch{class: class, to: target})
	return s
}

// Undo says how what the state did is taken back. The Undo is registered when
// the action has succeeded and its result is in the data: its effect, input and
// key are made of the data as it is then. What is registered is performed when
// the run fails, is cancelled, or comes to a state that unwinds: one after the
// other, the last first. A run that succeeds forgets it.
//
// An action that was given up did nothing, and has nothing to undo. An Undo is
// retried like any effect; given up, it parks the run, which goes on unwinding
// once it is redriven. A business key stands for what is done once over all
// runs, so the Undo of an action with such a key takes it back for all of them.
func (s *State[T]) Undo(a Action[T]) *State[T] {
	if s.n.undo != nil {
		s.n.undoTwice = true
	}
	if a != nil {
		s.n.undo = a.erase(nil)
	}
	return s
}

// Within bounds how long the state may take, from when it is entered: then the
// run goes to target, and what comes of its effect is dropped; [Meta.Cause]
// tells callbacks that it was late. At most MaxWait.
func (s *State[T]) Within(d time.Duration, target string) *State[T] {
	s.n.bound = d
	return s.WithinOf(func(*T) time.Duration { return d }, target)
}

// WithinOf is [State.Within] for a time that is taken of the data when the
// state is entered.
func (s *State[T]) WithinOf(d func(*T) time.Duration, target string) *State[T] {
	s.n.bounded, s.n.boundTwice, s.n.late = true, s.n.bounded, target
	if d != nil {
		s.n.within = func(data any) time.Duration { return d(data.(*T)) }
	}
	return s
}

// Forever says that the state waits for its signal however long that takes.
func (s *State[T]) Forever() *State[T] {
	s.n.forever = true
	return s
}

// Visits bounds how often the state may be entered: the run goes to target
// instead of entering it for the n+1st time. Every loop needs such a bound.
func (s *State[T]) Visits(n int, target string) *State[T] {
	s.n.limit, s.n.over, s.n.limited = n, target, true
	return s
}

// FailState is a failing end being declared.
type FailState[T any] struct{ n *node }

// Because gives the message of the failure. Without it that is the message of
// the failure caught last, if there was one.
func (s *FailState[T]) Because(message func(*T) string) *FailState[T] {
	if message != nil {
		s.n.because = func(d any) string { return message(d.(*T)) }
	}
	return s
}

// node is a state of any machine, without the type of its data.
type node struct {
	name    string
	kind    StateKind
	action  *action
	undo    *action // takes back what action did; nil if nothing does
	whens   []when
	then    string // as declared
	next    string // then, or the next state in the file; "" for ends
	catches []catch
	limit   int    // visits; 0: no limit
	over    string // where the run goes instead of one visit more
	class   string // of a failing end
	because func(data any) string

	within func(data any) time.Duration // how long the state may take; nil: as long as it does
	late   string                       // where the run goes then

	limited    bool          // Visits was called
	bounded    bool          // Within was called
	boundTwice bool          // … again
	bound      time.Duration // what Within was given
	forever    bool          // Forever was called
	doubled    []string      // targets of further Thens
	again      bool          // can be entered again: its visits are counted

	undoTwice bool // Undo was called again

	budgets []*budget // that are looked at when it is left
}

// when is a guarded exit.
type when struct {
	pred  func(data any) bool
	label string
	to    string
}

// catch routes a class of failures.
type catch struct{ class, to string }

// catches reports whether the class, or pattern of classes, is one of those
// that are caught.
func (c catch) catches(class string) bool {
	prefix, more := strings.CutSuffix(c.class, "*")
	return class == c.class || more && strings.HasPrefix(class, prefix)
}

// caught returns where a failure of the class goes, or "".
func (n *node) caught(class string) string {
	for _, c := range n.catches {
		if c.catches(class) {
			return c.to
		}
	}
	return ""
}

// funcName is the name of a method or function, for diagrams; "" for a
// function literal.
func funcName(f any) string {
	v := reflect.ValueOf(f)
	if v.IsNil() {
		return ""
	}
	name := runtime.FuncForPC(v.Pointer()).Name()
	name = strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], "-fm")
	name = strings.TrimSuffix(name, "[...]")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.HasPrefix(last, "func") && strings.Trim(last[4:], "0123456789") == "" {
		return ""
	}
	return last
}
