package pawltest

import (
	"encoding/json"
	"errors"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// Option says how a run is tested.
type Option func(*Run)

// script performs effects of one type.
type script func(input json.RawMessage) (json.RawMessage, error)

// On performs an effect type in this test. The function is called once for
// every attempt; its errors are those of a handler, see [sm.Terminal],
// [sm.RetryAfter] and [sm.Later].
func On[In, Out any](effect sm.Effect[In, Out], f func(In) (Out, error)) Option {
	return OnRaw(string(effect), func(input json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, sm.Terminal(sm.ClassInvalidInput, err)
		}
		out, err := f(in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	})
}

// OnRaw performs an effect type that is known by name only.
func OnRaw(effect string, f func(input json.RawMessage) (json.RawMessage, error)) Option {
	return func(r *Run) { r.scripts[effect] = f }
}

// Returns answers the attempts of an effect type one after the other. The last
// result is repeated.
func Returns[In, Out any](effect sm.Effect[In, Out], results ...Out) Option {
	return func(r *Run) {
		n := 0 // of this run
		On(effect, func(In) (Out, error) {
			if len(results) == 0 {
				var none Out
				return none, sm.Terminal("no_result", errors.New("Returns was given no results"))
			}
			out := results[min(n, len(results)-1)]
			n++
			return out, nil
		})(r)
	}
}

// RunID names the run; without it that is "test".
func RunID(id string) Option { return func(r *Run) { r.id = id } }

// Machine chooses among several machines; version 0 means the highest.
func Machine(name string, version int) Option {
	return func(r *Run) { r.machine, r.version = name, version }
}

// At sets the time at which the run starts; without it that is midnight of
// 1 January 2026, UTC.
func At(t time.Time) Option { return func(r *Run) { r.now = t.UTC() } }

// Policy sets the policy of an effect type, in place of its handler's.
func Policy(effect string, p sm.Policy) Option {
	return func(r *Run) { r.policies[effect] = p }
}
