package statemachine

import "encoding/json"

// EachChildAction starts a run of another machine for each of many items.
type EachChildAction[T, I any] struct {
	a  *action
	id func(*T, I) string
}

// EachChild starts a run of a machine for each of the items, as children of this
// one, at most limit of them at once: in makes a child's input of the item, or
// sends the item as it is if it is nil, and out puts what it came to into the
// data. It is to [Child] what [Each] is to [Call]: the outcomes come in the order
// of the items, and a child that fails, is cancelled or cannot begin is a
// [Result] with a Cause. When the state is left, children that have not ended
// are cancelled.
func EachChild[T, I, In, Out any](items func(*T) []I, limit int, machine Ref[In, Out], in func(*T, I) In, out func(*T, I, Result[Out])) *EachChildAction[T, I] {
	name := string(machine)
	pick := func(d *T, item I) (string, json.RawMessage, error) {
		if in == nil {
			input, err := marshal(item)
			return name, input, err
		}
		input, err := marshal(in(d, item))
		return name, input, err
	}
	c := newEachChild(items, limit, pick, decoded(out))
	c.a.machines, c.a.fits = []string{name}, fitting(out)
	return c
}

// EachChildOf is [EachChild] for machines that pick chooses for an item, see
// [ChildOf].
func EachChildOf[T, I any](items func(*T) []I, limit int, pick func(*T, I) (machine string, input json.RawMessage), out func(*T, I, Result[json.RawMessage])) *EachChildAction[T, I] {
	var choose func(*T, I) (string, json.RawMessage, error)
	if pick != nil {
		choose = func(d *T, item I) (string, json.RawMessage, error) {
			machine, input := pick(d, item)
			return chosen(machine, input)
		}
	}
	c := newEachChild(items, limit, choose, undecoded(out))
	c.a.open = true
	return c
}

func newEachChild[T, I any](items func(*T) []I, limit int, pick func(*T, I) (string, json.RawMessage, error), out func(*T, I, json.RawMessage, *Cause) error) *EachChildAction[T, I] {
	c := &EachChildAction[T, I]{}
	c.a = &action{kind: KindEach, many: &many{limit: limit, tolerate: -1, children: true}}
	if pick != nil && items != nil {
		c.a.many.open = opened(items, func(item I) *action {
			a := itemAction(KindChild, item, pick, out)
			a.machines, a.abandon, a.fits = c.a.machines, c.a.abandon, c.a.fits
			a.key = ofItem(c.id, item)
			return a
		})
	}
	return c
}

// ID names the run of each item's child, see [ChildAction.ID].
func (c *EachChildAction[T, I]) ID(id func(*T, I) string) *EachChildAction[T, I] {
	c.id = id
	return c
}

// Abandon lets children live on when their parent ends or leaves the state.
func (c *EachChildAction[T, I]) Abandon() *EachChildAction[T, I] {
	c.a.abandon = true
	return c
}

// Tolerate bounds how many children may fail, see [EachAction.Tolerate].
func (c *EachChildAction[T, I]) Tolerate(n int) *EachChildAction[T, I] {
	c.a.many.tolerate, c.a.many.tolerates = n, true
	return c
}

// LimitOf takes how many children may be under way at once of the data, see
// [EachAction.LimitOf].
func (c *EachChildAction[T, I]) LimitOf(limit func(*T) int) *EachChildAction[T, I] {
	c.a.many.limitOf = ofData(limit)
	return c
}

func (c *EachChildAction[T, I]) erase(*T) *action { return c.a }
