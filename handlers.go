package pawl

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlrun/pawl/internal/config"
	"github.com/pawlrun/pawl/internal/natscall"
	"github.com/pawlrun/pawl/queue"
)

// OverNATS returns a handler for statemachine.HandleRaw of effects that are
// performed by whoever listens on a subject, in any language: the request has
// the input and, in headers, Pawl-Run-Id, Pawl-Effect-Id, Pawl-Effect,
// Pawl-Idempotency-Key and Pawl-Attempt; the answer is the result as JSON, or
// an error as micro services have it. docs/wire.md has all of it. It works in a
// Process, over the connection of the fleet. It panics if the subject is none,
// or has wildcards.
func OverNATS(subject string) func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
	if !queue.IsSubject(subject) {
		panic(fmt.Sprintf("subject %q is not %s", subject, queue.SubjectGrammar))
	}
	return natscall.Handler(subject)
}

// HandlerOf returns the handler of an effect that the configuration binds to a
// NATS subject; nil if it is bound to a URL.
func HandlerOf(b config.Bound) func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
	if b.Subject == "" {
		return nil
	}
	return OverNATS(b.Subject)
}
