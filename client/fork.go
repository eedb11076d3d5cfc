package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
)

// ForkOptions are what a fork may say besides the run and its revision.
type ForkOptions struct {
	// ID is that of the new run; as with a start, take one that the caller would
	// find again. Default: one is made for this call.
	ID string
	// Set is merged into the data: anything that encoding/json encodes as an
	// object. Nil: the data is as it was.
	Set     any
	Version int    // of the machine; 0: that of the run
	Perform bool   // what the run did not ask is performed, and does not wait for Confirm
	By      string // as in CommandOptions
	Reason  string
}

// Forked is what became of a fork. Its ID is that of the new run.
type Forked = api.Forked

// Fork begins a new run where another was at a revision. What it asks of the
// world as the other did has the other's results, and is not performed again; what
// is asked differently waits for Confirm. The same fork may be asked for again and is the same run.
// ErrNotFound is returned if there is no such run, ErrInvalid if nothing can
// begin at the revision, ErrConflict if the id stands for another run, or if
// what it asked at the revision is under way, ErrRefused if the machine does not
// take the data.
func (c *Client) Fork(ctx context.Context, run string, revision uint64, o ForkOptions) (Forked, error) {
	op := fmt.Sprintf("fork run %s at revision %d", run, revision)
	if revision == 0 {
		return Forked{}, invalid(op, errors.New("revisions count from 1"))
	}
	var set json.RawMessage
	if o.Set != nil {
		var err error
		if set, err = encode(o.Set); err != nil {
			return Forked{}, invalid(op, fmt.Errorf("set: %w", err))
		}
	}
	if o.ID == "" {
		o.ID = "fork-" + queue.NewID()
	}
	if err := errors.Join(queue.CheckRun(run), queue.CheckRun(o.ID)); err != nil {
		return Forked{}, invalid(op, err)
	}
	var f Forked
	r := api.ForkRequest{
		ID: run, Revision: revision, Fork: o.ID, Set: set, Version: o.Version, Perform: o.Perform, By: o.By, Reason: o.Reason, Timeout: c.patience(),
	}
	return f, c.call(ctx, op, api.RunsFork, r, &f)
}

// Confirm lets a fork perform what its original did not ask: CommandOptions.Effect,
// or all that waits for it.
func (c *Client) Confirm(ctx context.Context, run string, o CommandOptions) (Told, error) {
	return c.command(ctx, api.RunsConfirm, "confirm", run, o)
}
