package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
)

// Told is what became of a signal or a command: its outcome, and the run as it
// was then.
type Told = api.Told

// Signal tells a run something from outside, such as an approval. The same id
// of a signal is applied once, so take one that the caller would find again;
// "" has one made for this call. The body is encoded as an input is; nil is
// {}. ErrNotFound is returned if there is no such run, ErrConflict if it has
// ended.
func (c *Client) Signal(ctx context.Context, run, name, id string, body any) (Told, error) {
	op := fmt.Sprintf("signal %s to run %s", name, run)
	b, err := encode(body)
	if err != nil {
		return Told{}, invalid(op, fmt.Errorf("body: %w", err))
	}
	if id == "" {
		id = queue.NewID()
	}
	var t Told
	r := api.SignalRequest{ID: run, Name: name, SignalID: id, Body: b, Timeout: c.patience()}
	return t, c.call(ctx, op, api.RunsSignal, r, &t)
}

// Update tells a run something that its machine answers, and decodes the answer
// into answer, which may be nil. ErrRefused is returned if the machine refuses
// it, and then nothing has changed; errors.As finds the [Error], whose Class the
// machine chose. The same id of an update is answered once, and always with the
// same answer; "" has one made for this call. While no worker has come to it, the outcome is
// Accepted, and there is no answer: the same update, made again, waits for it.
// ErrNotFound is returned if there is no such run, ErrConflict if it has ended or
// is on its way to its end.
func (c *Client) Update(ctx context.Context, run, name, id string, body, answer any) (Told, error) {
	op := fmt.Sprintf("update %s of run %s", name, run)
	b, err := encode(body)
	if err != nil {
		return Told{}, invalid(op, fmt.Errorf("body: %w", err))
	}
	if id == "" {
		id = queue.NewID()
	}
	var t Told
	r := api.UpdateRequest{ID: run, Name: name, UpdateID: id, Body: b, Timeout: c.patience()}
	if err := c.call(ctx, op, api.RunsUpdate, r, &t); err != nil || answer == nil || t.Value == nil {
		return t, err
	}
	if err := json.Unmarshal(t.Value, answer); err != nil {
		return t, fmt.Errorf("%s: the answer: %w", op, err)
	}
	return t, nil
}

// CommandOptions are what a command may say besides the run.
type CommandOptions struct {
	RequestID string // the same is applied once; default: one is made
	By        string // who asks, recorded as "unverified:<By>"; with WithUser the user is, plain
	Reason    string // why, at most 2 KB
	Effect    string // Retry, Confirm: id of the effect; default: all. Resolve: id of the effect
	To        string // Resume of a parked run: an exit of its state, which it takes; what was given up is left for good. Needs a Reason
	NoUndo    bool   // Cancel: at once, and what the run did stays done
}

// Cancel ends a run. One with something to undo ends once what is under way has
// an outcome, and what it did is undone; of others, effects that are under way
// are not called back.
// ErrConflict is returned if the run has ended already.
func (c *Client) Cancel(ctx context.Context, run string, o CommandOptions) (Told, error) {
	return c.command(ctx, api.RunsCancel, "cancel", run, o)
}

// Terminate ends a run at once: what it did stays done, and its children are
// terminated, too. ErrConflict is returned if the run has ended already.
func (c *Client) Terminate(ctx context.Context, run string, o CommandOptions) (Told, error) {
	return c.command(ctx, api.RunsTerminate, "terminate", run, o)
}

// Pause has a run perform nothing new until it is resumed.
func (c *Client) Pause(ctx context.Context, run string, o CommandOptions) (Told, error) {
	return c.command(ctx, api.RunsPause, "pause", run, o)
}

// Resume lets a paused run go on, or, with CommandOptions.To, has a parked one
// leave what it gave up for good and take that exit of its state.
func (c *Client) Resume(ctx context.Context, run string, o CommandOptions) (Told, error) {
	return c.command(ctx, api.RunsResume, "resume", run, o)
}

// Retry has the effects of a parked run that were given up tried anew.
func (c *Client) Retry(ctx context.Context, run string, o CommandOptions) (Told, error) {
	return c.command(ctx, api.RunsRetry, "retry", run, o)
}

// Resolve says what an effect came to that the run gave up: one in doubt, say,
// or one that somebody has done by hand. CommandOptions.Effect has its id. The
// run goes on as if the effect's handler had returned the result, which is
// encoded as an input is; nil is null.
func (c *Client) Resolve(ctx context.Context, run string, result any, o CommandOptions) (Told, error) {
	op := "resolve run " + run
	if o.Effect == "" {
		return Told{}, invalid(op, errors.New("the options name no Effect, the id of the effect"))
	}
	b := []byte("null")
	if result != nil {
		var err error
		if b, err = encode(result); err != nil {
			return Told{}, invalid(op, fmt.Errorf("result: %w", err))
		}
	}
	return c.send(ctx, api.RunsResolve, op, run, o, b)
}

func (c *Client) command(ctx context.Context, v api.Verb, what, run string, o CommandOptions) (Told, error) {
	op := what + " run " + run
	if o.Effect != "" && v != api.RunsRetry && v != api.RunsConfirm && o.To == "" {
		return Told{}, invalid(op, errors.New("an effect is for Retry, Resolve, Confirm, and a Resume that names a state"))
	}
	if o.NoUndo && v != api.RunsCancel {
		return Told{}, invalid(op, errors.New("NoUndo is for Cancel"))
	}
	return c.send(ctx, v, op, run, o, nil)
}

func (c *Client) send(ctx context.Context, v api.Verb, op, run string, o CommandOptions, result []byte) (Told, error) {
	if err := queue.CheckRun(run); err != nil {
		return Told{}, invalid(op, err)
	}
	if o.RequestID == "" {
		o.RequestID = queue.NewID()
	}
	var t Told
	r := api.CommandRequest{ID: run, RequestID: o.RequestID, By: o.By, Reason: o.Reason, Effect: o.Effect, To: o.To, Result: result, NoUndo: o.NoUndo, Timeout: c.patience()}
	return t, c.call(ctx, op, v, r, &t)
}
