package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// Question asks a run something by the name of a query of its machine.
type Question struct {
	ID    string `json:"id"`
	Query string `json:"query"`
}

// Answer is what the machine says of the run, as its last record is.
type Answer struct {
	ID       string          `json:"id"`
	Query    string          `json:"query"`
	Revision uint64          `json:"revision"`
	At       time.Time       `json:"at"` // of that record
	Value    json.RawMessage `json:"value"`
}

// Query answers a query of a run with its machine as it is here. ErrNotFound is
// returned for a run or a query that does not exist, ErrUnknownMachine if the
// machine is not here.
func (a *Answers) Query(ctx context.Context, q Question) (*Answer, error) {
	r, err := a.last(ctx, q.ID)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, notFound(q.ID)
	case r.Tomb != nil:
		return nil, errorf(ClassConflict, "run %s: its records were removed", quoted(q.ID))
	}
	def, err := a.definition(r.Record, 0)
	if err != nil {
		return nil, err
	}
	value, err := def.Query(r, q.Query)
	switch {
	case errors.Is(err, statemachine.ErrNoQuery):
		return nil, fmt.Errorf("%w: %w", err, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("query %s of run %s: %w", quoted(q.Query), quoted(q.ID), err)
	}
	return &Answer{ID: q.ID, Query: q.Query, Revision: r.Rev, At: r.At, Value: value}, nil
}

func (s *Server) query(ctx context.Context, q *Question) (*Answer, error) {
	var f faults
	f.run(q.ID)
	f.name("query", q.Query)
	if err := f.err(); err != nil {
		return nil, err
	}
	return s.answers.Query(ctx, *q)
}
