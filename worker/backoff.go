package worker

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// delay draws the wait after the n-th failure, n from 1. It is drawn here and
// recorded, so that a fold needs no chance.
func (r Retry) delay(n int) time.Duration {
	b := r.series()
	d := b.NextBackOff()
	for i := 1; i < n && i < 64; i++ {
		d = b.NextBackOff()
	}
	return d
}

func (r Retry) series() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(r.Initial),
		backoff.WithMultiplier(r.Factor),
		backoff.WithRandomizationFactor(r.Jitter),
		backoff.WithMaxInterval(r.Max),
		backoff.WithMaxElapsedTime(0),
	)
}
