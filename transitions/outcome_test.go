package transitions

import (
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// outcome is what a handler's error means to the worker.
type outcome struct {
	class  string // terminal
	later  bool
	wait   time.Duration
	closes bool // … and everything else with the flow key waits, too
	failed bool // an ordinary failure
}

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return outcome{}
	case statemachine.IsTerminal(err):
		return outcome{class: statemachine.ClassOf(err)}
	case statemachine.IsLater(err):
		wait, _ := statemachine.RetryAfterOf(err)
		_, closes := statemachine.ThrottledFor(err)
		return outcome{later: true, wait: wait, closes: closes}
	}
	return outcome{failed: true}
}
