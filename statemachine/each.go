package statemachine

import (
	"encoding/json"
	"fmt"
	"time"
)

// Result is what came of one item of an [Each]: a value, or the reason why it
// was given up.
type Result[Out any] struct {
	Value Out
	Cause *Cause // nil: there is a value
}

// OK reports whether there is a value.
func (r Result[Out]) OK() bool { return r.Cause == nil }

// EachAction performs an effect for each of many items.
type EachAction[T, I any] struct {
	a *action

	key, flow func(*T, I) string
	queued    func(*T, I) bool
}

// Each performs an effect for each of the items, at most limit of them at once:
// in makes the effect's input of an item, or sends the item as it is if it is
// nil, and out puts what came of it into the data. All are pure.
//
// The data and where the run goes are the same as if one item were performed
// after the other: out is called in the order of the items, whatever the order
// in which handlers return. A limit of 1 to [MaxAtOnce], at most [MaxItems]
// items; none at all is no fault, and nothing is performed. For more at once,
// have a run for each part of the items, by [EachChild].
//
// Items are taken of the data again for each that begins, so they must stay
// the same while the state lasts. The run does not store them, but its data
// does if they are part of it: for many, let the data tell what they are made
// of. Let results that add up go to a [Log].
//
// An item that is given up is a [Result] with a Cause, unless [EachAction.Tolerate]
// says otherwise.
func Each[T, I, In, Out any](items func(*T) []I, limit int, effect Effect[In, Out], in func(*T, I) In, out func(*T, I, Result[Out])) *EachAction[T, I] {
	name := string(effect)
	e := newEach(items, limit, []string{name}, func(d *T, item I) (string, json.RawMessage, error) {
		if in == nil {
			input, err := marshal(item)
			return name, input, err
		}
		input, err := marshal(in(d, item))
		return name, input, err
	}, decoded(out))
	e.a.fits = fitting(out)
	return e
}

// EachOf is [Each] for effects of several types, of which pick chooses one for
// an item. An item for which it picks one that is not among the tools is given
// up at once, with the class "unknown_effect".
func EachOf[T, I any](items func(*T) []I, limit int, tools []Tool, pick func(*T, I) (effect string, input json.RawMessage), out func(*T, I, Result[json.RawMessage])) *EachAction[T, I] {
	var names []string
	for _, t := range tools {
		names = append(names, t.Effect)
	}
	var choose func(*T, I) (string, json.RawMessage, error)
	if pick != nil {
		choose = func(d *T, item I) (string, json.RawMessage, error) {
			effect, input := pick(d, item)
			input, err := compact(input)
			return effect, input, err
		}
	}
	e := newEach(items, limit, names, choose, undecoded(out))
	e.a.open = true
	return e
}

func newEach[T, I any](items func(*T) []I, limit int, effects []string, pick func(*T, I) (string, json.RawMessage, error), out func(*T, I, json.RawMessage, *Cause) error) *EachAction[T, I] {
	e := &EachAction[T, I]{}
	e.a = &action{kind: KindEach, effects: effects, many: &many{limit: limit, tolerate: -1}}
	if pick == nil || items == nil {
		return e
	}
	e.a.pick = func(any) (string, json.RawMessage, error) { return "", nil, nil } // each item has its own
	e.a.many.open = opened(items, func(item I) *action { return e.one(item, pick, out) })
	return e
}

// one is the action of one item.
func (e *EachAction[T, I]) one(item I, pick func(*T, I) (string, json.RawMessage, error), out func(*T, I, json.RawMessage, *Cause) error) *action {
	a := itemAction(KindCall, item, pick, out)
	a.effects, a.open, a.timeout, a.fits = e.a.effects, e.a.open, e.a.timeout, e.a.fits
	picks := a.pick
	a.pick = func(d any) (string, json.RawMessage, error) {
		effect, input, err := picks(d)
		if err == nil && !a.declares(effect) {
			err = &FaultError{Class: ClassUnknownEffect, Err: fmt.Errorf("effect %q is not among the tools", effect)}
		}
		return effect, input, err
	}
	a.key, a.flow, a.queued = ofItem(e.key, item), ofItem(e.flow, item), ofItem(e.queued, item)
	return a
}

// Tolerate bounds how many items may be given up and be a [Result] with a
// Cause; without it all may. One more, and the state has failed: a Catch of its
// class routes it once it is that item's turn, and drops what the items after it
// came to. If nothing catches it, the run is parked until that item is redriven
// or resolved; the others go on. Which item that is depends then on the order in
// which they were given up: the first n are Results, whichever they are, and
// each one after them parks. Where that matters, catch it, or tolerate none.
func (e *EachAction[T, I]) Tolerate(n int) *EachAction[T, I] {
	e.a.many.tolerate, e.a.many.tolerates = n, true
	return e
}

// LimitOf takes how many items may be under way at once of the data when the
// state is entered, instead of the limit that is declared.
func (e *EachAction[T, I]) LimitOf(limit func(*T) int) *EachAction[T, I] {
	e.a.many.limitOf = ofData(limit)
	return e
}

// Key gives each item's effect a business key, see [CallAction.Key].
func (e *EachAction[T, I]) Key(key func(*T, I) string) *EachAction[T, I] {
	e.key = key
	return e
}

// Flow names what the provider of each item's effect limits by, see
// [CallAction.Flow].
func (e *EachAction[T, I]) Flow(key func(*T, I) string) *EachAction[T, I] {
	e.flow = key
	return e
}

// Timeout bounds one attempt of one item; without it the handler's policy does.
func (e *EachAction[T, I]) Timeout(d time.Duration) *EachAction[T, I] {
	e.a.timeout = Duration(d)
	return e
}

// Queued sends all effects to the fleet: none is performed by the worker that
// commits the record which asks for it.
func (e *EachAction[T, I]) Queued() *EachAction[T, I] {
	return e.QueuedWhen(func(*T, I) bool { return true })
}

// QueuedWhen sends the effects of items to the fleet for which the predicate
// holds.
func (e *EachAction[T, I]) QueuedWhen(pred func(*T, I) bool) *EachAction[T, I] {
	e.queued = pred
	return e
}

func (e *EachAction[T, I]) erase(*T) *action { return e.a }
