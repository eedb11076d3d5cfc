package pawl

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pawlrun/pawl/internal/logkey"
)

// patience is how long one try may take before the process says what it waits
// for.
const patience = 3 * time.Second

// await tries until it succeeds or ctx ends. Meanwhile the process is not
// ready, and says why: on /readyz, and in the log whenever the reason changes.
func (p *Process) await(ctx context.Context, name string, try func(context.Context) error) error {
	said := ""
	b := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	return backoff.Retry(func() error {
		once, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := try(once)
		p.ready.Set(name, err)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			p.log.Warn("waiting for "+name, logkey.Error, err)
		}
		return err
	}, backoff.WithContext(b, ctx))
}
