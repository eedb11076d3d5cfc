package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/pawlrun/pawl/deadletter"
)

// Letter is a dead letter, with a body that can be read.
type Letter struct {
	deadletter.Letter
	// Exactly one of the three is set, if there is a body at all.
	Body json.RawMessage `json:"body,omitempty"`        // if it is JSON
	Text string          `json:"body_text,omitempty"`   // if it is other text
	Data []byte          `json:"body_base64,omitempty"` // if it is neither
}

// LetterOf describes a letter.
func LetterOf(l deadletter.Letter) *Letter {
	v := &Letter{Letter: l}
	v.Letter.Body = nil
	switch {
	case len(l.Body) == 0:
	case json.Valid(l.Body):
		v.Body = l.Body
	case utf8.Valid(l.Body):
		v.Text = string(l.Body)
	default:
		v.Data = l.Body
	}
	return v
}

// Mail yields the letters that a filter selects, oldest first.
func (a *Answers) Mail(ctx context.Context, f deadletter.Filter) iter.Seq2[deadletter.Letter, error] {
	return func(yield func(deadletter.Letter, error) bool) {
		for l, err := range a.Letters.All(ctx) {
			if err != nil {
				yield(deadletter.Letter{}, err)
				return
			}
			if f.Matches(&l) && !yield(l, nil) {
				return
			}
		}
	}
}

// Letter returns a letter by its sequence. ErrNotFound is returned if there is
// none.
func (a *Answers) Letter(ctx context.Context, seq uint64) (*Letter, error) {
	l, ok, err := a.Letters.Get(ctx, seq)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("letter %d: %w", seq, ErrNotFound)
	}
	return LetterOf(l), nil
}
