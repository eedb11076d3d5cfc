package natsqueue

import (
	"context"
	"errors"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// Mailroom is the fleet as changing letters needs it.
type Mailroom struct{ queue *Queue }

var _ api.Mailroom = Mailroom{}

// Mailroom is where letters are changed.
func (q *Queue) Mailroom() Mailroom { return Mailroom{q} }

// Last implements deadletter.Fleet.
func (m Mailroom) Last(ctx context.Context, runs []string) ([]*statemachine.Stored, error) {
	return m.queue.Log.Last(ctx, runs)
}

// Blob implements deadletter.Fleet.
func (m Mailroom) Blob(ctx context.Context, run, hash string) ([]byte, error) {
	b, err := m.queue.Blobs.Get(ctx, run, hash)
	return b, ofOne(ctx, err)
}

// Registered implements deadletter.Fleet.
func (m Mailroom) Registered(ctx context.Context, machine string, version int) (bool, error) {
	return m.queue.Machines.Known(ctx, machine, version)
}

// Command implements deadletter.Fleet.
func (m Mailroom) Command(ctx context.Context, run, id string, c statemachine.Command) error {
	return ofOne(ctx, m.queue.Sender.Command(ctx, api.Command{Run: run, Kind: statemachine.EventRedrive, ID: id, Command: c}))
}

// Redrive implements deadletter.Fleet.
func (m Mailroom) Redrive(ctx context.Context, l deadletter.Letter) error {
	return ofOne(ctx, m.queue.Sender.Redrive(ctx, l))
}

// Remove implements deadletter.Fleet.
func (m Mailroom) Remove(ctx context.Context, l deadletter.Letter) error {
	return m.queue.Letters.Drop(ctx, l)
}

// Next implements deadletter.Fleet.
func (m Mailroom) Next(ctx context.Context, l deadletter.Letter) (string, error) {
	return m.queue.Letters.Next(ctx, l)
}

// Known implements deadletter.Fleet.
func (m Mailroom) Known(ctx context.Context, id string) (bool, error) {
	return m.queue.Letters.Known(ctx, id)
}

// Newest implements api.Mailroom.
func (m Mailroom) Newest(ctx context.Context) (uint64, error) { return m.queue.Letters.Last(ctx) }

// Note implements api.Mailroom.
func (m Mailroom) Note(ctx context.Context, e bulk.Entry) error { return m.queue.Audit.Write(ctx, e) }

// ofOne marks an error that is about what was sent, and not about the fleet:
// others may be taken.
func ofOne(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, worker.ErrUnavailable) || errors.Is(err, ErrMissing) {
		return err
	}
	return &bulk.RefusedError{Reason: cut(err.Error())}
}
