package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/statemachine"
)

// Definitions are the machines that somebody has.
type Definitions interface {
	// Definition returns a machine; version 0 is the highest.
	Definition(machine string, version int) (*statemachine.Definition, bool)
}

// ReplayQuery asks for the records of a run to be folded again, oldest first.
type ReplayQuery struct {
	ID    string `json:"id"`
	After uint64 `json:"after,omitempty"` // Replayed.Next of the page before
	Limit int    `json:"limit,omitempty"` // records, at most MaxPage; default 1,000
}

// Replayed tells what came of folding records again.
type Replayed struct {
	ID      string              `json:"id"`
	Machine string              `json:"machine"`
	Version int                 `json:"version"`
	Status  statemachine.Status `json:"status"`           // of the run
	From    uint64              `json:"from,omitempty"`   // revision of the first record that was folded again; 0: none was
	To      uint64              `json:"to,omitempty"`     // … and of the last
	Change  *Change             `json:"change,omitempty"` // the first that comes out differently; nil: none does
	Next    uint64              `json:"next,omitempty"`   // for After of the next page; 0: that was the last record
}

// Change is a field of a record that comes out differently when its events are
// folded again.
type Change struct {
	Revision uint64 `json:"revision"`
	Field    string `json:"field"`    // "data.total", "pending.0.input", …
	Recorded string `json:"recorded"` // JSON, "" if it is not there
	Replayed string `json:"replayed"`
}

// ErrUnknownMachine is returned for a run of a machine that nobody here has.
var ErrUnknownMachine = errors.New("no such machine here")

// Replay folds the records of a run again, without effects, with the machine as
// it is here, and says which field is the first that comes out differently.
// Nothing depends on it: what was committed is what happened. ErrUnknownMachine
// is returned if the machine is not here.
func (a *Answers) Replay(ctx context.Context, q ReplayQuery) (*Replayed, error) {
	last, err := a.Log.Look(ctx, q.ID)
	switch {
	case err != nil:
		return nil, err
	case last == nil:
		return nil, notFound(q.ID)
	case last.Tomb != nil:
		return nil, errorf(ClassConflict, "run %s: its records were removed, only the last is left", quoted(q.ID))
	}
	def, err := a.definition(last.Record, 0)
	if err != nil {
		return nil, err
	}
	out := &Replayed{ID: q.ID, Machine: last.Machine, Version: last.Version, Status: last.Status}
	blob := func(hash string) ([]byte, error) { return a.Blobs.Get(ctx, q.ID, hash) }
	var prev *statemachine.Stored
	for r, err := range a.Log.Read(ctx, q.ID, max(q.After, 1)-1) {
		switch {
		case err != nil:
			return nil, err
		case prev == nil && r.Rev > 1: // of this the record before is not read, or not there any more
			prev = r
			continue
		case q.Limit > 0 && out.From > 0 && r.Rev-out.From >= uint64(q.Limit):
			out.Next = prev.Seq
			return out, nil
		}
		if out.From == 0 {
			out.From = r.Rev
		}
		out.To = r.Rev
		err = def.Refold(prev, r.Record, blob)
		if d, ok := errors.AsType[*statemachine.Difference](err); ok {
			out.Change = &Change{Revision: d.Rev, Field: d.Field, Recorded: d.Recorded, Replayed: d.Refolded}
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("run %q, revision %d: %w", q.ID, r.Rev, err)
		}
		prev = r
	}
	return out, nil
}

// definition is the machine of a run, in another version if it is not 0.
func (a *Answers) definition(r *statemachine.Record, version int) (*statemachine.Definition, error) {
	if version == 0 {
		version = r.Version
	}
	if a.Definitions != nil {
		if def, ok := a.Definitions.Definition(r.Machine, version); ok {
			return def, nil
		}
		if _, ok := a.Definitions.Definition(r.Machine, 0); ok {
			return nil, fmt.Errorf("run %q is of machine %s: its version %d: %w", r.Run, r.Machine, version, ErrUnknownMachine)
		}
	}
	return nil, fmt.Errorf("run %q is of machine %s version %d: %w", r.Run, r.Machine, version, ErrUnknownMachine)
}

// mostChange bounds what an answer quotes of a value.
const mostChange = 16 << 10

// replay answers a page.
func (s *Server) replay(ctx context.Context, q *ReplayQuery) (*Replayed, error) {
	var f faults
	f.run(q.ID)
	f.limit(&q.Limit, MaxPage)
	if err := f.err(); err != nil {
		return nil, err
	}
	out, err := s.answers.Replay(ctx, *q)
	if err == nil && out.Change != nil {
		for _, v := range []*string{&out.Change.Recorded, &out.Change.Replayed} {
			if len(*v) > mostChange {
				*v = (*v)[:mostChange] + "…"
			}
		}
	}
	return out, err
}
