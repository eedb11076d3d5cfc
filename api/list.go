package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
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
	// Approver selects runs that wait for what they may decide and have not
	// answered; Anybody: that wait for any approval.
	Approver string `json:",omitempty"`
	Cursor   string // Listing.Next of the page before, of the same filter
	Limit    int    // at most so many, those that moved last; 0: all, or as many as a page of an Index has
}

// Matches reports whether the record of a run is selected.
func (f *Filter) Matches(r *statemachine.Record) bool {
	if f.Machine != "" && f.Machine != r.Machine || f.State != "" && f.State != r.To || f.Status != "" && f.Status != r.Status {
		return false
	}
	if !f.Since.IsZero() && r.At.Before(f.Since) || !f.Until.IsZero() && !r.At.Before(f.Until) {
		return false
	}
	if f.Approver != "" && !waitsFor(r, f.Approver) {
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
	// Approvals are those that the list looks for; nil if it looks for none.
	Approvals []Approval `json:"approvals,omitempty"`
}

// RowOf is the row of a run by its last record.
func RowOf(r *statemachine.Record) Row {
	return Row{
		ID: r.Run, Machine: r.Machine, Version: r.Version, State: r.To, Status: r.Status, Revision: r.Rev,
		Started: r.Started, Updated: r.At, Error: r.Cause, Index: r.Index,
	}
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
	from, err := f.mark()
	if err != nil {
		return nil, err
	}
	l := &lister{filter: f, from: from}
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
	l.Complete, l.Rebuilt = true, 1
	if l.later > len(l.Runs) {
		last := &l.Runs[len(l.Runs)-1]
		l.Next = f.cursor(mark{At: last.Updated, Run: last.ID})
	}
	return &l.Listing, nil
}

// lister gathers the rows of several sweeps.
type lister struct {
	filter Filter
	from   *mark // where the page before ended; nil: there is none

	mu    sync.Mutex
	later int // rows that are selected and not in a page before
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
	row := l.filter.Row(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Matched++
	if !l.from.before(&row) {
		return
	}
	l.later++
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

// mark is where a page of a list from HISTORY ends. Runs that moved since are
// before it and in no later page.
type mark struct {
	At    time.Time `json:"at"`
	Run   string    `json:"run"`
	Print string    `json:"print"` // of the filter
}

// before reports whether a row belongs to a page after the mark.
func (m *mark) before(r *Row) bool {
	return m == nil || cmp.Or(m.At.Compare(r.Updated), cmp.Compare(r.ID, m.Run)) > 0
}

// historyCursor begins the cursors of lists from HISTORY: those of an Index
// begin otherwise.
const historyCursor = "history."

// cursor is a mark as it is given out.
func (f *Filter) cursor(m mark) string {
	m.Print = f.print()
	b, _ := json.Marshal(m) // texts
	return historyCursor + base64.RawURLEncoding.EncodeToString(b)
}

// mark reads the cursor; nil if there is none.
func (f *Filter) mark() (*mark, error) {
	if f.Cursor == "" {
		return nil, nil
	}
	text, ok := strings.CutPrefix(f.Cursor, historyCursor)
	if !ok {
		return nil, ErrCursor
	}
	m := new(mark)
	if b, err := base64.RawURLEncoding.DecodeString(text); err != nil || json.Unmarshal(b, m) != nil || m.Print != f.print() {
		return nil, ErrCursor
	}
	return m, nil
}

// print tells filters apart, but for where their pages begin and how long they
// are.
func (f Filter) print() string {
	f.Cursor, f.Limit = "", 0
	b, _ := json.Marshal(f) // texts and times
	return statemachine.Fingerprint("runs", b)
}
