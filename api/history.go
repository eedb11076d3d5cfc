package api

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// Revision is one record of a run: what happened, and what came of it.
type Revision struct {
	Revision uint64              `json:"revision"`
	Events   []Event             `json:"events"`
	From     string              `json:"from"` // "" for the first
	To       string              `json:"to"`
	Status   statemachine.Status `json:"status"`
	At       time.Time           `json:"at"`
	Effects  []Effect            `json:"effects"`         // that were asked for, or given another place
	Error    *statemachine.Cause `json:"error,omitempty"` // why the run failed or was parked
	// Ending is how the run ends once what is under way has an outcome, and what
	// it did is undone.
	Ending   *statemachine.Ending `json:"ending,omitempty"`
	Undos    int                  `json:"undos,omitempty"` // how many effects are to be undone then
	Build    string               `json:"build"`
	By       string               `json:"by,omitempty"`     // the worker
	Sequence uint64               `json:"sequence"`         // in the stream
	Epoch    int                  `json:"epoch,omitempty"`  // how often the run had rolled
	Rolled   bool                 `json:"rolled,omitempty"` // the epoch begins with it
	// Truncated is set if it has too many events and effects for an answer:
	// then it has none.
	Truncated bool `json:"truncated,omitempty"`
}

// Event is one that was applied.
type Event struct {
	ID       string                 `json:"id"`
	Kind     statemachine.EventKind `json:"kind"`
	At       time.Time              `json:"at"`
	Name     string                 `json:"name,omitempty"`   // effect type, or name of a signal
	Effect   string                 `json:"effect,omitempty"` // id of the effect it is about
	Try      int                    `json:"try,omitempty"`
	Error    *statemachine.Cause    `json:"error,omitempty"`
	RetryAt  *time.Time             `json:"retry_at,omitempty"`
	Free     bool                   `json:"free,omitempty"`     // the failure spent no attempt
	Recorded bool                   `json:"recorded,omitempty"` // an outcome of the original of this fork: nothing was performed
	// Command is what a command says: who asked for it, and why. It is nil if it
	// says nothing, and for other events.
	Command *statemachine.Command `json:"command,omitempty"`
}

// Effect is one that a record asks for, or moves to another place.
type Effect struct {
	ID      string             `json:"id"`
	Effect  string             `json:"effect"`
	Key     string             `json:"key"`
	Place   statemachine.Place `json:"place"`
	Try     int                `json:"try"`
	RetryAt *time.Time         `json:"retry_at,omitempty"`
	Undoes  string             `json:"undoes,omitempty"` // id of the effect that it takes back
	Child   *Child             `json:"child,omitempty"`  // the run that it stands for, if it is no effect
}

// History yields the revisions of a run, oldest first. ErrNotFound is yielded
// if there are none.
func (a *Answers) History(ctx context.Context, id string) iter.Seq2[*Revision, error] {
	return func(yield func(*Revision, error) bool) {
		found := false
		for r, err := range a.Log.Read(ctx, id, 0) {
			if err != nil {
				yield(nil, err)
				return
			}
			found = true
			if !yield(RevisionOf(r), nil) {
				return
			}
		}
		if !found {
			yield(nil, fmt.Errorf("run %q: %w", id, ErrNotFound))
		}
	}
}

// RevisionOf describes a record.
func RevisionOf(r *statemachine.Stored) *Revision {
	v := &Revision{
		Revision: r.Rev, From: r.From, To: r.To, Status: r.Status, At: r.At, Error: r.Cause, Ending: r.Ending, Undos: len(r.Undos), Build: r.Build, By: r.By,
		Sequence: r.Seq, Epoch: r.Epoch, Rolled: r.Rolls(), Events: make([]Event, 0, len(r.Events)), Effects: []Effect{},
	}
	for i := range r.Events {
		e := &r.Events[i]
		v.Events = append(v.Events, Event{
			ID: e.ID, Kind: e.Kind, At: e.At, Name: e.Name, Effect: e.Effect, Try: e.Try, Error: e.Cause, RetryAt: e.RetryAt, Free: e.Free, Recorded: e.Recorded,
			Command: commandOf(e),
		})
	}
	for i := range r.Pending {
		if p := &r.Pending[i]; p.Rev == r.Rev {
			v.Effects = append(v.Effects, Effect{
				ID: p.ID, Effect: p.Effect, Key: p.IdempotencyKey(), Place: p.Place, Try: p.Try, RetryAt: p.RetryAt,
				Undoes: p.Undoes, Child: childOf(p),
			})
		}
	}
	return v
}

// commandOf is what a command says; nil if it says nothing, or e is none.
func commandOf(e *statemachine.Event) *statemachine.Command {
	if !e.Kind.IsCommand() {
		return nil
	}
	c, err := statemachine.ParseCommand(e.Kind, e.Body)
	if err != nil || c.IsZero() {
		return nil // it was checked when it was recorded
	}
	return &c
}

// The pauses between two looks of Follow.
const (
	firstPause = 20 * time.Millisecond
	mostPause  = 500 * time.Millisecond
)

// Follow yields the records of a run after the given stream sequence, and goes
// on with those that come, until the run has ended or ctx does. A run that does
// not exist yet is waited for. While nothing happens it yields nil now and
// then, so that the caller can look at something else.
func (a *Answers) Follow(ctx context.Context, id string, after uint64) iter.Seq2[*statemachine.Stored, error] {
	return func(yield func(*statemachine.Stored, error) bool) {
		for pause := firstPause; ; {
			last, err := a.Log.Look(ctx, id)
			if err != nil {
				yield(nil, err)
				return
			}
			if last != nil && last.Seq > after {
				for r, err := range a.Log.Read(ctx, id, after) {
					if err != nil {
						yield(nil, err)
						return
					}
					if after = r.Seq; !yield(r, nil) || r.Status.Ended() {
						return
					}
				}
				pause = firstPause
			} else if last != nil && last.Status.Ended() || !yield(nil, nil) {
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
			pause = min(2*pause, mostPause)
		}
	}
}
