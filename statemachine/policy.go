package statemachine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Policy says how the attempts of an effect type go. What is zero is as the
// fleet's configuration says.
type Policy struct {
	Timeout  time.Duration // of one attempt; 0: 30 s
	Attempts int           // before it is given up; 0: 5
	Waits    Waits         // between attempts
	InDoubt  InDoubt       // when nobody knows what came of a try; "": Repeat
	Queued   bool          // never inline

	// Within is how long what was Accepted may take; 0: 24 h. Heartbeat is how
	// long who accepted it may be silent meanwhile; 0: as long.
	Within, Heartbeat time.Duration
}

// Waits are how long a failed effect waits for its next attempt.
type Waits struct {
	First  time.Duration // after the first failure; 0: 1 s
	Factor float64       // by which each is longer than the one before; 0: 2
	Max    time.Duration // 0: 60 s
}

// InDoubt says what is done about a try that began and of which nobody knows
// what came: its worker died, or its handler was cancelled at its deadline.
type InDoubt string

// What is done about a try in doubt.
const (
	// Repeat calls the handler again, with the same key: whoever is called
	// honours it.
	Repeat InDoubt = "repeat"
	// Verify asks first: see Verifier.
	Verify InDoubt = "verify"
	// Halt gives the effect up, with the class ClassInDoubt: a person decides.
	Halt InDoubt = "halt"
)

// ErrNotDone is returned by a verifier: the effect was not performed under
// this key, and will not be by any call made before.
var ErrNotDone = errors.New("not done")

// Asks reports whether the policy has more to do than to repeat.
func (p Policy) Asks() bool { return p.InDoubt == Verify || p.InDoubt == Halt }

// over is a policy in which what q says stands before what p says.
func (p Policy) over(q Policy) Policy {
	return Policy{
		Timeout:  cmp.Or(q.Timeout, p.Timeout),
		Attempts: cmp.Or(q.Attempts, p.Attempts),
		Waits:    Waits{First: cmp.Or(q.Waits.First, p.Waits.First), Factor: cmp.Or(q.Waits.Factor, p.Waits.Factor), Max: cmp.Or(q.Waits.Max, p.Waits.Max)},
		InDoubt:  cmp.Or(q.InDoubt, p.InDoubt),
		Queued:   p.Queued || q.Queued,
		Within:   cmp.Or(q.Within, p.Within), Heartbeat: cmp.Or(q.Heartbeat, p.Heartbeat),
	}
}

func (p Policy) check(effect string, h *Handler) (faults []error) {
	fault := func(bad bool, format string, a ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("effect %q: policy: "+format, append([]any{effect}, a...)...))
		}
	}
	fault(p.Timeout < 0, "timeout %s is negative", p.Timeout)
	fault(p.Within < 0 || p.Heartbeat < 0, "within %s or heartbeat %s is negative", p.Within, p.Heartbeat)
	fault(p.Attempts < 0, "%d attempts", p.Attempts)
	fault(p.Waits.First < 0 || p.Waits.Max < 0, "a wait is negative")
	fault(p.Waits.Factor != 0 && !(p.Waits.Factor >= 1), "factor %g is below 1", p.Waits.Factor)
	fault(p.Waits.Max != 0 && p.Waits.First > p.Waits.Max, "the first wait (%s) is longer than the longest (%s)", p.Waits.First, p.Waits.Max)
	switch p.InDoubt {
	case "", Repeat, Halt:
	case Verify:
		fault(h.Verify == nil, "in doubt it is to be verified, but it has no verifier")
	default:
		fault(true, "in doubt: %q is not %s, %s or %s", p.InDoubt, Repeat, Verify, Halt)
	}
	return faults
}

// With returns a catalog in which policies have been changed: what is not zero
// in the one given stands before what the handler was declared with.
func (c *Catalog) With(policies map[string]Policy) *Catalog {
	with := *c
	with.handlers = maps.Clone(c.handlers)
	for effect, p := range policies {
		h := c.handlers[effect]
		if h == nil {
			with.faults = append(with.faults[:len(with.faults):len(with.faults)], fmt.Errorf("effect %q: has a policy, but no handler", effect))
			continue
		}
		changed := *h
		changed.Policy = h.Policy.over(p)
		with.handlers[effect] = &changed
	}
	return &with
}
