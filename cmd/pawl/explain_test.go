package main

import (
	"testing"
	"time"
)

// How long something takes is told in days where hours are hard to read.
func TestIn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Second: "", 0: "", 90 * time.Second: " (in 1m30s)", 47 * time.Hour: " (in 47h0m0s)",
		48 * time.Hour: " (in 2d0h)", 1204*time.Hour + time.Minute: " (in 50d4h)",
	} {
		if got := in(now, now.Add(d)); got != want {
			t.Errorf("in %s = %q, want %q", d, got, want)
		}
	}
}
