package statemachine

import (
	"encoding/json"
	"fmt"
	"time"
)

// Effect names a type of effect, with the types of its input and its result.
// It is declared as a constant:
//
//	const Mail sm.Effect[Letter, Receipt] = "email.send"
type Effect[In, Out any] string

// Name is the effect type as text.
func (e Effect[In, Out]) Name() string { return string(e) }

// Action is what a state does. Implemented by this package only.
type Action[T any] interface {
	// erase takes a *T only to bind the action to the machine's data type.
	erase(*T) *action
}

// CallAction performs one effect and waits for its result.
type CallAction[T any] struct{ a *action }

// Call performs an effect: in makes its input of the data, out puts its result
// into the data. Both are pure; a nil in sends null, a nil out drops the
// result.
func Call[T, In, Out any](effect Effect[In, Out], in func(*T) In, out func(*T, Out)) *CallAction[T] {
	name := string(effect)
	a := &action{kind: KindCall, effects: []string{name}, keeps: out != nil}
	a.pick = func(d any) (string, json.RawMessage, error) {
		if in == nil {
			return name, json.RawMessage("null"), nil
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
	return &CallAction[T]{a: a}
}

// Tool is an effect type that a [CallOf] may choose.
type Tool struct{ Effect string }

// Tools makes tools of declared effects, whatever their types.
func Tools(effects ...interface{ Name() string }) []Tool {
	tools := make([]Tool, len(effects))
	for i, e := range effects {
		tools[i].Effect = e.Name()
	}
	return tools
}

// ToolNames makes tools of effect types that are known by name only.
func ToolNames(names ...string) []Tool {
	tools := make([]Tool, len(names))
	for i, n := range names {
		tools[i].Effect = n
	}
	return tools
}

// CallOf performs one of several effects, which pick chooses by the data. An
// effect that is not among the tools is refused: class "unknown_effect". A nil
// out drops the result.
func CallOf[T any](tools []Tool, pick func(*T) (effect string, input json.RawMessage), out func(*T, json.RawMessage)) *CallAction[T] {
	a := &action{kind: KindCall, open: true, keeps: out != nil}
	for _, t := range tools {
		a.effects = append(a.effects, t.Effect)
	}
	if pick != nil {
		a.pick = func(d any) (string, json.RawMessage, error) {
			effect, input := pick(d.(*T))
			if !a.declares(effect) {
				return "", nil, &FaultError{Class: ClassUnknownEffect, Err: fmt.Errorf("effect %q is not among the tools", effect)}
			}
			input, err := compact(input)
			return effect, input, err
		}
	}
	a.take = func(d any, result json.RawMessage) error {
		if out != nil {
			out(d.(*T), result)
		}
		return nil
	}
	return &CallAction[T]{a: a}
}

// Key gives the effect a business key: whoever asks for the same key later, in
// any run, gets the recorded result. Without one, or if it is empty, the
// effect's own id is its key.
func (c *CallAction[T]) Key(key func(*T) string) *CallAction[T] {
	c.a.key = nil
	if key != nil {
		c.a.key = func(d any) string { return key(d.(*T)) }
	}
	return c
}

// Flow names what the effect's provider limits by, its account or its host say:
// the fleet keeps its limits per key by it, and when the provider asks for a
// pause, effects of the same type and flow key wait, wherever they are asked.
// Without one, or if it is empty, the effects of the type share the empty key.
func (c *CallAction[T]) Flow(key func(*T) string) *CallAction[T] {
	c.a.flow = nil
	if key != nil {
		c.a.flow = func(d any) string { return key(d.(*T)) }
	}
	return c
}

// Timeout bounds one attempt; without it the handler's policy does.
func (c *CallAction[T]) Timeout(d time.Duration) *CallAction[T] {
	c.a.timeout = Duration(d)
	return c
}

// Queued sends the effect to the fleet: it is never performed by the worker
// that commits the record which asks for it.
func (c *CallAction[T]) Queued() *CallAction[T] {
	c.a.queued = func(any) bool { return true }
	return c
}

// QueuedWhen sends the effect to the fleet if the predicate holds.
func (c *CallAction[T]) QueuedWhen(pred func(*T) bool) *CallAction[T] {
	c.a.queued = nil
	if pred != nil {
		c.a.queued = func(d any) bool { return pred(d.(*T)) }
	}
	return c
}

func (c *CallAction[T]) erase(*T) *action { return c.a }

// action is what a state does, without the type of the data.
type action struct {
	kind    StateKind // of a state that does it
	effects []string  // that it may ask for
	open    bool      // the effects are a set that may grow: no part of the definition's hash
	pick    func(data any) (effect string, input json.RawMessage, err error)
	take    func(data any, result json.RawMessage) error
	key     func(data any) string
	flow    func(data any) string
	queued  func(data any) bool
	timeout Duration
	keeps   bool // the result of its effect goes into the data

	many     *many                          // does it more than once at a time; nil: once
	lost     func(data any, c *Cause) error // takes why an item was given up
	machines []string                       // of a child, as far as they are declared
	abandon  bool                           // a child lives on when nobody waits for it

	sleep   func(data any) time.Duration
	signals []string                         // that it waits for, as far as they are declared
	signal  func(data any) string            // the one that it waits for now
	fits    func(body json.RawMessage) error // whether take can have it; nil: it can

	approval  func(data any) Approval
	static    *Approval // the approval, if it does not depend on the data
	shown     func(data any) (json.RawMessage, error)
	tell      *action // tells approvers; nil if nothing does
	tellTwice bool    // Tell was called again
}

func (a *action) declares(effect string) bool {
	for _, e := range a.effects {
		if e == effect {
			return true
		}
	}
	return false
}
