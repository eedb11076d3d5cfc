package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// Run is a run as it is now.
type Run struct {
	ID       string              `json:"id"`
	Machine  string              `json:"machine"`
	Version  int                 `json:"version"`
	State    string              `json:"state"`
	Status   statemachine.Status `json:"status"`
	Revision uint64              `json:"revision"`
	Parent   *Parent             `json:"parent,omitempty"` // whose child it is
	Tenant   string              `json:"tenant,omitempty"` // whose run it is
	Error    *statemachine.Cause `json:"error"`            // why it failed or is parked; null if neither
	Started  time.Time           `json:"started"`
	Updated  time.Time           `json:"updated"`
	// Data is the machine's data. A log in it is {"$log": name, "to": count},
	// its items are in Logs; a value over 8 KB in it is as it was given.
	Data json.RawMessage `json:"data"`
	// Logs are the items of the logs, oldest first. An item over 8 KB is
	// {"$blob": hash, "size": bytes}.
	Logs map[string]Items `json:"logs"`
	// Counts is how many items each log has, given in Logs or not.
	Counts  map[string]int `json:"log_counts,omitempty"`
	Pending []Pending      `json:"pending"`
	Waits   []Wait         `json:"waits,omitempty"` // times and signals
	// Undos are what takes back what the run did, oldest first; it is performed
	// in reverse order.
	Undos []Undo `json:"undos,omitempty"`
	// Ending is how the run ends once what is under way has an outcome, and what
	// it did is undone; null if it does not end.
	Ending *statemachine.Ending `json:"ending,omitempty"`
	Inbox  []Signal             `json:"inbox,omitempty"`
	Index  map[string]string    `json:"index,omitempty"`
	Origin *Origin              `json:"origin,omitempty"` // of a fork: where it began
	Epoch  *Epoch               `json:"epoch,omitempty"`  // of a run that has rolled
	// Budgets are how much of what it may spend the run has used.
	Budgets map[string]statemachine.Spent `json:"budgets,omitempty"`
	Visits  map[string]int                `json:"visits,omitempty"` // of the states that can be entered again
	Fan     *Fan                          `json:"fan,omitempty"`    // how far a state has come that does many at once
	Build   string                        `json:"build,omitempty"`  // that made the last record
	By      string                        `json:"by,omitempty"`     // the worker that did
	// Removed is set once the run's records were archived or purged.
	Removed *time.Time `json:"removed,omitempty"`
	// Truncated is set if the whole is too large for an answer: then items of
	// Logs are missing at their beginning, or inputs, signals and Data, too.
	Truncated bool `json:"truncated,omitempty"`
}

// Epoch is the part of a run since it rolled last.
type Epoch struct {
	Number   int    `json:"number"`   // how often the run has rolled
	Revision uint64 `json:"revision"` // its first
}

func epochOf(r *statemachine.Record) *Epoch {
	if r.Roll == nil {
		return nil
	}
	return &Epoch{Number: r.Epoch, Revision: r.Roll.Rev}
}

// Parent is the run that a run is a child of.
type Parent struct {
	ID     string `json:"id"`
	Effect string `json:"effect"` // of the parent's pending effects, the one that stands for the child
	Level  int    `json:"level"`  // 1: the parent is no child
}

// Child is the run that a pending effect stands for.
type Child struct {
	ID      string `json:"id"`
	Machine string `json:"machine"`
	Abandon bool   `json:"abandon,omitempty"` // it is not cancelled with its parent
}

func parentOf(r *statemachine.Record) *Parent {
	if r.Parent == nil {
		return nil
	}
	return &Parent{ID: r.Parent.Run, Effect: r.Parent.Effect, Level: r.Parent.Level}
}

func childOf(p *statemachine.Pending) *Child {
	if p.Child == nil {
		return nil
	}
	return &Child{ID: p.Child.Run, Machine: p.Child.Machine, Abandon: p.Child.Abandon}
}

// Fan is how far a state has come that does many at once: items, or branches.
type Fan struct {
	Size     int `json:"size"`             // how many there are
	Begun    int `json:"begun"`            // the first so many
	UnderWay int `json:"under_way"`        // have no outcome yet
	Taken    int `json:"taken"`            // their outcomes are in the data
	Failed   int `json:"failed,omitempty"` // were given up, and the state goes on
	Held     int `json:"held,omitempty"`   // have an outcome whose turn has not come
}

// Items are the items of a log.
type Items []json.RawMessage

// Pending is an effect that was asked and has no result yet.
type Pending struct {
	ID      string              `json:"id"`
	Item    int                 `json:"item,omitempty"`   // item or branch of the state that it is for, from 1
	Branch  string              `json:"branch,omitempty"` // name of that branch, if the run's machine is known
	Effect  string              `json:"effect"`
	Key     string              `json:"key"` // idempotency key
	Place   statemachine.Place  `json:"place"`
	Attempt int                 `json:"attempt"` // from 1
	Try     int                 `json:"try"`     // from 1, those that spent no attempt included
	Since   time.Time           `json:"since"`   // it has its place
	RetryAt *time.Time          `json:"retry_at,omitempty"`
	Error   *statemachine.Cause `json:"error,omitempty"`  // of the last attempt
	Input   json.RawMessage     `json:"input,omitempty"`  // over 8 KB: {"$blob": hash, "size": bytes}
	Undoes  string              `json:"undoes,omitempty"` // id of the effect that it takes back
	Child   *Child              `json:"child,omitempty"`  // the run that it stands for, if it is no effect
	Tells   string              `json:"tells,omitempty"`  // id of the approval that it tells somebody of
}

// Wait is a time or a signal that the run waits for.
type Wait struct {
	ID     string                `json:"id"`
	Item   int                   `json:"item,omitempty"`   // item or branch of the state that waits, from 1
	Branch string                `json:"branch,omitempty"` // name of that branch, if the run's machine is known
	Kind   statemachine.WaitKind `json:"kind"`
	Signal string                `json:"signal,omitempty"` // its name
	// Approval is what people decide; a reference to what they are shown, if
	// that is over 8 KB.
	Approval *Approval           `json:"approval,omitempty"`
	Due      *time.Time          `json:"due,omitempty"` // when it is over
	Since    time.Time           `json:"since"`
	Error    *statemachine.Cause `json:"error,omitempty"` // why the machine could not go on then
}

// Undo is an effect that takes back what the run did in a state.
type Undo struct {
	State  string          `json:"state"`
	Effect string          `json:"effect"`
	Key    string          `json:"key,omitempty"`   // business key
	Of     string          `json:"of"`              // id of the effect that it takes back
	Input  json.RawMessage `json:"input,omitempty"` // over 8 KB: {"$blob": hash, "size": bytes}
}

// Signal is one that nobody waited for yet.
type Signal struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	At   time.Time       `json:"at"`
	Body json.RawMessage `json:"body,omitempty"`
}

// AllItems asks for the whole of every log.
const AllItems = -1

// Run answers what a run is like now. Of each log the last items are given, at
// most so many; AllItems is all of them. ErrNotFound is returned if there is no
// such run.
func (a *Answers) Run(ctx context.Context, id string, items int) (*Run, error) {
	r, err := a.last(ctx, id)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	run := runOf(r.Record)
	run.name(a.branches(r.Record))
	if items != 0 && r.Tomb == nil {
		if run.Logs, _, err = a.logs(ctx, r, items, unbounded); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// name gives what is waited for the names of the branches it is for.
func (run *Run) name(branches []string) {
	for i := range run.Pending {
		if p := &run.Pending[i]; p.Item > 0 && p.Item <= len(branches) {
			p.Branch = branches[p.Item-1]
		}
	}
	for i := range run.Waits {
		if w := &run.Waits[i]; w.Item > 0 && w.Item <= len(branches) {
			w.Branch = branches[w.Item-1]
		}
	}
}

// fanOf is how far a run's state has come that does many at once; nil if it
// does not.
func fanOf(r *statemachine.Record) *Fan {
	f := r.Frames[0].Fan
	if f == nil {
		return nil
	}
	return &Fan{Size: f.Size, Begun: f.Asked, UnderWay: r.UnderWay(), Taken: f.Taken, Failed: f.Failed, Held: len(f.Held)}
}

// last reads a run's last record; nil if there is none. A record that nobody
// read for long lies in a cold block of HISTORY's file: the broker takes up to
// 0.1 s to have it, and all who write wait meanwhile.
func (a *Answers) last(ctx context.Context, id string) (*statemachine.Stored, error) {
	if a.Copies != nil {
		if r := a.Copies.Current(ctx, id); r != nil {
			return r, nil
		}
	}
	return a.Log.Look(ctx, id)
}

func runOf(r *statemachine.Record) *Run {
	run := &Run{
		ID: r.Run, Machine: r.Machine, Version: r.Version, State: r.To, Status: r.Status, Revision: r.Rev, Tenant: r.Tenant,
		Error: r.Cause, Started: r.Started, Updated: r.At, Data: r.Data, Index: r.Index, Build: r.Build, By: r.By,
		Pending: make([]Pending, 0, len(r.Pending)), Ending: r.Ending, Parent: parentOf(r), Budgets: r.Budgets, Origin: originOf(r.Origin), Epoch: epochOf(r),
	}
	for i := range r.Waits {
		w := &r.Waits[i]
		wait := Wait{ID: w.ID, Item: w.Item, Kind: w.Kind, Signal: w.Signal, Due: w.Due, Since: w.At, Error: w.Cause}
		if w.Gate != nil {
			a := approvalOf(r, w)
			wait.Approval = &a
		}
		run.Waits = append(run.Waits, wait)
	}
	for i := range r.Pending {
		p := &r.Pending[i]
		run.Pending = append(run.Pending, Pending{
			ID: p.ID, Item: p.Item, Effect: p.Effect, Key: p.IdempotencyKey(), Place: p.Place, Attempt: p.Attempt, Try: p.Try,
			Since: p.At, RetryAt: p.RetryAt, Error: p.Cause, Input: p.Input,
			Undoes: p.Undoes, Tells: p.Tells, Child: childOf(p),
		})
	}
	for i := range r.Undos {
		u := &r.Undos[i]
		run.Undos = append(run.Undos, Undo{State: u.State, Effect: u.Effect, Key: u.Key, Of: u.Of, Input: u.Input})
	}
	for _, s := range r.Inbox {
		run.Inbox = append(run.Inbox, Signal{ID: s.ID, Name: s.Name, At: s.At, Body: s.Body})
	}
	for name, ref := range r.Logs {
		if run.Counts == nil {
			run.Counts = make(map[string]int, len(r.Logs))
		}
		run.Counts[name] = ref.Count
	}
	if len(r.Frames) > 0 {
		run.Visits, run.Fan = r.Frames[0].Visits, fanOf(r)
	}
	if r.Tomb != nil {
		run.Removed = &r.Tomb.At
	}
	return run
}
