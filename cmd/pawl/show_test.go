package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

// A run that is being unwound says how it will end, and what is left to undo, in
// the order in which that is done.
func TestShowUnwinding(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out strings.Builder
	a := &app{Tool: &cli.Tool{Stdout: &out, Now: func() time.Time { return now }}}
	undo := func(state, booking string) api.Undo {
		return api.Undo{State: state, Effect: "travel.cancel", Of: "x", Input: json.RawMessage(`{"booking":"` + booking + `"}`)}
	}
	run := &api.Run{
		ID: "t1", Machine: "trip", Version: 1, State: "car", Status: statemachine.StatusRunning, Revision: 5, Started: now, Updated: now,
		Ending:  &statemachine.Ending{Status: statemachine.StatusCancelled, Cause: &statemachine.Cause{Class: "cancelled", Message: "ill", By: "anna"}},
		Undos:   []api.Undo{undo("flight", "b-1"), undo("hotel", "b-2")},
		Pending: []api.Pending{{ID: "p", Effect: "travel.cancel", Key: "p", Place: statemachine.Queued, Attempt: 1, Try: 1, Since: now, Undoes: "x"}},
	}
	if err := a.printRun(run); err != nil {
		t.Fatal(err)
	}
	want := `Run       t1
Machine   trip version 1
State     car
Status    running
Ending    it will be cancelled, once it is unwound: cancelled: ill (by anna)
Revision  5
Started   ` + cli.Time(now) + ` (now)
Updated   ` + cli.Time(now) + ` (now)

Waits for:
EFFECT         PLACE   ATTEMPT  SINCE  NEXT  KEY  LAST ERROR
travel.cancel  queued  1        now    -     p    -

Is being undone:
STATE   BY EFFECT      KEY  INPUT
hotel   travel.cancel  -    {"booking":"b-2"}
flight  travel.cancel  -    {"booking":"b-1"}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
