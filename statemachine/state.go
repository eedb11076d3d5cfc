package statemachine

import (
	"reflect"
	"runtime"
	"strings"
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
// this class; "*" catches what no earlier Catch does. Without one the run is
// parked and a letter goes to the dead letters.
func (s *State[T]) Catch(class, target string) *State[T] {
	s.n.catches = append(s.n.catches, catch{class: class, to: target})
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
	whens   []when
	then    string // as declared
	next    string // then, or the next state in the file; "" for ends
	catches []catch
	limit   int    // visits; 0: no limit
	over    string // where the run goes instead of one visit more
	class   string // of a failing end
	because func(data any) string

	limited bool     // Visits was called
	doubled []string // targets of further Thens
	again   bool     // can be entered again: its visits are counted
}

// when is a guarded exit.
type when struct {
	pred  func(data any) bool
	label string
	to    string
}

// catch routes a class of failures.
type catch struct{ class, to string }

// catches returns where a failure of the class goes, or "".
func (n *node) caught(class string) string {
	for _, c := range n.catches {
		if c.class == class || c.class == "*" {
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
