package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/natsqueue"
)

// guardEvery is how often a process makes sure that HISTORY is still the one
// it began with.
const guardEvery = 2 * time.Second

// guard ends the process when HISTORY is gone, or another one has taken its
// place. Everything that the process and Redis know is of the old one: going
// on would answer new starts with old runs.
func (p *Process) guard(ctx context.Context) {
	t := time.NewTicker(guardEvery)
	defer t.Stop()
	for missed := 0; ; {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		once, cancel := context.WithTimeout(ctx, guardEvery)
		id, err := p.queue.CurrentIncarnation(once)
		cancel()
		switch {
		case errors.Is(err, natsqueue.ErrMissing):
			// A cluster that is just electing its leaders may say so, too.
			if missed++; missed < 2 {
				continue
			}
		case err != nil: // away: the worker says so
			missed = 0
			continue
		case id == p.incarnation:
			missed = 0
			continue
		default:
			err = fmt.Errorf("HISTORY was made anew while this process ran (it was %s and is %s): start the process again", p.incarnation, id)
		}
		p.ready.Set("history", err)
		p.log.Error("the history of the fleet is not the one this process began with", logkey.Error, err)
		p.fail(err)
		return
	}
}
