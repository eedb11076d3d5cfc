package pawltest

import (
	"encoding/json"
	"maps"
	"slices"

	sm "github.com/pawlrun/pawl/statemachine"
)

// OnChild stands for the runs of a machine that the tested one has as children:
// they end with what the function returns, or fail with its error. Children of
// other machines are run, if the test was given a catalog that has them.
func OnChild[In, Out any](machine sm.Ref[In, Out], f func(In) (Out, error)) Option {
	return func(r *Run) {
		r.ends[string(machine)] = func(input json.RawMessage) (json.RawMessage, error) {
			var in In
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, sm.Terminal(sm.ClassInvalidInput, err)
			}
			out, err := f(in)
			if err != nil {
				return nil, err
			}
			return json.Marshal(out)
		}
	}
}

// Children are the run's children that were started so far, by run id.
func (r *Run) Children() map[string]*Run { return maps.Clone(r.children) }

// Child is the run's only child that has not ended; the test fails if there is
// none, or more than one.
func (r *Run) Child() *Run {
	r.t.Helper()
	var live []*Run
	for _, id := range slices.Sorted(maps.Keys(r.children)) {
		if c := r.children[id]; !c.Status().Ended() {
			live = append(live, c)
		}
	}
	if len(live) != 1 {
		r.t.Fatalf("run %s has %d children that have not ended", r.id, len(live))
	}
	return live[0]
}

// settle drives the run until it has come to rest, and those that wait for it.
func (r *Run) settle() {
	r.t.Helper()
	for ; r != nil; r = r.parent {
		r.drive()
	}
}

// visit drives the child that a pending effect stands for; it reports whether
// the run was told of its end.
func (r *Run) visit(p *sm.Pending) bool {
	r.t.Helper()
	c, a := r.children[p.Child.Run], (&sm.Parent{Run: r.id, Effect: p.ID}).Answer(p.Child.Run)
	switch f := r.ends[p.Child.Machine]; {
	case f != nil:
		result, err := safely(f, r.resolve(p.Input))
		if a.Result = result; err != nil {
			a.Cause = causeOf(err)
		}
	case c == nil:
		var err error
		if c, err = r.adopt(p); err != nil {
			a.Cause = causeOf(err)
			break
		}
		r.children[p.Child.Run] = c
		fallthrough
	default:
		if r.now.After(c.now) {
			c.now = r.now
		}
		c.drive()
		var ended bool
		if a, ended = c.last().Answer(); !ended {
			return false
		}
		if w := r.firstDue(); w != nil && w.Due.Before(c.now) {
			r.elapse(w)
			return true
		}
		if c.now.After(r.now) {
			r.now = c.now
		}
	}
	e := sm.Event{Kind: sm.EventChild, Effect: a.Effect, Name: a.Child, Body: a.Result, Cause: a.Cause}
	if err := r.apply(e); err != nil { // the machine cannot take what it came to
		e.Body, e.Cause = nil, causeOf(err)
		r.must(e)
	}
	return true
}

// adopt starts a child.
func (r *Run) adopt(p *sm.Pending) (*Run, error) {
	r.t.Helper()
	c := *r
	c.id, c.parent, c.records, c.checked, c.machine, c.version = p.Child.Run, r, nil, 0, p.Child.Machine, 0
	c.calls, c.blobs, c.logs, c.children = map[string][]Call{}, map[string][]byte{}, map[string][]json.RawMessage{}, map[string]*Run{}
	var ok bool
	if r.catalog == nil {
		r.t.Fatalf("child of machine %q in state %s: use pawltest.OnChild, or test a catalog", p.Child.Machine, r.State())
	}
	if c.def, ok = r.catalog.Definition(p.Child.Machine, 0); !ok {
		r.t.Fatalf("child of machine %q in state %s: it is not in the catalog; use pawltest.OnChild", p.Child.Machine, r.State())
	}
	level := 1
	if of := r.last().Parent; of != nil {
		level += of.Level
	}
	return &c, c.apply(sm.Event{
		Kind: sm.EventStart, Body: r.resolve(p.Input), Tenant: r.last().Tenant,
		Parent: &sm.Parent{Run: r.id, Effect: p.ID, Asked: r.last().Seq, Level: level},
	})
}

// stop ends the children that the last record wants ended.
func (r *Run) stop() {
	r.t.Helper()
	for _, e := range r.last().Outbox {
		var s sm.Stop
		if e.Kind != sm.EntryStop || json.Unmarshal(e.Body, &s) != nil {
			continue
		}
		c := r.children[s.Run]
		if c == nil || c.Status().Ended() {
			continue
		}
		body, err := json.Marshal(sm.Command{By: "its parent", Reason: s.Reason})
		if err != nil {
			r.t.Fatal(err)
		}
		if o, err := c.fold(sm.Event{ID: sm.CommandEventID(string(s.Kind) + ":" + e.ID), Kind: s.Kind, Effect: e.ID, Body: body}); err != nil {
			r.t.Fatalf("stop of run %s: %v, %v", s.Run, o, err)
		}
		c.drive()
	}
}
