package api

import (
	"context"
	"slices"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// message is what a run is told under an id.
type message struct {
	run   string
	what  string // in words
	event string // id of the event that it becomes

	fits func(*statemachine.Stored) error // says why the run's last record does not take it; nil: it takes all
	send func(context.Context) error
	// refused is what a refusal of the run is to who asked; nil: the run does not
	// reply.
	refused func(*statemachine.Record, *statemachine.Cause) error
}

// tell sends a run something that fits its last record, and waits until a
// record has it.
func (s *Server) tell(ctx context.Context, timeout time.Duration, m message) (*Told, error) {
	if s.answers.Sender == nil {
		return nil, errReadOnly()
	}
	sooner, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	before, err := s.answers.Log.Look(sooner, m.run)
	if err != nil {
		return nil, err
	}
	if before == nil {
		return nil, notFound(m.run)
	}
	answer := func(o Outcome, r *statemachine.Stored) *Told {
		return &Told{ID: m.run, Outcome: o, Status: r.Status, Revision: r.Rev}
	}
	if slices.Contains(before.Applied, m.event) {
		return s.answered(sooner, answer(OutcomeDuplicate, before), m, before, 0)
	}
	if before.Status.Ended() {
		return nil, ended(before, m.what)
	}
	if m.fits != nil {
		if err := m.fits(before); err != nil {
			return nil, err
		}
	}
	if err := m.send(sooner); err != nil {
		return nil, err
	}
	if timeout == 0 {
		return answer(OutcomeAccepted, before), nil
	}
	r, err := s.until(ctx, timeout, m.run, true, func(r *statemachine.Stored) (bool, error) {
		switch {
		case r == nil || slices.Contains(r.Applied, m.event):
			return r != nil, nil
		case r.Status.Ended():
			return false, ended(r, m.what)
		}
		return false, nil
	})
	switch {
	case err == nil:
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Timeout)
		defer cancel()
		return s.answered(within, answer(OutcomeApplied, r), m, r, before.Seq)
	case !over(err):
		return nil, err
	case r == nil:
		r = before
	}
	return answer(OutcomeAccepted, r), nil
}

// answered is what a run was told and replied, or why it refused that. The
// record that applied it, which comes after the sequence, has the reply; later
// ones keep it for a while.
func (s *Server) answered(ctx context.Context, t *Told, m message, r *statemachine.Stored, after uint64) (*Told, error) {
	if m.refused == nil {
		return t, nil
	}
	reply := r.Reply(m.event)
	if reply == nil {
		for past, err := range s.answers.Log.Read(ctx, m.run, after) {
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(past.Events, func(e statemachine.Event) bool { return e.ID == m.event }) {
				reply = past.Reply(m.event)
				break
			}
		}
	}
	if reply == nil { // an approval that was accepted, or a record that was removed
		return t, nil
	}
	if reply.Cause != nil {
		return nil, m.refused(r.Record, reply.Cause)
	}
	t.Value = reply.Value
	return t, nil
}
