package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/statemachine"
)

// Of a state that does many at once, what is given up is told first, by its
// number.
func TestOfManyTheWorstIsTold(t *testing.T) {
	t.Parallel()
	var all []statemachine.Pending
	for i := range 20 {
		all = append(all, pending(statemachine.Retry, func(p *statemachine.Pending) {
			p.ID, p.Item, p.RetryAt = fmt.Sprint("e", i), i+1, &now
		}))
	}
	all[12].Place, all[12].RetryAt, all[12].Cause = statemachine.Parked, nil, &statemachine.Cause{Class: "full"}
	f := facts(all...)
	f.Record.Status = statemachine.StatusParked
	f.Record.Frames = []statemachine.Frame{{Kind: statemachine.FrameRoot, State: "summarise", Visit: 1, Fan: &statemachine.Fan{Size: 500, Asked: 20}}}
	x := Of(f)
	if x.Cause != GivenUp || !strings.Contains(x.Because[0].Text, "model.chat (13 of 500)") {
		t.Errorf("first %+v", x.Because[0])
	}
}
