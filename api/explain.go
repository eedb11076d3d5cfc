package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/statemachine"
)

// Explanation says why a run does not move.
type Explanation = explain.Explanation

// ExplainQuery asks why a run does not move.
type ExplainQuery struct {
	ID string `json:"id"`
}

// Observer sees a part of what explains a run, and fills in that part of the
// facts alone: all of them look at the same time. What it returns an error for
// could not be seen, and the answer says so.
type Observer struct {
	What string // is looked at
	See  func(ctx context.Context, f *explain.Facts) error
}

// observing is how long each observer may take, and letters of starts are
// looked through.
const observing = 2 * time.Second

// Explain says why a run does not move. ErrNotFound is returned if there is no
// run, and nothing that will make it.
func (a *Answers) Explain(ctx context.Context, id string) (*Explanation, error) {
	f := &explain.Facts{Now: time.Now(), Run: id}
	last, err := a.last(ctx, id)
	switch {
	case errors.Is(err, statemachine.ErrFormat):
		f.Strange = err.Error()
	case err != nil:
		return nil, err
	case last != nil:
		f.Record = last.Record
		f.Exits, _ = a.exits(last.Record)
		f.Branches = a.branches(last.Record)
	}
	if err := a.children(ctx, f); err != nil {
		f.Unseen = append(f.Unseen, explain.Unseen{What: "children", Why: err.Error()})
	}
	var missed sync.Map // what could not be seen, by its number
	var looking sync.WaitGroup
	for i, o := range a.Observers {
		looking.Go(func() {
			within, cancel := context.WithTimeout(ctx, observing)
			defer cancel()
			if err := o.See(within, f); err != nil {
				missed.Store(i, explain.Unseen{What: o.What, Why: err.Error()})
			}
		})
	}
	looking.Wait()
	for i := range a.Observers {
		if u, ok := missed.Load(i); ok {
			f.Unseen = append(f.Unseen, u.(explain.Unseen))
		}
	}
	if f.Record == nil && f.Strange == "" {
		if err := a.letterOfStart(ctx, f); err != nil {
			f.Unseen = append(f.Unseen, explain.Unseen{What: "letters", Why: err.Error()})
		}
	}
	x := explain.Of(f)
	if x.Cause == explain.NotFound && len(f.Unseen) == 0 {
		return nil, fmt.Errorf("run %q: %w, and neither a start nor a letter of it", id, ErrNotFound)
	}
	return x, nil
}

// children looks at the runs that the run waits for.
func (a *Answers) children(ctx context.Context, f *explain.Facts) error {
	ctx, cancel := context.WithTimeout(ctx, observing)
	defer cancel()
	f.Children = map[string]*statemachine.Record{}
	if f.Record == nil {
		return nil
	}
	for i := range f.Record.Pending {
		p := &f.Record.Pending[i]
		if p.Place != statemachine.ChildRun || len(f.Children) == explain.MaxReasons {
			continue
		}
		last, err := a.Log.Look(ctx, p.Child.Run)
		switch {
		case err != nil:
			return err
		case last == nil || last.Parent == nil || last.Parent.Effect != p.ID: // none, or another's: that is on its way here
			f.Children[p.ID] = nil
		default:
			f.Children[p.ID] = last.Record
		}
	}
	return nil
}

// letterOfStart looks for the letter of a run's start, the last if there are
// several.
func (a *Answers) letterOfStart(ctx context.Context, f *explain.Facts) error {
	ctx, cancel := context.WithTimeout(ctx, observing)
	defer cancel()
	for l, err := range a.Mail(ctx, deadletter.Filter{Kind: deadletter.KindStart, Run: f.Run}, 0) {
		if ctx.Err() != nil {
			return fmt.Errorf("not all were looked through: %w", ctx.Err())
		}
		if err != nil && l.Seq == 0 {
			return err
		}
		if err == nil {
			f.Letters = map[string]explain.Letter{"": {Seq: l.Seq, Class: l.Class, Cause: l.Cause, At: l.Last}}
		}
	}
	return nil
}

func (s *Server) explain(ctx context.Context, q *ExplainQuery) (*Explanation, error) {
	var f faults
	f.run(q.ID)
	if err := f.err(); err != nil {
		return nil, err
	}
	return s.answers.Explain(ctx, q.ID)
}
