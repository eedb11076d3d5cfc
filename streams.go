package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/natsqueue"
)

// ErrStreams is returned while a stream or a consumer is not as the fleet
// needs it, so that messages would be lost, withheld or acknowledged too early.
var ErrStreams = errors.New("see `pawl provision --dry-run`")

// checkStreams compares what there is in JetStream with what this process
// needs. What somebody changed by hand is an error if the fleet does not work
// with it, else a warning.
func (p *Process) checkStreams(ctx context.Context) error {
	changes, err := natsqueue.Plan(ctx, p.nc, Topology(p.cfg, p.catalog))
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range changes {
		if c.Vital {
			errs = append(errs, fmt.Errorf("%s has %s %s, want %s: %w", c.Object, c.Field, c.Have, c.Want, ErrStreams))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, c := range changes {
		p.log.Warn("a stream is not as the configuration says", logkey.Object, c.Object, logkey.Field, c.Field, logkey.Have, c.Have, logkey.Want, c.Want)
	}
	return nil
}
