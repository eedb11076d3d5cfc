package cli

import (
	"context"
	"errors"
	"os/user"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// Redriving is the fleet as re-driving letters needs it.
type Redriving struct{ *natsqueue.Queue }

var _ deadletter.Fleet = Redriving{}

// Last implements deadletter.Fleet.
func (r Redriving) Last(ctx context.Context, runs []string) ([]*statemachine.Stored, error) {
	return r.Log.Last(ctx, runs)
}

// Blob implements deadletter.Fleet.
func (r Redriving) Blob(ctx context.Context, run, hash string) ([]byte, error) {
	b, err := r.Blobs.Get(ctx, run, hash)
	return b, ofOne(ctx, err)
}

// Registered implements deadletter.Fleet.
func (r Redriving) Registered(ctx context.Context, machine string, version int) (bool, error) {
	return r.Machines.Known(ctx, machine, version)
}

// Command implements deadletter.Fleet.
func (r Redriving) Command(ctx context.Context, run, id string, c statemachine.Command) error {
	return ofOne(ctx, r.Sender.Command(ctx, api.Command{Run: run, Kind: statemachine.EventRedrive, ID: id, Command: c}))
}

// Redrive implements deadletter.Fleet.
func (r Redriving) Redrive(ctx context.Context, l deadletter.Letter) error {
	return ofOne(ctx, r.Sender.Redrive(ctx, l))
}

// Remove implements deadletter.Fleet.
func (r Redriving) Remove(ctx context.Context, l deadletter.Letter) error {
	return r.Letters.Drop(ctx, l)
}

// Next implements deadletter.Fleet.
func (r Redriving) Next(ctx context.Context, l deadletter.Letter) (string, error) {
	return r.Letters.Next(ctx, l)
}

// Known implements deadletter.Fleet.
func (r Redriving) Known(ctx context.Context, id string) (bool, error) {
	return r.Letters.Known(ctx, id)
}

// ofOne marks an error that is about what was sent, and not about the fleet:
// others may be taken.
func ofOne(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, worker.ErrUnavailable) || errors.Is(err, natsqueue.ErrMissing) {
		return err
	}
	return &bulk.RefusedError{Reason: Clip(Clean(err.Error()), 200)}
}

// User is who uses this machine.
func (t *Tool) User() string {
	for _, name := range []string{"USER", "LOGNAME", "USERNAME"} {
		if v := t.Getenv(name); v != "" {
			return v
		}
	}
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
