package pawltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// maxRecords stops a run that goes on for ever.
const maxRecords = 100_000

// drive performs what the run waits for until it has ended, is parked, or waits
// for a signal, and then folds its new records again. A run that sleeps sleeps
// no longer than it takes to read this.
func (r *Run) drive() {
	r.t.Helper()
	for r.next() {
		if len(r.records) > maxRecords {
			r.t.Fatalf("run %s has not come to rest after %d records", r.id, maxRecords)
		}
	}
	r.refold()
}

// next does one thing the run waits for; false if there is none.
func (r *Run) next() bool {
	r.t.Helper()
	var retry *sm.Pending // the one whose time comes first
	pending := r.last().Pending
	if len(pending) > 1 && r.history.now(lastFirst) {
		r.history.happens()
		pending = slices.Clone(pending)
		slices.Reverse(pending)
	}
	for i := range pending {
		p := &pending[i]
		switch {
		case p.Place == sm.Inline || p.Place == sm.Queued:
			r.perform(p)
			return true
		case p.Place == sm.ChildRun:
			if r.visit(p) {
				return true
			}
		case p.Place == sm.Retry && (retry == nil || p.RetryAt.Before(*retry.RetryAt)):
			retry = p
		}
	}
	w := r.firstDue()
	if retry != nil && (w == nil || !w.Due.Before(*retry.RetryAt)) {
		if retry.RetryAt.After(r.now) {
			r.now = *retry.RetryAt
		}
		r.must(sm.Event{Kind: sm.EventDue, Effect: retry.ID, Try: retry.Try})
		return true
	}
	if w != nil && (retry != nil || r.sleeps()) {
		r.elapse(w)
		return true
	}
	return false
}

// sleeps reports whether the run waits for nothing but a time.
func (r *Run) sleeps() bool {
	is := func(kind sm.WaitKind) bool {
		return slices.ContainsFunc(r.last().Waits, func(w sm.Wait) bool { return w.Kind == kind && w.Cause == nil })
	}
	return r.last().Status == sm.StatusRunning && is(sm.WaitSleep) && !is(sm.WaitSignal)
}

// firstDue is the wait that is over first, nil if none is by itself.
func (r *Run) firstDue() *sm.Wait {
	var first *sm.Wait
	for i := range r.last().Waits {
		w := &r.last().Waits[i]
		if _, armed := w.Timer(); armed && (first == nil || w.Due.Before(*first.Due)) {
			first = w
		}
	}
	return first
}

// firstOfAll is the wait that is over first of the run and its children, and
// whose it is.
func (r *Run) firstOfAll() (*Run, *sm.Wait) {
	of, first := r, r.firstDue()
	for _, id := range slices.Sorted(maps.Keys(r.children)) {
		if c, w := r.children[id].firstOfAll(); w != nil && (first == nil || w.Due.Before(*first.Due)) {
			of, first = c, w
		}
	}
	return of, first
}

// elapse lets the time come that a wait is over.
func (r *Run) elapse(w *sm.Wait) {
	r.t.Helper()
	if w.Due.After(r.now) {
		r.now = *w.Due
	}
	r.must(sm.Event{Kind: sm.EventDue, Effect: w.ID, Try: w.Try})
}

// perform calls what performs a pending effect, and folds the outcome in.
func (r *Run) perform(p *sm.Pending) {
	r.t.Helper()
	key := p.IdempotencyKey()
	if first, used := r.keys[key]; used && first.Print != p.Print {
		r.t.Fatalf("effect %s in state %s: key %q was used for another input of %s", p.Effect, r.State(), key, first.Effect)
	}
	r.keys[key] = *p
	result, done := r.results[key]
	if !done {
		var err error
		result, err = r.call(p, key)
		if result, err = r.unrecorded(p, key, result, err); err != nil {
			r.must(r.failed(p, err))
			return
		}
		r.results[key] = result
	}
	err := r.apply(sm.Event{Kind: sm.EventResult, Effect: p.ID, Try: p.Try, Body: result})
	if err == nil {
		return
	}
	// The machine cannot take the result: a worker gives the effect up.
	r.must(sm.Event{Kind: sm.EventFailure, Effect: p.ID, Try: p.Try, Cause: causeOf(err)})
}

// call makes one attempt, and notes it.
func (r *Run) call(p *sm.Pending, key string) (result json.RawMessage, err error) {
	r.t.Helper()
	f := r.script(p.Effect, key)
	if f == nil {
		r.t.Fatalf("effect %s in state %s: nothing performs it; use pawltest.On", p.Effect, r.State())
	}
	c := Call{Key: key, Attempt: p.Attempt, At: r.now, Input: r.resolve(p.Input)}
	c.Result, c.Err = safely(f, c.Input)
	r.calls[p.Effect] = append(r.calls[p.Effect], c)
	return c.Result, c.Err
}

// script returns what performs an effect type in this test.
func (r *Run) script(effect, key string) script {
	if f := r.scripts[effect]; f != nil {
		return f
	}
	if r.catalog == nil {
		return nil
	}
	h, ok := r.catalog.Handler(effect)
	if !ok {
		return nil
	}
	return func(input json.RawMessage) (json.RawMessage, error) {
		return h.Call(r.t.Context(), key, input)
	}
}

// safely turns a panic into an error, as a worker does.
func safely(f script, input json.RawMessage) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = sm.Classed(sm.ClassPanic, fmt.Errorf("%v", p))
		}
	}()
	return f(input)
}

// failed is the event of a failed attempt, by the effect's policy: five
// attempts, with waits of 1, 2, 4 … up to 60 seconds.
func (r *Run) failed(p *sm.Pending, err error) sm.Event {
	e := sm.Event{Kind: sm.EventFailure, Effect: p.ID, Try: p.Try, Cause: causeOf(err), Free: sm.IsLater(err)}
	attempts := r.policy(p.Effect).Attempts
	if attempts == 0 {
		attempts = 5
	}
	if sm.IsTerminal(err) || !e.Free && p.Attempt >= attempts {
		return e
	}
	wait := min(time.Second<<min(p.Attempt-1, 10), time.Minute)
	if asked, ok := sm.RetryAfterOf(err); ok {
		wait = asked
	}
	at := r.now.Add(wait)
	e.RetryAt = &at
	return e
}

func (r *Run) policy(effect string) sm.Policy {
	if p, ok := r.policies[effect]; ok {
		return p
	}
	if r.catalog != nil {
		if h, ok := r.catalog.Handler(effect); ok {
			return h.Policy
		}
	}
	return sm.Policy{}
}

func causeOf(err error) *sm.Cause {
	return &sm.Cause{Class: sm.ClassOf(err), Message: err.Error()}
}

// must applies an event that has to move the run.
func (r *Run) must(e sm.Event) {
	r.t.Helper()
	if err := r.apply(e); err != nil {
		r.t.Fatalf("run %s, event %s: %v", r.id, e.Kind, err)
	}
}

// apply is fold for an event that has to move the run.
func (r *Run) apply(e sm.Event) error {
	o, err := r.fold(e)
	if err == nil && o != sm.Applied {
		err = errors.New(o.String())
	}
	return err
}

// draft makes the next record; none if the event does not move the run.
func (r *Run) draft(e sm.Event) (*sm.Sealed, sm.Outcome, error) {
	e.At = r.now
	f := r.def.Begin(r.id, r.last(), sm.Env{Now: r.now, Build: "test", By: "pawltest", Place: r.place})
	r.seal(f)
	o, err := f.ApplyWith(e, func(hash string) ([]byte, error) { return r.blobs[hash], nil })
	if err != nil || o != sm.Applied {
		return nil, o, err
	}
	s, err := f.Seal()
	return s, o, err
}

// commit appends the next record, and reads it back.
func (r *Run) commit(e sm.Event) (sm.Outcome, error) {
	s, o, err := r.draft(e)
	if err != nil || s == nil {
		return o, err
	}
	rec, err := sm.Decode(s.Bytes)
	if err != nil {
		return o, err
	}
	for hash, b := range s.Blobs {
		r.blobs[hash] = b
	}
	for name, items := range rec.Adds {
		r.logs[name] = append(r.logs[name], r.values(items)...)
	}
	defer r.stop()
	r.records = append(r.records, &sm.Stored{Record: rec, Seq: uint64(len(r.records) + 1), Time: r.now, Bytes: s.Bytes})
	return o, nil
}

// place decides as a worker does that has all handlers and time.
func (r *Run) place(p *sm.Pending) sm.Place {
	if r.policy(p.Effect).Queued {
		return sm.Queued
	}
	return sm.Inline
}

// seal moves the items of long logs into chunks.
func (r *Run) seal(f *sm.Fold) {
	last := r.last()
	if last == nil {
		return
	}
	for name, ref := range last.Logs {
		if !last.NeedsSeal(name) {
			continue
		}
		chunk, err := json.Marshal(sm.Chunk{Prev: ref.Head, First: ref.Sealed, Items: r.logs[name][ref.Sealed:ref.Count]})
		if err != nil {
			r.t.Fatalf("chunk of log %s: %v", name, err)
		}
		hash := sm.BlobHash(chunk)
		r.blobs[hash] = chunk
		f.SealLog(name, hash, ref.Count)
	}
}

// refold folds the records since the last time again.
func (r *Run) refold() {
	r.t.Helper()
	for ; r.checked < len(r.records); r.checked++ {
		var prev *sm.Stored
		if r.checked > 0 {
			prev = r.records[r.checked-1]
		}
		err := r.def.Refold(prev, r.records[r.checked].Record, func(hash string) ([]byte, error) {
			b, ok := r.blobs[hash]
			if !ok {
				return nil, fmt.Errorf("blob %s was never stored", hash)
			}
			return b, nil
		})
		if err != nil {
			r.t.Errorf("not reproducible: %v", err)
			r.checked = len(r.records)
			return
		}
	}
}
