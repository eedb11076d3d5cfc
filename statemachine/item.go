package statemachine

import "encoding/json"

// opened is what counts the items of the data, and says what one of them does.
func opened[T, I any](items func(*T) []I, one func(I) *action) func(any) (int, func(int) *action) {
	return func(data any) (int, func(int) *action) {
		all := items(data.(*T))
		return len(all), func(i int) *action { return one(all[i]) }
	}
}

// itemAction is the action of one item: what it asks for, and what takes its
// outcome.
func itemAction[T, I any](kind StateKind, item I, pick func(*T, I) (string, json.RawMessage, error), out func(*T, I, json.RawMessage, *Cause) error) *action {
	return &action{
		kind: kind,
		pick: func(d any) (string, json.RawMessage, error) { return pick(d.(*T), item) },
		take: func(d any, body json.RawMessage) error { return out(d.(*T), item, body, nil) },
		lost: func(d any, c *Cause) error { return out(d.(*T), item, nil, c) },
	}
}

// decoded gives out the outcome of an item as what its type says; a nil out drops
// it.
func decoded[T, I, Out any](out func(*T, I, Result[Out])) func(*T, I, json.RawMessage, *Cause) error {
	return func(d *T, item I, body json.RawMessage, c *Cause) error {
		if out == nil {
			return nil
		}
		r := Result[Out]{Cause: c}
		if c == nil {
			if err := unmarshal(body, &r.Value); err != nil {
				return err
			}
		}
		out(d, item, r)
		return nil
	}
}

// undecoded gives out the outcome of an item as it is.
func undecoded[T, I any](out func(*T, I, Result[json.RawMessage])) func(*T, I, json.RawMessage, *Cause) error {
	return func(d *T, item I, body json.RawMessage, c *Cause) error {
		if out != nil {
			out(d, item, Result[json.RawMessage]{Value: body, Cause: c})
		}
		return nil
	}
}

// fitting says whether out can be given a result.
func fitting[T, I, Out any](out func(*T, I, Result[Out])) func(json.RawMessage) error {
	return func(body json.RawMessage) error {
		if out == nil {
			return nil
		}
		return unmarshal(body, new(Out))
	}
}

// ofItem is a function of the data and an item as one of the data, nil if it is.
func ofItem[T, I, V any](f func(*T, I) V, item I) func(any) V {
	if f == nil {
		return nil
	}
	return func(d any) V { return f(d.(*T), item) }
}

// ofData is a function of the data without its type, nil if it is.
func ofData[T, V any](f func(*T) V) func(any) V {
	if f == nil {
		return nil
	}
	return func(d any) V { return f(d.(*T)) }
}
