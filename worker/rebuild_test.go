package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// hinted is a Shadow that notes hints.
type hinted struct {
	Shadow
	hints []Hint
}

func (h *hinted) Flushed(_ context.Context, hints []Hint) error {
	h.hints = append(h.hints, hints...)
	return nil
}

// After a loss of Redis the end of a run that ended long ago is not told again;
// that of one that ended just now may not have been told, and is.
func TestLossOfRedisTellsNoOldEndsAgain(t *testing.T) {
	shadow := &hinted{}
	w := &Worker{ports: Ports{Shadow: shadow}}
	save := func(run string, status statemachine.Status, ago time.Duration) Save {
		return Save{Stored: &statemachine.Stored{Record: &statemachine.Record{Run: run, Txid: "of " + run, Status: status}, Time: time.Now().Add(-ago)}}
	}
	err := w.told(t.Context(), []Save{
		save("old", statemachine.StatusSucceeded, time.Hour), save("new", statemachine.StatusSucceeded, time.Second),
		save("under way", statemachine.StatusRunning, time.Hour), save("failed", statemachine.StatusFailed, 3*time.Minute),
	})
	want := []Hint{{"old", "of old"}, {"failed", "of failed"}}
	if err != nil || !slices.Equal(shadow.hints, want) {
		t.Errorf("hints are %v, want %v; %v", shadow.hints, want, err)
	}
}
