package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/client"
	"github.com/pawlrun/pawl/schedule"
	"github.com/pawlrun/pawl/statemachine"
)

// Schedules adds recurring starts to a catalogue: the machine of package
// schedule, and the handler that starts runs in the fleet of the Process.
func Schedules(c *statemachine.Catalog) *statemachine.Catalog {
	c.Add(schedule.Machine())
	statemachine.Handle(c, schedule.Start, startScheduled, statemachine.Policy{Timeout: 20 * time.Second})
	return c
}

// fleetKey is where handlers find the fleet that they work in.
type fleetKey struct{}

// inFleet tells handlers of the fleet.
func inFleet(ctx context.Context, nc *nats.Conn, prefix string) context.Context {
	return context.WithValue(ctx, fleetKey{}, func() (*client.Client, error) { return client.New(nc, client.WithPrefix(prefix)) })
}

// startScheduled starts the run that a schedule asks for. Its id is that of the
// time, so that a repeat finds it there.
func startScheduled(ctx context.Context, _ string, f schedule.Firing) (schedule.Fired, error) {
	if f.Run == "" {
		return schedule.Fired{Outcome: schedule.None}, nil
	}
	if !f.Expires.IsZero() && time.Now().After(f.Expires) {
		return schedule.Fired{Outcome: schedule.Expired}, nil
	}
	open, ok := ctx.Value(fleetKey{}).(func() (*client.Client, error))
	if !ok {
		return schedule.Fired{}, errors.New("this handler works in a pawl.Process")
	}
	c, err := open()
	if err != nil {
		return schedule.Fired{}, err
	}
	if f.After != "" {
		switch r, err := c.Get(ctx, f.After, 0); {
		case errors.Is(err, client.ErrNotFound):
		case err != nil:
			return schedule.Fired{}, away(err)
		case !r.Status.Ended():
			return schedule.Fired{Outcome: schedule.Busy}, nil
		}
	}
	o := client.StartOptions{ID: f.Run, Version: f.Version, Priority: f.Priority, Tenant: f.Tenant}
	var input any
	if len(f.Input) > 0 {
		input = f.Input
	}
	_, err = c.Start(ctx, f.Machine, input, o)
	for _, refusal := range []error{client.ErrConflict, client.ErrRefused, client.ErrTooLarge, client.ErrInvalid, client.ErrDenied} {
		if errors.Is(err, refusal) {
			return schedule.Fired{Outcome: schedule.Refused, Error: err.Error()}, nil
		}
	}
	return schedule.Fired{Outcome: schedule.Started}, away(err)
}

// away says of an error that nobody was there to take the start: that is no
// failure of the schedule, and spends no attempt.
func away(err error) error {
	if errors.Is(err, client.ErrUnavailable) {
		return statemachine.Untried("unavailable", err)
	}
	return err
}
