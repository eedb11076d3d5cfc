package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/statemachine"
)

// Flow is what is held up for the whole fleet.
type Flow interface {
	// List reads all notices, those of what goes on again as well; all is false
	// if there are too many closed keys to be listed.
	List(ctx context.Context) (notices []flow.Notice, all bool, err error)
	// Hold tells all workers of something that exists. ErrNotFound is returned
	// if there is no such effect type or machine.
	Hold(ctx context.Context, n flow.Notice) error
}

// FlowRequest says what is to be held up, or to go on: an effect type, one of
// its flow keys, or a state of a machine.
type FlowRequest struct {
	Kind    flow.Kind `json:"kind"`
	Effect  string    `json:"effect,omitempty"`
	Key     string    `json:"key,omitempty"`
	Machine string    `json:"machine,omitempty"`
	State   string    `json:"state,omitempty"`
	// For is how long a key is closed, at most MaxClosed; other things are held
	// up until they are released.
	For    *statemachine.Duration `json:"for,omitempty"`
	By     string                 `json:"by,omitempty"`
	Reason string                 `json:"reason,omitempty"`
}

// MaxClosed is the longest that a key may be closed.
const MaxClosed = 7 * 24 * time.Hour

// FlowList is what is held up now.
type FlowList struct {
	Held []flow.Notice `json:"held"`
	// Complete is false if there are more closed keys than can be listed: then
	// none of them are.
	Complete bool `json:"complete"`
}

// listFlow lists what is held up.
func (s *Server) listFlow(ctx context.Context, _ *struct{}) (*FlowList, error) {
	if s.answers.Flow == nil {
		return nil, errorf(ClassUnavailable, "what is held up is not known here")
	}
	notices, all, err := s.answers.Flow.List(ctx)
	if err != nil {
		return nil, err
	}
	l := &FlowList{Held: []flow.Notice{}, Complete: all}
	now := time.Now()
	for _, n := range notices {
		if n.Holds(now) {
			l.Held = append(l.Held, n)
		}
	}
	return l, nil
}

// hold is the action of the verbs that hold something up, or let it go on. It
// may be repeated: the last one counts.
func (s *Server) hold(held bool) func(context.Context, Caller, *FlowRequest) (*flow.Notice, error) {
	return func(ctx context.Context, c Caller, q *FlowRequest) (*flow.Notice, error) {
		if s.answers.Flow == nil {
			return nil, errReadOnly()
		}
		now := time.Now().UTC()
		n := flow.Notice{Kind: q.Kind, Effect: q.Effect, Key: q.Key, Machine: q.Machine, State: q.State, Held: held, At: now, By: c.recorded(q.By), Reason: q.Reason}
		closes := held && q.Kind == flow.KindKey
		switch {
		case closes && q.For == nil:
			return nil, badf("for is missing: a key is closed for a time")
		case !closes && q.For != nil:
			return nil, badf("for is for closing a key only")
		case closes && (*q.For <= 0 || time.Duration(*q.For) > MaxClosed):
			return nil, badf("for, how long the key is to be closed, is %s: it is over 0s and at most %s", time.Duration(*q.For), MaxClosed)
		case closes:
			n.Until = now.Add(time.Duration(*q.For))
		}
		if err := n.Check(); err != nil {
			return nil, badf("%s", err)
		}
		ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
		if held && q.Kind == flow.KindState {
			if err := s.answers.hasState(ctx, q.Machine, q.State); err != nil {
				return nil, err
			}
		}
		if err := s.answers.Flow.Hold(ctx, n); err != nil {
			return nil, err
		}
		return &n, nil
	}
}

// hasState refuses a state that no version of a machine has. A version that
// this process does not have may have any.
func (a *Answers) hasState(ctx context.Context, machine, state string) error {
	if a.Definitions == nil || a.Registry == nil {
		return nil
	}
	machines, err := a.Registry.Machines(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(machines, func(m Machine) bool { return m.Name == machine })
	if at < 0 {
		return nil
	}
	var names []string
	for _, v := range machines[at].Versions {
		d, ok := a.Definitions.Definition(machine, v.Version)
		if !ok || d.Hash != v.Hash {
			return nil
		}
		for _, s := range d.States() {
			names = append(names, s.Name)
		}
	}
	if slices.Contains(names, state) {
		return nil
	}
	slices.Sort(names)
	return errorf(ClassNotFound, "machine %s has no state %s: it has %s", machine, quoted(state), strings.Join(slices.Compact(names), ", "))
}
