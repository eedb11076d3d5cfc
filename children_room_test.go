package pawl_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawlrun/pawl/statemachine"
)

// The end of a child whose record would be too large for its parent parks that,
// with one letter: nothing else would ever tell it. A build that says less goes
// on once it is redriven.
func TestAnEndOfAChildWithoutRoom(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	var brief atomic.Bool
	m := statemachine.New[swollen]("swollen", 1)
	m.State("child", statemachine.Child(statemachine.Ref[struct{}, struct{}]("small"), nil, func(d *swollen, _ struct{}) {
		for range 150 {
			if !brief.Load() {
				d.Notes.Append(strings.Repeat("x", 8000))
			}
		}
	}))
	m.Succeed("done")
	small := statemachine.New[struct{}]("small", 1)
	small.Succeed("done")
	v.work(new(statemachine.Catalog).Add(m, small))
	v.start("swollen", "s", `{}`)
	r := v.reaches("s", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if r.Cause == nil || r.Cause.Class != statemachine.ClassTooLarge || len(r.Pending) != 1 || r.Pending[0].Effect != statemachine.ChildEffect {
		t.Fatalf("parked: %s", describe(r))
	}
	if l := v.letters(1)[0]; l.Run != "s" || l.Class != statemachine.ClassTooLarge || l.Effect != statemachine.ChildEffect {
		t.Errorf("letter %+v", l)
	}
	v.drained("PAWL_EVENTS")
	brief.Store(true)
	v.command(statemachine.EventRedrive, "s", "again", statemachine.Command{By: "anna", Reason: "it says less"})
	if r := v.ended("s"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("ended: %s", describe(r))
	}
	v.letters(1)
}
