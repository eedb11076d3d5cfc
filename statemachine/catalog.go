package statemachine

import (
	"context"
	"encoding/json"
	"time"
)

// Definition is a compiled machine without its Go type: what a worker drives.
type Definition struct {
	Name    string
	Version int
	Hash    string
}

// Catalog is what a fleet can do: machines, and handlers for their effects.
type Catalog struct{}

// Definition returns a machine; version 0 means the highest.
func (c *Catalog) Definition(name string, version int) (*Definition, bool) { panic("seam") }

// Definitions returns all machines, by name and version.
func (c *Catalog) Definitions() []*Definition { panic("seam") }

// Handler returns what performs an effect type.
func (c *Catalog) Handler(effect string) (*Handler, bool) { panic("seam") }

// Effects returns the effect types that have a handler, sorted.
func (c *Catalog) Effects() []string { panic("seam") }

// Handler performs effects of one type.
type Handler struct {
	Effect string
	Policy Policy
	// Call is given the idempotency key and the input with all references
	// resolved, and returns the result as JSON.
	Call func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error)
}

// Policy says how the attempts of an effect type go.
type Policy struct {
	Timeout  time.Duration // of one attempt; 0: 30 s
	Attempts int           // before it is given up; 0: 5
	Queued   bool          // never inline
}
