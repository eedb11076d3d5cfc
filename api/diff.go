package api

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// DiffQuery asks how two runs of a machine differ.
type DiffQuery struct {
	A     string `json:"a"`
	B     string `json:"b"`
	Limit int    `json:"limit,omitempty"` // differences, at most MaxPage; default 100
}

// Diff tells how two runs of a machine differ: what they were about, which way
// they went, what they asked for and what came of it. Ids, times, workers and
// the way an effect was performed are never the same, and do not count.
type Diff struct {
	A           Compared     `json:"a"`
	B           Compared     `json:"b"`
	Same        bool         `json:"same"`
	Differences []Difference `json:"differences"`    // in the order of the runs; how they part is said first
	More        bool         `json:"more,omitempty"` // there are others
}

// Compared is a run that is compared with another.
type Compared struct {
	ID       string              `json:"id"`
	Machine  string              `json:"machine"`
	Version  int                 `json:"version"`
	Status   statemachine.Status `json:"status"`
	State    string              `json:"state"`
	From     uint64              `json:"from"` // the revision with which the comparison begins: where the other was forked, or the first
	Revision uint64              `json:"revision"`
	Origin   *Origin             `json:"origin,omitempty"` // of a fork
}

// Difference is something that is not the same in two runs. They are compared
// visit by visit: the third time that one was in a state with the third time
// that the other was.
type Difference struct {
	State string `json:"state"`
	Visit int    `json:"visit"`
	RevA  uint64 `json:"revision_a,omitempty"` // by which the state was entered; 0: it was not
	RevB  uint64 `json:"revision_b,omitempty"`
	// What differs: visit (only one was there), to (where the run went), data, log
	// and its name, asked and an effect, an event and its name, status or error.
	What  string `json:"what"`
	Field string `json:"field,omitempty"` // of that, such as "customer.name"
	A     string `json:"a"`               // JSON, "" if it is not there
	B     string `json:"b"`
}

// Comparison is two runs of a machine, as they were when it began.
type Comparison struct {
	A, B Compared
	a, b side
}

// MaxCompared is how many records the runs may have that Server.diff compares.
const MaxCompared = 10_000

// diff answers the first differences.
func (s *Server) diff(ctx context.Context, q *DiffQuery) (*Diff, error) {
	var f faults
	for i, id := range []string{q.A, q.B} {
		if err := queue.CheckRun(id); err != nil {
			f.addf("%c: %s", "ab"[i], err)
		}
	}
	f.limit(&q.Limit, 100)
	if err := f.err(); err != nil {
		return nil, err
	}
	c, err := s.answers.Compare(ctx, q.A, q.B)
	if err != nil {
		return nil, err
	}
	if n := c.A.Revision - c.A.From + c.B.Revision - c.B.From; n > MaxCompared {
		return nil, errorf(ClassTooLarge, "the runs have %d records, over %d: pawl run diff compares them", n, MaxCompared)
	}
	return c.Diff(ctx, q.Limit, MaxAnswer-slack)
}

// Diff gathers the first differences: at most so many and of so many bytes, unless that is 0.
// Long values are shortened.
func (c *Comparison) Diff(ctx context.Context, limit, most int) (*Diff, error) {
	d := &Diff{A: c.A, B: c.B, Same: true, Differences: []Difference{}}
	size := 0
	for one, err := range c.Differences(ctx) {
		if err != nil {
			return nil, err
		}
		d.Same = false
		for _, v := range []*string{&one.A, &one.B} {
			if len(*v) > mostChange {
				*v = strings.ToValidUTF8((*v)[:mostChange], "") + "…"
			}
		}
		b, err := encode(one)
		if err != nil {
			return nil, err
		}
		if size += len(b) + len(","); limit > 0 && len(d.Differences) == limit || most > 0 && size > most {
			d.More = true
			break
		}
		d.Differences = append(d.Differences, *one)
	}
	return d, nil
}

// Compare prepares a comparison. A fork and its original are compared from where
// it was forked; ErrNotFound is returned for a run that does not exist.
func (a *Answers) Compare(ctx context.Context, idA, idB string) (*Comparison, error) {
	if idA == idB {
		return nil, badf("%s is one run: two are compared", quoted(idA))
	}
	var sides [2]side
	for i, id := range []string{idA, idB} {
		last, err := a.Log.Look(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case last == nil:
			return nil, notFound(id)
		case last.Tomb != nil:
			return nil, errorf(ClassConflict, "run %s: its records were removed, only the last is left", quoted(id))
		}
		sides[i] = side{answers: a, last: last, from: 1}
	}
	c := &Comparison{a: sides[0], b: sides[1]}
	ra, rb := c.a.last, c.b.last
	if ra.Machine != rb.Machine {
		return nil, badf("run %s is of machine %s, and %s of %s: only runs of one machine are compared",
			quoted(idA), ra.Machine, quoted(idB), rb.Machine)
	}
	switch {
	case rb.Origin != nil && rb.Origin.Run == ra.Run:
		c.a.from = rb.Origin.Rev
	case ra.Origin != nil && ra.Origin.Run == rb.Run:
		c.b.from = ra.Origin.Rev
	}
	c.A, c.B = c.a.compared(), c.b.compared()
	return c, nil
}

func (s *side) compared() Compared {
	r := s.last
	return Compared{
		ID: r.Run, Machine: r.Machine, Version: r.Version, Status: r.Status, State: r.To, From: s.from, Revision: r.Rev, Origin: originOf(r.Origin),
	}
}

// Differences yields what differs, in the order of the runs. It reads both
// twice, and holds no more of them than a visit of each.
func (c *Comparison) Differences(ctx context.Context) iter.Seq2[*Difference, error] {
	return func(yield func(*Difference, error) bool) {
		var ahead [2]map[place]bool // where each will be
		for i, s := range []*side{&c.a, &c.b} {
			ahead[i] = map[place]bool{}
			for v, err := range s.visits(ctx) {
				if err != nil {
					yield(nil, err)
					return
				}
				ahead[i][v.place] = true
			}
		}
		nextA, stopA := iter.Pull2(c.a.visits(ctx))
		defer stopA()
		nextB, stopB := iter.Pull2(c.b.visits(ctx))
		defer stopB()
		w := &differ{c: c, ctx: ctx, yield: yield}
		a, errA, _ := nextA()
		b, errB, _ := nextB()
		for errA == nil && errB == nil && !w.done && (a != nil || b != nil) {
			stepA, stepB := false, false
			switch {
			case a != nil && b != nil && a.place == b.place:
				w.both(a, b)
				stepA, stepB = true, true
			case b == nil || a != nil && !ahead[1][a.place]:
				w.only(a, nil)
				stepA = true
			default:
				w.only(nil, b)
				stepB = true
			}
			if stepA {
				delete(ahead[0], a.place)
				a, errA, _ = nextA()
			}
			if stepB {
				delete(ahead[1], b.place)
				b, errB, _ = nextB()
			}
		}
		for _, err := range []error{errA, errB} {
			if err != nil && !w.done {
				yield(nil, err)
				return
			}
		}
	}
}

// differ yields what differs between visits.
type differ struct {
	c     *Comparison
	ctx   context.Context
	yield func(*Difference, error) bool
	done  bool // nobody wants more
	at    Difference
	data  map[string][2]string // how the data differed at the visit before
}

func (w *differ) say(what, field string, a, b json.RawMessage) bool {
	if w.done {
		return false
	}
	d := w.at
	d.What, d.Field, d.A, d.B = what, field, string(a), string(b)
	w.done = !w.yield(&d, nil)
	return !w.done
}

// only is a visit of one of the runs.
func (w *differ) only(a, b *visit) {
	yes := json.RawMessage("true")
	if a != nil {
		w.at = Difference{State: a.state, Visit: a.visit, RevA: a.rev}
		w.say("visit", "", yes, nil)
		return
	}
	w.at = Difference{State: b.state, Visit: b.visit, RevB: b.rev}
	w.say("visit", "", nil, yes)
}

// both is a visit that there was in both of the runs.
func (w *differ) both(a, b *visit) {
	w.at = Difference{State: a.state, Visit: a.visit, RevA: a.rev, RevB: b.rev}
	if a.to == "" && b.to == "" { // both are here: what came of them while they were counts, too
		w.changed(a.last.Data, b.last.Data)
	} else {
		w.changed(a.data, b.data)
	}
	w.askedFor(a, b)
	w.happened(a, b)
	names := maps.Clone(a.added)
	maps.Copy(names, b.added)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		w.values("log "+name, array(a.added[name]), array(b.added[name]))
	}
	if a.to != b.to {
		w.say("to", "", text(a.to), text(b.to))
	}
	if a.to == "" && b.to == "" {
		w.values("status", text(string(a.last.Status)), text(string(b.last.Status)))
		w.values("error", causeOf(a.last.Cause), causeOf(b.last.Cause))
	}
}

// changed compares the data; what has differed in the same way before is not
// said again.
func (w *differ) changed(a, b json.RawMessage) {
	was := w.data
	w.data = map[string][2]string{}
	statemachine.DiffJSON("", a, b, func(path string, a, b json.RawMessage) bool {
		now := [2]string{string(a), string(b)}
		w.data[path] = now
		return was[path] == now || w.say("data", path, a, b)
	})
}

// askedFor compares the effects that were asked for, each with that of the same
// name. Business keys of a fork are its own.
func (w *differ) askedFor(a, b *visit) {
	forked := w.c.A.Origin != nil || w.c.B.Origin != nil
	pair(a.asked, b.asked, func(x asked) string { return x.label }, func(label string, x, y *asked) {
		what := "asked " + label
		switch {
		case y == nil:
			w.say(what, "", x.p.Input, nil)
		case x == nil:
			w.say(what, "", nil, y.p.Input)
		default:
			if x.p.Print != y.p.Print {
				w.values(what, x.p.Input, y.p.Input)
			}
			if x.p.Key != y.p.Key && !forked {
				w.say(what+": key", "", text(x.p.Key), text(y.p.Key))
			}
		}
	})
}

// happened compares events, each with that of the same name.
func (w *differ) happened(a, b *visit) {
	pair(a.came, b.came, func(x happening) string { return x.label }, func(label string, x, y *happening) {
		switch {
		case y == nil:
			w.say(label, "", x.said(), nil)
		case x == nil:
			w.say(label, "", nil, y.said())
		default:
			w.values(label, x.said(), y.said())
		}
	})
}

// said is what an event has to say: a result, a payload, or why something
// failed.
func (h *happening) said() json.RawMessage {
	switch {
	case h.e.Cause != nil:
		return causeOf(h.e.Cause)
	case h.e.Body != nil:
		return h.e.Body
	}
	return json.RawMessage("null")
}

// values compares two values, those that lie in blobs included.
func (w *differ) values(what string, a, b json.RawMessage) {
	if string(a) == string(b) || w.done {
		return
	}
	a, errA := w.c.a.whole(w.ctx, a)
	b, errB := w.c.b.whole(w.ctx, b)
	for _, err := range []error{errA, errB} {
		if err != nil {
			w.done = true
			w.yield(nil, err)
			return
		}
	}
	statemachine.DiffJSON("", a, b, func(path string, a, b json.RawMessage) bool { return w.say(what, path, a, b) })
}

// whole reads a value that lies in a blob.
func (s *side) whole(ctx context.Context, v json.RawMessage) (json.RawMessage, error) {
	ref, ok := statemachine.AsBlobRef(v)
	if !ok {
		return v, nil
	}
	return s.answers.Blobs.Get(ctx, s.last.Run, ref.Hash)
}

// pair calls f for the things of two lists that have a name in common, the first
// of a name with the first, and for those that have none in the other. It goes by
// the order of the first list, and ends with what only the second has.
func pair[T any](a, b []T, name func(T) string, f func(name string, x, y *T)) {
	left := map[string][]*T{}
	for i := range b {
		left[name(b[i])] = append(left[name(b[i])], &b[i])
	}
	taken := map[*T]bool{}
	for i := range a {
		n := name(a[i])
		var y *T
		if of := left[n]; len(of) > 0 {
			y, left[n] = of[0], of[1:]
			taken[y] = true
		}
		f(n, &a[i], y)
	}
	for i := range b {
		if !taken[&b[i]] {
			f(name(b[i]), nil, &b[i])
		}
	}
}

func text(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	b, _ := json.Marshal(s) // a string always has a form
	return b
}

func array(items []json.RawMessage) json.RawMessage {
	if len(items) == 0 {
		return nil
	}
	b, _ := json.Marshal(items) // they come from JSON
	return b
}

func causeOf(c *statemachine.Cause) json.RawMessage {
	if c == nil {
		return nil
	}
	b, _ := json.Marshal(map[string]string{"class": c.Class, "message": c.Message})
	return b
}
