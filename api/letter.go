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
	// Truncated is set if the letter is too large for an answer: then it has no
	// body, and no headers.
	Truncated bool `json:"truncated,omitempty"`
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

// Mail yields the letters with a sequence after the given one that a filter
// selects, oldest first. A letter that cannot be read in full is yielded with
// an error, and others may follow.
func (a *Answers) Mail(ctx context.Context, f deadletter.Filter, after uint64) iter.Seq2[deadletter.Letter, error] {
	return func(yield func(deadletter.Letter, error) bool) {
		for l, err := range a.Letters.Of(ctx, f.Kind, f.Machine, after) {
			if (err != nil || f.Matches(&l)) && !yield(l, err) {
				return
			}
		}
	}
}

// Letter returns a letter by its sequence. ErrNotFound is returned if there is
// none. One that cannot be read in full comes with an error.
func (a *Answers) Letter(ctx context.Context, seq uint64) (*Letter, error) {
	l, ok, err := a.Letters.Get(ctx, seq)
	if err != nil && !ok {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("letter %d: %w", seq, ErrNotFound)
	}
	return LetterOf(l), err
}
