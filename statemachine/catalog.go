package statemachine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Catalog is what a fleet can do: machines, and handlers for their effects. It
// is filled before it is used; after that it may be read concurrently.
type Catalog struct {
	defs     []*Definition // by name and version
	handlers map[string]*Handler
	faults   []error
}

// Handler performs effects of one type.
type Handler struct {
	Effect string
	Policy Policy
	// Call is given the idempotency key and the input with all references
	// resolved, and returns the result as JSON.
	Call func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error)
	// Verify finds out what came of a call; nil if nothing can. See Verifier.
	Verify func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error)
}

// Add adds machines and returns the catalog. Faults are reported by Check.
func (c *Catalog) Add(machines ...Machines) *Catalog {
	for _, m := range machines {
		for _, d := range m.Definitions() {
			c.add(d)
		}
	}
	return c
}

func (c *Catalog) add(d *Definition) {
	at, found := slices.BinarySearchFunc(c.defs, d, func(a, b *Definition) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	switch {
	case !found:
		c.defs = slices.Insert(c.defs, at, d)
	case c.defs[at].Hash != d.Hash:
		c.faults = append(c.faults, fmt.Errorf("machine %q version %d: declared twice with different graphs", d.Name, d.Version))
	}
}

// Definition returns a machine; version 0 means the highest.
func (c *Catalog) Definition(name string, version int) (*Definition, bool) {
	for _, d := range slices.Backward(c.defs) {
		if d.Name == name && (version == 0 || d.Version == version) {
			return d, true
		}
	}
	return nil, false
}

// Definitions returns all machines, by name and version.
func (c *Catalog) Definitions() []*Definition { return slices.Clone(c.defs) }

// Handle declares what performs an effect type. The function is given the
// idempotency key and must tolerate being called again with the same one.
func Handle[In, Out any](c *Catalog, effect Effect[In, Out], f func(ctx context.Context, key string, in In) (Out, error), policy ...Policy) {
	HandleRaw(c, string(effect), rawHandler(f), policy...)
}

// rawHandler decodes the input and encodes the result.
func rawHandler[In, Out any](f func(context.Context, string, In) (Out, error)) func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := unmarshal(input, &in); err != nil {
			return nil, Terminal(ClassInvalidInput, err)
		}
		out, err := f(ctx, key, in)
		if err != nil {
			return nil, err
		}
		result, err := marshal(out)
		if err != nil {
			return nil, Terminal(ClassInvalidResult, err)
		}
		return result, nil
	}
}

// HandleRaw declares what performs an effect type that is known by name only.
func HandleRaw(c *Catalog, effect string, f func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error), policy ...Policy) {
	h := &Handler{Effect: effect, Call: f}
	if len(policy) > 0 {
		h.Policy = policy[0]
	}
	switch {
	case !validName(effect, true):
		c.faults = append(c.faults, fmt.Errorf("effect %q: not a name (%s)", effect, effectGrammar))
	case f == nil:
		c.faults = append(c.faults, fmt.Errorf("effect %q: the handler is nil", effect))
	case c.handlers[effect] != nil:
		c.faults = append(c.faults, fmt.Errorf("effect %q: has two handlers", effect))
	case len(policy) > 1:
		c.faults = append(c.faults, fmt.Errorf("effect %q: has two policies", effect))
	}
	if c.handlers == nil {
		c.handlers = map[string]*Handler{}
	}
	c.handlers[effect] = h
}

// Verifier declares how the outcome of an effect that is in doubt is found
// out: the function is given the key and the input of the call, and returns
// the result that the call had, ErrNotDone if it came to nothing and cannot
// any more, or another error if that cannot be told. It changes nothing in the
// world. The handler is declared before.
func Verifier[In, Out any](c *Catalog, effect Effect[In, Out], f func(ctx context.Context, key string, in In) (Out, error)) {
	VerifierRaw(c, string(effect), rawHandler(f))
}

// VerifierRaw is Verifier for an effect type that is known by name only.
func VerifierRaw(c *Catalog, effect string, f func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error)) {
	h := c.handlers[effect]
	switch {
	case h == nil:
		c.faults = append(c.faults, fmt.Errorf("effect %q: has a verifier, but no handler before it", effect))
	case f == nil:
		c.faults = append(c.faults, fmt.Errorf("effect %q: the verifier is nil", effect))
	case h.Verify != nil:
		c.faults = append(c.faults, fmt.Errorf("effect %q: has two verifiers", effect))
	default:
		h.Verify = f
	}
}

// Handler returns what performs an effect type.
func (c *Catalog) Handler(effect string) (*Handler, bool) {
	h, ok := c.handlers[effect]
	return h, ok
}

// Effects returns the effect types that have a handler, sorted.
func (c *Catalog) Effects() []string {
	effects := make([]string, 0, len(c.handlers))
	for e := range c.handlers {
		effects = append(effects, e)
	}
	slices.Sort(effects)
	return effects
}

// Check returns all faults of all machines and handlers, joined: one line
// each, which names the machine and the state. A worker does not start with a
// catalog that has any.
func (c *Catalog) Check() error {
	faults := slices.Clone(c.faults)
	for _, e := range c.Effects() {
		faults = append(faults, c.handlers[e].Policy.check(e, c.handlers[e])...)
	}
	for _, d := range c.defs {
		faults = append(faults, d.faults...)
		faults = append(faults, c.missing(d)...)
	}
	return errors.Join(faults...)
}

// missing returns the effects of a machine that nothing performs.
func (c *Catalog) missing(d *Definition) []error {
	var faults []error
	for _, n := range d.nodes {
		all := append([]*action{n.action, n.undo}, n.tells()...)
		for _, a := range all {
			if a == nil {
				continue
			}
			for _, m := range a.machines {
				if _, ok := c.Definition(m, 0); !ok && validName(m, false) {
					faults = append(faults, d.faultAt(n.name, "child of machine %q, which is not in the catalog (ChildOf starts those that others have)", m))
				}
			}
			for _, e := range a.effects {
				if c.handlers[e] == nil && validName(e, true) {
					faults = append(faults, d.faultAt(n.name, "effect %q has no handler", e))
				}
			}
		}
	}
	return faults
}
