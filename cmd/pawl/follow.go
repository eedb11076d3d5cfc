package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// The exit codes that say what became of a run, beside those of every tool.
const (
	exitFailed    = 3
	exitCancelled = 4
	exitParked    = 5
	exitTime      = 6 // the time of --for is over
)

const exitCodes = `Exit codes:
  0    done; of those that wait for a run: it succeeded
  1    an error: not found, not permitted, nobody answers
  2    the command line is wrong
  3    the run failed
  4    the run was cancelled
  5    the run is parked: a person has to see to it
  6    the time of --for is over
  7    stopped by --canary or --stop-on-failure-ratio
  8    run replay: a run comes out differently; run diff: the runs differ
  9    run update: it is refused
  130  interrupted by a signal`

// follower follows one run.
type follower struct {
	*app
	fleet *cli.Fleet
	id    string

	last *statemachine.Stored // that was seen
	lost bool                 // the server does not answer
}

// records yields the records of the run after the last one that was seen, and
// nil now and then, like api.Answers.Follow. A server that does not answer is
// asked again, for as long as it takes.
func (f *follower) records(ctx context.Context) iter.Seq2[*statemachine.Stored, error] {
	return func(yield func(*statemachine.Stored, error) bool) {
		for again := true; again; {
			again = false
			after := uint64(0)
			if f.last != nil {
				after = f.last.Seq
			}
			for r, err := range f.fleet.Answers.Follow(ctx, f.id, after) {
				if again = f.away(ctx, err); again {
					break
				}
				if r != nil {
					f.last = r
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

// away tells once that the server does not answer, if that is the error, and
// that it does again.
func (f *follower) away(ctx context.Context, err error) bool {
	lost := ctx.Err() == nil && errors.Is(err, worker.ErrUnavailable)
	if lost != f.lost && (lost || err == nil) {
		f.lost = lost
		if lost {
			fmt.Fprintln(f.Stderr, "the server does not answer; trying again")
		} else {
			fmt.Fprintln(f.Stderr, "the server answers again")
		}
	}
	return lost
}

// appear waits until the run is there: what was just published may not be taken
// yet.
func (f *follower) appear(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	for r, err := range f.fleet.Answers.Follow(within, f.id, 0) {
		if within.Err() != nil && ctx.Err() == nil {
			return f.absent()
		}
		if err != nil {
			return err
		}
		if r != nil {
			break
		}
	}
	return nil
}

// absent is the error for a run that is not there.
func (f *follower) absent() error {
	return &cli.Error{
		Err:  fmt.Errorf("run %q: %w, and no worker took its start within %v", f.id, api.ErrNotFound, f.Timeout),
		Hint: "is it the right fleet? -s URL, --prefix; was it refused? dlq-replayer ls",
	}
}

// progress is one record on one line, for whoever watches.
func progress(at time.Duration, r *statemachine.Stored) string {
	v := api.RevisionOf(r)
	return fmt.Sprintf("%8s  %4d  %-30s  %s → %s%s", at.Round(time.Millisecond), v.Revision, cli.Clean(events(v)), from(v), v.To, effects(v))
}

// verdict says what became of a run, without its id.
func verdict(r *statemachine.Stored) string {
	text := being(r.Status) + " in state " + r.To
	if r.Cause != nil {
		text += ": " + causeText(r.Cause)
	}
	return text
}

// being is a status in a sentence.
func being(s statemachine.Status) string {
	switch s {
	case statemachine.StatusSucceeded, statemachine.StatusFailed:
		return string(s)
	case statemachine.StatusCancelled:
		return "was cancelled"
	}
	return "is " + string(s)
}

// exitCode is that of a run's status.
func exitCode(s statemachine.Status) int {
	switch s {
	case statemachine.StatusSucceeded:
		return cli.OK
	case statemachine.StatusFailed:
		return exitFailed
	case statemachine.StatusCancelled:
		return exitCancelled
	case statemachine.StatusParked:
		return exitParked
	}
	return cli.Failure
}

// outcome tells what became of a run, and is an error unless it succeeded.
func (a *app) outcome(id string, r *statemachine.Stored) error {
	text := fmt.Sprintf("run %s %s", id, verdict(r))
	if r.Status == statemachine.StatusSucceeded {
		fmt.Fprintln(a.Stderr, cli.Clean(text))
		return nil
	}
	e := &cli.Error{Err: errors.New(text), Code: exitCode(r.Status)}
	if r.Status == statemachine.StatusParked {
		e.Hint = "dlq-replayer ls --run " + id
	}
	return e
}
