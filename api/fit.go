package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// slack is what an answer has around that which is measured.
const slack = 4 << 10

// logTime is how long the logs of a run may take: they may lie far back. After
// it the run is answered without them.
const logTime = 3 * time.Second

// runWithin is Run for an answer of bounded size. What does not fit is left
// out, and the run is marked as truncated: first the beginnings of logs, then
// the inputs of effects and Undos and the bodies of signals, then the data.
func (a *Answers) runWithin(ctx context.Context, id string, items int) (*Run, error) {
	r, err := a.last(ctx, id)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, notFound(id)
	}
	run := runOf(r.Record)
	n, err := fit(run)
	if err != nil || items == 0 || r.Tomb != nil || len(r.Logs) == 0 {
		return run, err
	}
	soon, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	logs, cut, err := a.logs(soon, r, items, MaxAnswer-slack-n-names(r))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		logs, cut, err = nil, true, nil
	}
	run.Logs, run.Truncated = logs, run.Truncated || cut
	return run, err
}

// names is how many bytes the names of logs take.
func names(r *statemachine.Stored) int {
	n := 0
	for name := range r.Logs {
		n += 2*len(name) + len(`"":[],`)
	}
	return n
}

// fit leaves out of a run without logs what does not fit, and returns its size.
func fit(run *Run) (int, error) {
	for _, leaveOut := range []func(){
		func() {},
		func() {
			run.Truncated = true
			for i := range run.Pending {
				run.Pending[i].Input = nil
			}
			for i := range run.Undos {
				run.Undos[i].Input = nil
			}
			for i := range run.Inbox {
				run.Inbox[i].Body = nil
			}
		},
		func() { run.Data = nil },
	} {
		leaveOut()
		b, err := encode(run)
		if err != nil {
			return 0, err
		}
		if len(b) <= MaxAnswer-slack {
			return len(b), nil
		}
	}
	return 0, errorf(ClassTooLarge, "run %s has too much pending for an answer", quoted(run.ID))
}

// page gathers what fits into one answer.
type page[T any] struct {
	rows []T
	size int
}

// add adds a row unless the page would become too large; then it reports
// false, and the page ends before the row.
func (p *page[T]) add(row T) (bool, error) {
	b, err := encode(row)
	if err != nil {
		return false, err
	}
	if p.size+len(b)+len(",") > MaxAnswer-slack {
		return false, nil
	}
	p.size += len(b) + len(",")
	p.rows = append(p.rows, row)
	return true, nil
}

func notFound(id string) error { return fmt.Errorf("run %s: %w", quoted(id), ErrNotFound) }
