package worker

import (
	"testing"
	"time"
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
