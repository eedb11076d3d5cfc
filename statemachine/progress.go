package statemachine

import (
	"context"
	"encoding/json"
	"fmt"
)

// MaxProgress is how many bytes of JSON a handler may tell at once.
const MaxProgress = 64 << 10

// progressKey is the key of who is told, in a context.
type progressKey struct{}

// Progress tells whoever watches the run how an attempt gets on: a percentage,
// or the next words of a model's answer. What is told becomes JSON, of at most
// MaxProgress bytes, which is the only error there is. It never waits. It is no
// part of the run's state and history and is soon forgotten, and what nobody
// can be told in time is lost: nothing may depend on it.
func Progress(ctx context.Context, v any) error {
	b, err := marshal(v)
	if err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	if err := within("progress", len(b), MaxProgress); err != nil {
		return err
	}
	if tell, ok := ctx.Value(progressKey{}).(func(json.RawMessage)); ok {
		tell(b)
	}
	return nil
}

// WithProgress returns the context of a handler's call whose progress tell is
// given.
func WithProgress(ctx context.Context, tell func(json.RawMessage)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}
