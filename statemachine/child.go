package statemachine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Ref names a machine by the types of its input and of the data its runs end
// with. It is declared as a constant:
//
//	const Visit sm.Ref[Patient, Report] = "visit"
type Ref[In, Out any] string

// Name is the machine as text.
func (r Ref[In, Out]) Name() string { return string(r) }

// ChildAction starts a run of another machine and waits for its end.
type ChildAction[T any] struct{ a *action }

// Child starts a run of a machine, as a child of this one, and waits for its
// end: in makes its input of the data, out puts what it comes to into the data.
// That is the child's own data at its end, but for its logs. Both are pure; a
// nil in sends {}, a nil out drops what the child comes to.
//
// A child that fails or is cancelled fails the action with the class of its own
// failure, which [State.Catch] sees; so does one that cannot begin. It is of
// the parent's tenant. When the parent ends before it, or leaves the state, the
// child is cancelled.
func Child[T, In, Out any](machine Ref[In, Out], in func(*T) In, out func(*T, Out)) *ChildAction[T] {
	name := string(machine)
	a := &action{kind: KindChild, machines: []string{name}}
	a.pick = func(d any) (string, json.RawMessage, error) {
		if in == nil {
			return name, json.RawMessage("{}"), nil
		}
		input, err := marshal(in(d.(*T)))
		return name, input, err
	}
	a.take = func(d any, result json.RawMessage) error {
		if out == nil {
			return nil
		}
		var v Out
		if err := unmarshal(result, &v); err != nil {
			return err
		}
		out(d.(*T), v)
		return nil
	}
	return &ChildAction[T]{a: a}
}

// ChildOf is [Child] for a machine that pick chooses by the data. It may be one
// that other workers of the fleet have; if nobody has it, the action fails with
// the class "unknown_machine".
func ChildOf[T any](pick func(*T) (machine string, input json.RawMessage), out func(*T, json.RawMessage)) *ChildAction[T] {
	a := &action{kind: KindChild, open: true}
	if pick != nil {
		a.pick = func(d any) (string, json.RawMessage, error) {
			return chosen(pick(d.(*T)))
		}
	}
	a.take = func(d any, result json.RawMessage) error {
		if out != nil {
			out(d.(*T), result)
		}
		return nil
	}
	return &ChildAction[T]{a: a}
}

// chosen checks what a pick has chosen.
func chosen(machine string, input json.RawMessage) (string, json.RawMessage, error) {
	if !validName(machine, false) {
		return "", nil, fmt.Errorf("child of machine %q: not a name (%s)", trim(machine, 2*maxName), nameGrammar)
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	input, err := compact(input)
	return machine, input, err
}

// ID names the child's run. Without it, or if it is empty, the id is made of the
// parent's and differs with every time it is asked for. A run that exists under
// the id, and is not this very child, fails the action with the class
// "id_conflict".
func (c *ChildAction[T]) ID(id func(*T) string) *ChildAction[T] {
	c.a.key = ofData(id)
	return c
}

// Abandon lets the child live on when its parent ends or leaves the state.
func (c *ChildAction[T]) Abandon() *ChildAction[T] {
	c.a.abandon = true
	return c
}

func (c *ChildAction[T]) erase(*T) *action { return c.a }

// machine is that of a child, or of those of all items; "" if none is declared.
func (a *action) machine() string {
	if a.kind != KindChild && a.kind != KindEach || len(a.machines) == 0 {
		return ""
	}
	return a.machines[0]
}

// ChildEffect stands for the effect type in what is told of a child.
const ChildEffect = "child"

// ChildRef says which run a pending effect stands for.
type ChildRef struct {
	Run     string `json:"run"`
	Machine string `json:"machine"`
	Given   bool   `json:"given,omitempty"`   // the id was given: it stays, however often the child is asked for
	Abandon bool   `json:"abandon,omitempty"` // it lives on when nobody waits for it any more
}

// Parent says whose child a run is.
type Parent struct {
	Run    string `json:"run"`
	Effect string `json:"effect"` // id of the pending effect that stands for the child
	Asked  uint64 `json:"asked"`  // sequence of the parent's record that asked for it
	Level  int    `json:"level"`  // of the child: 1 if its parent has none
}

// Answer is how a child ended, or why it could not begin, as its parent is
// told.
type Answer struct {
	Run    string          `json:"run"`              // of the parent
	Effect string          `json:"effect"`           // id of the pending effect
	Asked  uint64          `json:"asked"`            // sequence of the parent's record that asked for it
	Child  string          `json:"child"`            // run of the child
	Result json.RawMessage `json:"result,omitempty"` // its data, but for its logs
	Cause  *Cause          `json:"cause,omitempty"`  // why it failed, was cancelled or could not begin
}

// Answer is what the last record of a child tells its parent; false if it is
// none.
func (r *Record) Answer() (Answer, bool) {
	if r.Parent == nil || !r.Status.Ended() {
		return Answer{}, false
	}
	a := r.Parent.Answer(r.Run)
	switch {
	case r.Status != StatusSucceeded:
		a.Cause = r.Cause
		if a.Cause == nil {
			a.Cause = &Cause{Class: string(r.Status)}
		}
	case r.Tomb != nil:
		a.Cause = &Cause{Class: ClassConflict, Message: fmt.Sprintf("run %q succeeded, and its records are gone: what it came to is not known any more", r.Run)}
	default:
		a.Result = r.withoutLogs()
	}
	return a, true
}

// Answer is one to the parent, about the child with this run id, that says
// nothing yet.
func (p *Parent) Answer(child string) Answer {
	return Answer{Run: p.Run, Effect: p.Effect, Asked: p.Asked, Child: child}
}

// withoutLogs is the data without its logs: they lie with the run.
func (r *Record) withoutLogs() json.RawMessage {
	if len(r.Logs) == 0 {
		return r.Data
	}
	var data map[string]json.RawMessage
	if unmarshal(r.Data, &data) != nil {
		return r.Data // it has no fields
	}
	for name := range r.Logs {
		delete(data, name)
	}
	rest, err := marshal(data)
	if err != nil {
		return r.Data
	}
	return rest
}

// childRunID is the id of a child that was given none.
func childRunID(run, effect string, try int) string {
	id := run + ":" + effect
	if len(id)+8 > MaxID { // of a child of a child …
		id = effect
	}
	if try > 1 {
		id += ":" + strconv.Itoa(try)
	}
	return id
}

// requestChild computes the child that an action asks for.
func (s *step) requestChild(a *action) (p Pending, err error) {
	machine, input, err := a.pick(s.data)
	if err != nil {
		return p, s.fault(ClassInvalidData, err)
	}
	if err := within("input of a child", len(input), MaxChild); err != nil {
		return p, err
	}
	if level := s.f.rec.level(); level >= MaxLevels {
		return p, s.fault(ClassTooDeep, fmt.Errorf("a child of level %d: at most %d are allowed", level+1, MaxLevels))
	}
	c := &ChildRef{Machine: machine, Abandon: a.abandon}
	if a.key != nil {
		c.Run = a.key(s.data)
		c.Given = c.Run != ""
		if err := within("id", len(c.Run), MaxID); err != nil {
			return p, err
		}
		if !validID(c.Run) {
			return p, s.fault(ClassInvalidData, fmt.Errorf("child %q: an id is UTF-8", c.Run))
		}
	}
	p = Pending{Effect: ChildEffect, Print: Fingerprint(machine, input), Child: c}
	p.Input, err = s.f.refer(input)
	return p, err
}

// asks is what the fingerprint is of, beside the input.
func (p *Pending) asks() string {
	if p.Child != nil {
		return p.Child.Machine
	}
	return p.Effect
}

// level is how deep the run is below one that is no child.
func (r *Record) level() int {
	if r.Parent == nil {
		return 0
	}
	return r.Parent.Level
}

// begin has a child started, with the record's outbox.
func (f *Fold) begin(p *Pending) {
	c := *p.Child
	if !c.Given {
		c.Run = childRunID(f.rec.Run, p.ID, p.Try)
	}
	p.Child, p.Place, p.Wake, p.Depth, p.RetryAt = &c, ChildRun, "", 0, nil
	f.retract(p.ID)
	f.emit(Entry{Kind: EntryChild, ID: p.ID, Effect: ChildEffect})
}

// ended takes how a child ended: what it came to, or why it failed.
func (f *Fold) ended(e *Event, body json.RawMessage) error {
	if e.Cause != nil {
		e.RetryAt = nil
		return f.failure(e)
	}
	return f.answer(e, e.Effect, body)
}

// refuseAnswer decides whether a child's answer has no business with the state
// it meets: a result may come to a child that was given up, as that of an effect.
func (f *Fold) refuseAnswer(e *Event, p *Pending) bool {
	if p.Child == nil || p.Child.Run != e.Name {
		return true
	}
	return p.Place != ChildRun && (e.Cause != nil || p.Place != Parked)
}

// drop does what follows when nobody waits for a pending effect any more: what
// this record would have sent for it is not sent, and a child is ended.
func (f *Fold) drop(p *Pending, by EventKind) {
	begun := p.Place == ChildRun && !f.emits(EntryChild, p.ID)
	f.retract(p.ID)
	if begun && !p.Child.Abandon {
		f.stop(p, by)
	}
}

// stop tells a child that it is to end.
func (f *Fold) stop(p *Pending, by EventKind) {
	if f.emits(EntryStop, p.ID) {
		return
	}
	body, err := marshal(Stop{Run: p.Child.Run, Kind: by, Reason: "its parent does not wait for it any more"})
	if err == nil {
		f.emit(Entry{Kind: EntryStop, ID: p.ID, Effect: ChildEffect, Body: body})
	}
}

// Stop is the body of an entry that ends a child.
type Stop struct {
	Run    string    `json:"run"`  // of the child
	Kind   EventKind `json:"kind"` // cancel or terminate
	Reason string    `json:"reason,omitempty"`
}

// emits reports whether the record's outbox has such an entry.
func (f *Fold) emits(kind EntryKind, id string) bool {
	for i := range f.rec.Outbox {
		if e := &f.rec.Outbox[i]; e.Kind == kind && e.ID == id {
			return true
		}
	}
	return false
}

// checkParent checks whose child a start says that the run is.
func checkParent(e *Event) error {
	p := e.Parent
	switch {
	case p == nil:
		return nil
	case e.Kind != EventStart:
		return errors.New("only a start has a parent")
	case p.Run == "" || len(p.Run) > MaxID || p.Effect == "" || len(p.Effect) > MaxID || !validID(p.Run+p.Effect) || p.Level < 1 || p.Level > MaxLevels:
		return fmt.Errorf("start of a child: its parent is %q", trim(p.Run, 64))
	}
	return nil
}
