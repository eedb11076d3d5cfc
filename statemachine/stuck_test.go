package statemachine_test

import sm "github.com/pawlrun/pawl/statemachine"

// stucks is a machine that cannot go on after its sleep.
func stucks() *sm.Definition { return trialStuck(true) }

func trialStuck(broken bool) *sm.Definition {
	m := sm.New[trial]("trial", 1)
	m.State("sleep", sm.Sleep((*trial).nap, nil)).When(func(*trial) bool {
		if broken {
			// The golden record of this panic names the line where it was first.
//line wait_test.go:284
			panic("not today")
		}
		return false
	}, "done")
	m.Succeed("done")
	return m.Definitions()[0]
}
