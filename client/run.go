package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/statemachine"
)

// What the fleet answers. The types are those of package api.
type (
	// Run is a run as it is now.
	Run = api.Run
	// Revision is one record of a run: what happened, and what came of it.
	Revision = api.Revision
	// Query selects runs of a list.
	Query = api.RunsQuery
	// Listing is a page of a list.
	Listing = api.Listing
	// Explanation says why a run does not move.
	Explanation = api.Explanation
	// Status is where a run is in its life.
	Status = statemachine.Status
	// Cause is why a run failed or is parked.
	Cause = statemachine.Cause
)

// The statuses of a run. The last three are for ever.
const (
	StatusRunning   = statemachine.StatusRunning
	StatusParked    = statemachine.StatusParked
	StatusPaused    = statemachine.StatusPaused
	StatusSucceeded = statemachine.StatusSucceeded
	StatusFailed    = statemachine.StatusFailed
	StatusCancelled = statemachine.StatusCancelled
)

// AllItems asks Get for all items of a run's logs.
const AllItems = api.AllItems

// Get returns a run with the last items of its logs; AllItems is all.
// ErrNotFound is returned if there is none.
func (c *Client) Get(ctx context.Context, id string, items int) (*Run, error) {
	var r Run
	if err := c.call(ctx, "get run "+id, api.RunsGet, api.RunQuery{ID: id, Items: items}, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// History yields the revisions of a run, oldest first. ErrNotFound is yielded
// if there is none.
func (c *Client) History(ctx context.Context, id string) iter.Seq2[*Revision, error] {
	return func(yield func(*Revision, error) bool) {
		for after := uint64(0); ; {
			var p api.HistoryPage
			if err := c.call(ctx, "history of run "+id, api.RunsHistory, api.HistoryQuery{ID: id, After: after}, &p); err != nil {
				yield(nil, err)
				return
			}
			for _, r := range p.Revisions {
				if !yield(r, nil) {
					return
				}
			}
			if p.Next == 0 {
				return
			}
			after = p.Next
		}
	}
}

// List yields the runs that a query selects, those that moved last first, page
// by page. A page whose Complete is false is of an index that has lost runs
// and has not found all of them again: Rebuilt is the share that it has. A
// page has up to Query.Limit runs.
func (c *Client) List(ctx context.Context, q Query) iter.Seq2[*Listing, error] {
	return func(yield func(*Listing, error) bool) {
		for {
			var l Listing
			if err := c.call(ctx, "list runs", api.RunsList, q, &l); err != nil {
				yield(nil, err)
				return
			}
			if !yield(&l, nil) || l.Next == "" {
				return
			}
			q.Cursor = l.Next
		}
	}
}

// Wait returns a run once it has ended, however that takes: workers and
// connections may come and go meanwhile. A run that does not exist may be on
// its way, and is waited for as long as a call may take; then ErrNotFound is
// returned. A parked or paused run has not ended.
func (c *Client) Wait(ctx context.Context, id string) (*Run, error) {
	return c.await(ctx, id, c.poll, func(r *Run) bool { return r.Status.Ended() })
}

// await asks for a run until it is as wanted. A question is answered when the
// run has ended, and otherwise after poll.
func (c *Client) await(ctx context.Context, id string, poll time.Duration, wanted func(*Run) bool) (*Run, error) {
	status := c.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED)
	defer c.nc.RemoveStatusListener(status)
	var absent time.Time // since when there is no such run
	seen := false
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		asked := time.Now()
		var w api.Waited
		once := poll
		if !seen { // the fleet waits for a run that is not there, too
			once = min(poll, c.timeout)
		}
		patience := statemachine.Duration(once)
		q := api.WaitQuery{ID: id, Timeout: &patience}
		err := c.ask(ctx, "wait for run "+id, api.RunsWait, q, &w, once+pollSlack, status)
		switch {
		case err == nil && w.Run != nil:
			if wanted(w.Run) {
				return w.Run, nil
			}
			absent, seen = time.Time{}, true
			if time.Since(asked) > once/2 {
				pause = firstPause // it was a long poll, and not an early answer
			}
		case err == nil:
			return nil, &Error{Op: "wait for run " + id, Message: "the answer has no run", kind: ErrInternal}
		case !errors.Is(err, ErrNotFound):
			return nil, err
		default:
			if absent.IsZero() {
				absent = asked
			}
			if time.Since(absent) >= c.timeout {
				return nil, err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, &Error{Op: "wait for run " + id, Message: fmt.Sprintf("it has not ended: %v", ctx.Err()), kind: ErrUnavailable, below: ctx.Err()}
		}
	}
}

// Result waits for a run and decodes its data, as it was at the end. If the run
// does not succeed the error is a *RunError with the run and the cause: it
// failed, it was cancelled, or it is parked and waits for a person; after that
// Result may be called again.
func Result[T any](ctx context.Context, c *Client, id string) (T, error) {
	var v T
	// Nobody tells of a run that is parked: it is asked for more often.
	r, err := c.await(ctx, id, c.poll/4, func(r *Run) bool { return r.Status.Ended() || r.Status == StatusParked })
	if err != nil {
		return v, err
	}
	if r.Status != StatusSucceeded {
		return v, &RunError{Run: r}
	}
	if r.Truncated && len(r.Data) == 0 {
		return v, &Error{Op: "result of run " + id, Message: "its data is too large for an answer", kind: ErrTooLarge}
	}
	if err := json.Unmarshal(r.Data, &v); err != nil {
		return v, fmt.Errorf("result of run %s: %w", id, err)
	}
	return v, nil
}

// Explain says why a run does not move: what it waits for, who holds it, and
// what would help. ErrNotFound is returned if there is no run, and nothing that
// will make it.
func (c *Client) Explain(ctx context.Context, id string) (*Explanation, error) {
	var x Explanation
	if err := c.call(ctx, "explain run "+id, api.RunsExplain, api.ExplainQuery{ID: id}, &x); err != nil {
		return nil, err
	}
	return &x, nil
}

// Query asks a run something by a query of its machine, and decodes the answer,
// which is made of the run's record of the revision that is returned. It changes
// nothing. ErrNotFound is returned for a run or a query that does not exist.
func (c *Client) Query(ctx context.Context, id, query string, answer any) (revision uint64, err error) {
	var a api.Answer
	op := "query " + query + " of run " + id
	if err := c.call(ctx, op, api.RunsAsk, api.Question{ID: id, Query: query}, &a); err != nil {
		return 0, err
	}
	if err := json.Unmarshal(a.Value, answer); err != nil {
		return 0, fmt.Errorf("%s: the answer: %w", op, err)
	}
	return a.Revision, nil
}

// Replayed tells what came of folding the records of a run again.
type Replayed = api.Replayed

// Replay has the records of a run folded again, without effects, by a worker
// that has its machine: Change is the first field that comes out differently,
// because code has changed, or since a callback uses more than the data. Nothing
// is changed by it.
func (c *Client) Replay(ctx context.Context, id string) (*Replayed, error) {
	whole := new(Replayed)
	for q := (api.ReplayQuery{ID: id}); ; {
		var page Replayed
		if err := c.call(ctx, "replay run "+id, api.RunsReplay, q, &page); err != nil {
			return nil, err
		}
		if whole.From > 0 {
			page.From = whole.From
		}
		*whole = page
		if page.Change != nil || page.Next == 0 {
			return whole, nil
		}
		q.After = page.Next
	}
}

// Diff tells how two runs differ.
type Diff = api.Diff

// Diff compares two runs of a machine, visit by visit of their states: their
// data, the way they went, what they asked for and what came of it; a fork and its
// original from where it was forked. It has the first thousand differences, or as many as an
// answer holds. ErrNotFound is returned for a run that does not exist, ErrInvalid for runs
// of different machines.
func (c *Client) Diff(ctx context.Context, a, b string) (*Diff, error) {
	d := new(Diff)
	if err := c.call(ctx, "diff runs "+a+" and "+b, api.RunsDiff, api.DiffQuery{A: a, B: b, Limit: api.MaxPage}, d); err != nil {
		return nil, err
	}
	return d, nil
}
