package api

import (
	"slices"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/statemachine"
)

// EffectPolicy says how the attempts of an effect type go, and what bounds it:
// as a worker has it, with what it was configured with and the defaults.
type EffectPolicy struct {
	Effect   string                `json:"effect"`
	Attempts int                   `json:"attempts"`
	Timeout  statemachine.Duration `json:"timeout"` // of one attempt, unless the state has its own
	// The waits between attempts: the first, by what each is longer than the one
	// before, and the longest. Each is drawn around it.
	FirstWait   statemachine.Duration `json:"first_wait"`
	WaitFactor  float64               `json:"wait_factor"`
	LongestWait statemachine.Duration `json:"longest_wait"`
	InDoubt     statemachine.InDoubt  `json:"in_doubt"`
	Queued      bool                  `json:"queued,omitempty"` // never inline
	// Over all workers; 0 and "" are no limit.
	Concurrency int       `json:"concurrency,omitempty"`
	PerKey      int       `json:"per_key,omitempty"`
	Rate        flow.Rate `json:"rate,omitzero"`
	RatePerKey  flow.Rate `json:"rate_per_key,omitzero"`
}

// described adds to a machine what this process knows of its versions.
func (a *Answers) described(m *Machine) {
	if a.Definitions == nil || a.Policy == nil {
		return
	}
	for i := range m.Versions {
		v := &m.Versions[i]
		d, ok := a.Definitions.Definition(m.Name, v.Version)
		if !ok || d.Hash != v.Hash {
			continue
		}
		var effects []string
		for _, s := range d.States() {
			effects = append(append(effects, s.Effects...), s.Undo...)
		}
		slices.Sort(effects)
		for _, e := range slices.Compact(effects) {
			if p, ok := a.Policy(e); ok {
				v.Effects = append(v.Effects, p)
			}
		}
	}
}
