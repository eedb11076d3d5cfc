package worker

import (
	"cmp"

	"github.com/pawlrun/pawl/statemachine"
)

// Policy is how the attempts of an effect type go here: as its handler was
// declared and configured, and where neither says so, by default. False if there
// is no handler.
func (w *Worker) Policy(effect string) (statemachine.Policy, bool) {
	h, ok := w.catalog.Handler(effect)
	if !ok {
		return statemachine.Policy{}, false
	}
	p, r := h.Policy, w.cfg.retry(h)
	p.Attempts, p.Waits = r.Attempts, statemachine.Waits{First: r.Initial, Factor: r.Factor, Max: r.Max}
	p.Timeout = timeout(new(statemachine.Pending), h)
	p.InDoubt = cmp.Or(p.InDoubt, statemachine.Repeat)
	return p, true
}
