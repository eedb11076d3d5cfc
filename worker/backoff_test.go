package worker

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// The waits before attempts two to five lie in the stated intervals, and reach
// both halves of them.
func TestRetryDelaysLieInTheStatedIntervals(t *testing.T) {
	r := Config{}.withDefaults().Retry
	for n := 1; n <= 8; n++ {
		mid := min(time.Second<<(n-1), r.Max)
		low, high := mid/2, mid*3/2
		below, above := 0, 0
		for range 2000 {
			d := r.delay(n)
			if d < low || d > high {
				t.Fatalf("delay(%d) = %s, want within [%s, %s]", n, d, low, high)
			}
			if d < mid {
				below++
			} else {
				above++
			}
		}
		if below < 500 || above < 500 {
			t.Errorf("delay(%d): %d draws below %s and %d above: not spread", n, below, mid, above)
		}
	}
}

// What an effect's policy says stands before what the fleet's configuration
// does, value by value.
func TestRetryOfAnEffect(t *testing.T) {
	t.Parallel()
	c := Config{Retry: Retry{Attempts: 5, Initial: time.Second, Factor: 2, Jitter: 0.5, Max: time.Minute}}
	for _, tt := range []struct {
		policy statemachine.Policy
		want   Retry
	}{
		{statemachine.Policy{}, c.Retry},
		{statemachine.Policy{Attempts: 2, Waits: statemachine.Waits{Factor: 3}}, Retry{2, time.Second, 3, 0.5, time.Minute}},
		{statemachine.Policy{Waits: statemachine.Waits{First: 2 * time.Minute}}, Retry{5, 2 * time.Minute, 2, 0.5, 2 * time.Minute}},
		{statemachine.Policy{Waits: statemachine.Waits{First: time.Hour, Max: 24 * time.Hour}}, Retry{5, time.Hour, 2, 0.5, 24 * time.Hour}},
	} {
		if got := c.retry(&statemachine.Handler{Policy: tt.policy}); got != tt.want {
			t.Errorf("policy %+v: %+v, want %+v", tt.policy, got, tt.want)
		}
	}
}
