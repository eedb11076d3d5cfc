package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Filter selects runs; what is zero is not looked at.
type Filter struct {
	Machine string
	State   string
	Status  statemachine.Status
	Where   map[string]string // index fields and their values
	Since   time.Time         // moved at or after it
	Until   time.Time         // moved before it
	Cursor  string            // Listing.Next of the page before; only an Index knows it
	Limit   int               // at most so many, those that moved last; 0: all, or as many as a page of an Index has
}

// Matches reports whether the record of a run is selected.
func (f *Filter) Matches(r *statemachine.Record) bool {
	if f.Machine != "" && f.Machine != r.Machine || f.State != "" && f.State != r.To || f.Status != "" && f.Status != r.Status {
		return false
	}
	for field, value := range f.Where {
		if r.Index[field] != value {
			return false
		}
	}
	return true
}

// Listing is the answer to a Filter.
type Listing struct {
	Runs       []Row   `json:"runs"`                 // those that moved last come first
	Matched    int     `json:"matched,omitempty"`    // how many there are, Limit or not; from an Index, 0
	Unreadable int     `json:"unreadable,omitempty"` // runs whose last record this build cannot read
	Next       string  `json:"next,omitempty"`       // for Filter.Cursor; empty after the last page
	Complete   bool    `json:"complete"`             // false: an Index has lost runs and not all are found again
	Rebuilt    float64 `json:"rebuilt"`              // share of the runs that are found again, 0 to 1
}

// Row is a run in a list.
type Row struct {
	ID       string              `json:"id"`
	Machine  string              `json:"machine"`
	Version  int                 `json:"version"`
	State    string              `json:"state"`
	Status   statemachine.Status `json:"status"`
	Revision uint64              `json:"revision"`
	Started  time.Time           `json:"started"`
	Updated  time.Time           `json:"updated"`
	Error    *statemachine.Cause `json:"error,omitempty"`
	Index    map[string]string   `json:"index,omitempty"`
}

// sweeps is how many partitions are read at once: each costs the server a
// consumer while it is read.
const sweeps = 8

// Runs lists runs by their last records. It reads all of them, so its cost is
// that of the fleet's size; it keeps no more rows than it answers.
func (a *Answers) Runs(ctx context.Context, f Filter) (*Listing, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	partitions := make(chan int)
	l := &lister{filter: f}
	var wg sync.WaitGroup
	for range sweeps {
		wg.Go(func() {
			for p := range partitions {
				if err := l.sweep(ctx, a.Log, p); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for p := range queue.Partitions {
		select {
		case partitions <- p:
		case <-ctx.Done():
			break feed
		}
	}
	close(partitions)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	l.trim()
	if l.Runs == nil {
		l.Runs = []Row{}
	}
	return &l.Listing, nil
}

// lister gathers the rows of several sweeps.
type lister struct {
	filter Filter

	mu sync.Mutex
	Listing
}

func (l *lister) sweep(ctx context.Context, log Log, partition int) error {
	for r, err := range log.Sweep(ctx, partition) {
		switch {
		case errors.Is(err, statemachine.ErrFormat):
			l.mu.Lock()
			l.Unreadable++
			l.mu.Unlock()
		case err != nil:
			return err
		case l.filter.Matches(r.Record):
			l.add(r.Record)
		}
	}
	return nil
}

func (l *lister) add(r *statemachine.Record) {
	row := Row{
		ID: r.Run, Machine: r.Machine, Version: r.Version, State: r.To, Status: r.Status, Revision: r.Rev,
		Started: r.Started, Updated: r.At, Error: r.Cause, Index: r.Index,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Matched++
	l.Runs = append(l.Runs, row)
	// Sorting at twice the limit keeps the memory bounded, and the work per row
	// constant but for a logarithm.
	if l.filter.Limit > 0 && len(l.Runs) >= 2*l.filter.Limit {
		l.trim()
	}
}

// trim sorts the rows and drops those beyond the limit.
func (l *lister) trim() {
	slices.SortFunc(l.Runs, func(a, b Row) int {
		return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(a.ID, b.ID))
	})
	if l.filter.Limit > 0 && len(l.Runs) > l.filter.Limit {
		clear(l.Runs[l.filter.Limit:])
		l.Runs = l.Runs[:l.filter.Limit]
	}
}
