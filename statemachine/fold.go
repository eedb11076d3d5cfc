package statemachine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Env is what a fold needs of the world, as data.
type Env struct {
	Now   time.Time              // the worker's clock, UTC
	Build string                 // goes into the record
	By    string                 // goes into the record
	Place func(p *Pending) Place // decides Inline or Queued for a new effect; nil: Queued
}

// Outcome says what an event did to the run.
type Outcome int

// The outcomes of applying an event.
const (
	Applied   Outcome = iota // it moved the run; a record must be written
	Duplicate                // it was applied before
	Stale                    // it answers nothing that is pending (in this state)
	Ended                    // the run has ended: the event comes too late
	Unknown                  // there is no such run yet, and the event does not start one
	Conflict                 // a start of a run that exists, with another input or machine
	Early                    // a timer fired before its time; it comes again
)

// String names the outcome, for logs.
func (o Outcome) String() string {
	names := [...]string{"applied", "duplicate", "stale", "ended", "unknown", "conflict", "early"}
	if o < 0 || int(o) >= len(names) {
		return fmt.Sprintf("outcome %d", int(o))
	}
	return names[o]
}

// Fold builds the next record of a run from the record before and events, one
// after the other: each event is checked against the state it meets.
//
// A fold never changes what it was given: the record it builds shares slices
// and maps with the record before, and replaces what it changes.
type Fold struct {
	d     *Definition
	from  *Stored // nil for the first record
	env   Env
	err   error // why no event can be applied
	data  any   // rec.Data decoded; nil if it is not
	after uint64
	lent  map[string][]byte // blobs of earlier records, see Lend
	turns uint64            // records of an epoch, at which the run rolls by itself
	post
}

// post is the state that events have led to so far. Copying it is a snapshot.
type post struct {
	rec   Record
	clock time.Time // of the last event; never goes back
	blobs []blob
	most  int // bytes of a value that is no blob

	answered     int // replies that the record adds
	answeredSize int // … and how large they are
}

// Begin starts a fold on the run's last record; from is nil if the run has
// none yet.
func (d *Definition) Begin(run string, from *Stored, env Env) *Fold {
	env.Now = utc(env.Now)
	f := &Fold{d: d, env: env, turns: MaxEpoch}
	f.rec = Record{V: 1, Run: run, Machine: d.Name, Version: d.Version, Rev: 1}
	if from != nil && from.Record != nil {
		f.from, f.after = from, from.Seq
		f.rec, f.clock = carry(from), from.At
	}
	f.rec.Def, f.rec.Build, f.rec.By = d.Hash, env.Build, env.By
	switch {
	case run == "" || !validID(run):
		f.err = fmt.Errorf("run %q: an id is UTF-8 and not empty", run)
	case len(run) > MaxID:
		f.err = &LimitError{What: "id", Size: len(run), Max: MaxID}
	case f.rec.Run != run:
		f.err = fmt.Errorf("run %q: the record before is of run %q", run, f.rec.Run)
	}
	return f
}

// State is where the root of the run is, as far as events have led it; "" if it
// is nowhere yet.
func (f *Fold) State() string {
	if len(f.rec.Frames) == 0 {
		return ""
	}
	return f.rec.Frames[0].State
}

// carry returns the record after r as it is before any event.
func carry(r *Stored) Record {
	next := Record{
		V: 1, Run: r.Run, Machine: r.Machine, Version: r.Version, Schema: r.Schema, Epoch: r.Epoch,
		Rev: r.Rev + 1, Prev: r.Seq, PrevTxid: r.Txid, Started: r.Started, Tenant: r.Tenant, Parent: r.Parent,
		To: r.To, Status: r.Status, Frames: r.Frames, Data: r.Data, Logs: r.Logs, Index: r.Index, Budgets: r.Budgets,
		Pending: r.Pending, Waits: r.Waits, Undos: r.Undos, Ending: r.Ending, Inbox: r.Inbox, Applied: r.Applied, Replies: r.Replies, Cause: r.Cause, Input: r.Input, Origin: r.Origin, Roll: r.Roll,
	}
	if len(r.Frames) > 0 {
		next.From = r.Frames[0].State
	}
	return next
}

// Apply applies one event. An error means that the machine cannot take the
// event: a *LimitError, or a *FaultError whose class says what is wrong (an
// invalid input, a panic in a callback, …). The fold is then as it was before
// the event.
//
// Bodies are given as they are, never as references to blobs. An empty At is
// now. The name of a start is the machine it asks for, if it is set.
func (f *Fold) Apply(e Event) (Outcome, error) {
	if f.err != nil {
		return Stale, f.err
	}
	if err := f.normalize(&e); err != nil {
		return Stale, err
	}
	if o, done := f.refuse(&e); done {
		return o, nil
	}
	if err := f.fits(); err != nil {
		return Stale, err
	}
	before := f.post
	if err := f.take(&e); err != nil {
		f.post, f.data = before, nil // callbacks may have changed the data halfway
		return Stale, err
	}
	return Applied, nil
}

// fits checks that the definition is the one the run was started with.
func (f *Fold) fits() error {
	if f.from == nil || f.rec.Machine == f.d.Name && f.rec.Version == f.d.Version {
		return nil
	}
	return fmt.Errorf("run %q is of machine %s version %d, not of %s version %d",
		f.rec.Run, f.rec.Machine, f.rec.Version, f.d.Name, f.d.Version)
}

// SealLog notes that the unsealed items of a log now lie in the chunk with
// this hash, stored before. Call it before Apply. It does nothing unless count
// is the number of items the log has in the record before: a chunk that does
// not hold them all would leave some that are found nowhere.
func (f *Fold) SealLog(log, head string, count int) {
	ref, ok := f.rec.Logs[log]
	if !ok || ref.Count != count || ref.Sealed == count || len(f.rec.Events) > 0 {
		return
	}
	f.rec.Logs = maps.Clone(f.rec.Logs)
	f.rec.Logs[log] = LogRef{Count: count, Sealed: count, Head: head, After: f.after}
}

// Sealed is a record ready to be appended.
type Sealed struct {
	Stored                   // Record and Bytes are set, Seq is not known yet
	Blobs  map[string][]byte // by hash; to be stored before the append
}

// Seal ends the fold, checks every size and encodes the record. A *LimitError
// says which limit the record would break. Without an applied event there is
// no record to seal.
func (f *Fold) Seal() (*Sealed, error) {
	if f.err != nil {
		return nil, f.err
	}
	if len(f.rec.Events) == 0 {
		return nil, fmt.Errorf("seal run %q: no event was applied", f.rec.Run)
	}
	if err := f.limits(); err != nil {
		return nil, err
	}
	if f.isLong() {
		f.roll()
	}
	r := f.rec
	r.V = r.version()
	r.At = later(f.clock, f.env.Now)
	if f.from == nil {
		r.Started = r.At
	}
	for i := range r.Pending {
		if r.Pending[i].Rev == r.Rev { // then the slice is this fold's own
			r.Pending[i].At = r.At
		}
	}
	b, err := encode(&r)
	if err != nil {
		return nil, err
	}
	most := MaxRecord
	if e := r.Events[0]; e.Kind == EventDue && e.Cause != nil {
		most += roomToPark // there must be room to say so
	}
	if err := within("record", len(b), most); err != nil {
		return nil, err
	}
	s := &Sealed{Stored: Stored{Record: &r, Bytes: b}}
	if len(f.blobs) > 0 {
		s.Blobs = make(map[string][]byte, len(f.blobs))
		for _, b := range f.blobs {
			s.Blobs[b.hash] = b.bytes
		}
	}
	f.err = fmt.Errorf("run %q: the fold was sealed", r.Run)
	return s, nil
}

// limits checks the sizes of what the record carries.
func (f *Fold) limits() error {
	for _, err := range []error{
		within("data", len(f.rec.Data), MaxData),
		within("undos", undosSize(f.rec.Undos), MaxUndos),
		within("inbox", inboxSize(f.rec.Inbox), MaxInbox),
		within("pending and outbox", workSize(&f.rec), MaxWork),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// Allowances for what surrounds the variable parts of an entry in JSON: its
// field names, times and numbers.
const (
	signalFrame  = 128
	pendingFrame = 512
	waitFrame    = 256
	fanFrame     = 128
	replyFrame   = 256
	undoFrame    = 256
	entryFrame   = 256
)

// later reports whether the run begins later, or a start says so.
func (r *Record) later() bool {
	return slices.ContainsFunc(r.Waits, func(w Wait) bool { return w.Kind == WaitStart }) || slices.ContainsFunc(r.Events, func(e Event) bool { return e.Due != nil })
}

// version is the lowest format version whose builds can carry the record on.
func (r *Record) version() int {
	if r.Roll != nil {
		return 6
	}
	if r.fans() || r.later() || r.asks() || len(r.Budgets) > 0 || r.Origin != nil || r.Parent != nil || slices.ContainsFunc(r.Pending, func(p Pending) bool { return p.Child != nil }) {
		return 5
	}
	if len(r.Waits) > 0 {
		return 4
	}
	if r.Tenant != "" || slices.ContainsFunc(r.Pending, func(p Pending) bool { return p.Redriven > 0 || p.Redrives > 0 || p.Edits > 0 }) {
		return 3
	}
	if len(r.Undos) > 0 || r.Ending != nil || slices.ContainsFunc(r.Pending, func(p Pending) bool { return p.CanUndo }) {
		return 2
	}
	return 1
}

// fans reports whether anything is done many at once.
func (r *Record) fans() bool {
	return slices.ContainsFunc(r.Frames, func(f Frame) bool { return f.Fan != nil })
}

// inboxSize is the size of an inbox as the limit counts it.
func inboxSize(inbox []InboxSignal) int {
	n := 0
	for i := range inbox {
		s := &inbox[i]
		n += signalFrame + len(s.ID) + len(s.Name) + len(s.Body)
	}
	return n
}

// workSize is the size of pending effects and outbox as the limit counts it.
func workSize(r *Record) int {
	n := 0
	for i := range r.Pending {
		p := &r.Pending[i]
		n += pendingFrame + len(p.Effect) + len(p.Key) + len(p.Input) + len(p.Wake)
		if p.Cause != nil {
			n += len(p.Cause.Message)
		}
		if p.Child != nil {
			n += len(p.Child.Run) + len(p.Child.Machine)
		}
	}
	for i := range r.Waits {
		w := &r.Waits[i]
		n += waitFrame + len(w.Signal) + w.Gate.size()
		if w.Cause != nil {
			n += len(w.Cause.Message)
		}
	}
	for i := range r.Frames {
		if fan := r.Frames[i].Fan; fan != nil {
			for j := range fan.Held {
				n += fanFrame + len(fan.Held[j].Body)
				if c := fan.Held[j].Cause; c != nil {
					n += len(c.Message)
				}
			}
		}
	}
	for i := range r.Outbox {
		n += entryFrame + len(r.Outbox[i].Effect) + len(r.Outbox[i].Body)
	}
	return n
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// utc returns the time as it reads back from a record.
func utc(t time.Time) time.Time { return t.UTC().Round(0) }

// rawNull is a body that is not there.
var rawNull = json.RawMessage("null")
