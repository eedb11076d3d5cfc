package api

import (
	"context"
	"errors"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// usualWait is how long the outcome of a change is waited for.
const usualWait = 3 * time.Second

// wait answers once a run has ended, or has a later revision than the caller
// knows, or the time is over. A run that does not exist yet is waited for.
func (s *Server) wait(ctx context.Context, _ Caller, q *WaitQuery) (*Waited, error) {
	var f faults
	f.run(q.ID)
	timeout := f.timeout(q.Timeout, MaxWait)
	if err := f.err(); err != nil {
		return nil, err
	}
	r, err := s.until(ctx, timeout, q.ID, q.Revision > 0, func(r *statemachine.Stored) (bool, error) {
		return r != nil && (r.Status.Ended() || q.Revision > 0 && r.Rev > q.Revision), nil
	})
	if over(err) { // what there is now may be newer than what was waited for
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Timeout)
		defer cancel()
		r, err = s.answers.Log.Look(ctx, q.ID)
	}
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, notFound(q.ID)
	}
	run := runOf(r.Record)
	if _, err := fit(run); err != nil {
		return nil, err
	}
	return &Waited{Run: run, Ended: r.Status.Ended()}, nil
}

// until is watchers.until for a time, or until the server is in a hurry.
func (s *Server) until(ctx context.Context, timeout time.Duration, id string, eager bool, done func(*statemachine.Stored) (bool, error)) (*statemachine.Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(s.hurry, cancel)()
	return s.watch.until(ctx, id, eager, done)
}

// over reports whether a wait ended because its time did.
func over(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
