package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/pawlrun/pawl/statemachine"
)

// place is what two runs have in common: the n-th visit of a state.
type place struct {
	state string
	visit int
}

// visit is what the records of a run tell of one visit of a state, however they
// were folded: with which data it began, what was asked and what happened there,
// and where the run went.
type visit struct {
	place
	rev  uint64               // of the record by which the state was entered
	data json.RawMessage      // with which it was
	to   string               // the state after it; "" if the run is there
	last *statemachine.Stored // of the run, if it is there

	asked []asked
	came  []happening
	added map[string][]json.RawMessage // to logs
}

// asked is an effect that a visit asked for.
type asked struct {
	label string
	p     *statemachine.Pending
}

// happening is an event of a visit.
type happening struct {
	label string
	e     *statemachine.Event
}

// side is a run that is compared, from a revision on.
type side struct {
	answers *Answers
	last    *statemachine.Stored // when the comparison began
	from    uint64
}

// visits yields the visits of the run in their order, up to the last record that
// there was when the comparison began.
func (s *side) visits(ctx context.Context) iter.Seq2[*visit, error] {
	return func(yield func(*visit, error) bool) {
		var v *visit
		labels := map[string]string{} // of the effects that are pending, by id
		for r, err := range s.answers.Log.Read(ctx, s.last.Run, 0) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case r.Rev < s.from:
				continue
			case r.Rev > s.last.Rev:
				return
			}
			first := v == nil
			if first && r.Rev > s.from {
				yield(nil, fmt.Errorf("run %q: its first records are gone: the oldest is revision %d", s.last.Run, r.Rev))
				return
			}
			at := place{r.Frames[0].State, r.Frames[0].Visit}
			if first {
				v = begin(at, r)
			}
			if !first || s.from == 1 { // what a fork begins with came about before
				v.happened(r, labels)
			}
			if at != v.place {
				v.to = at.state
				if !yield(v, nil) {
					return
				}
				v = begin(at, r)
			}
			labels = v.asks(r, labels)
			v.last = r
		}
		if v != nil {
			yield(v, nil)
		}
	}
}

func begin(at place, r *statemachine.Stored) *visit {
	return &visit{place: at, rev: r.Rev, data: r.Data, added: map[string][]json.RawMessage{}}
}

// happened takes what a record tells of what came before it. How an effect was
// performed is no matter: by whom it was, and when.
func (v *visit) happened(r *statemachine.Stored, labels map[string]string) {
	for i := range r.Events {
		e := &r.Events[i]
		label, ofEffect := labels[e.Effect]
		switch e.Kind {
		case statemachine.EventStart, statemachine.EventFork, statemachine.EventQueue, statemachine.EventBeat:
			continue
		case statemachine.EventDue:
			if ofEffect {
				continue // the wait before its next try
			}
		}
		if !ofEffect {
			label = e.Name
		}
		v.came = append(v.came, happening{trimmed(string(e.Kind), label), e})
	}
	for name, items := range r.Adds {
		v.added[name] = append(v.added[name], items...)
	}
}

// asks takes what a record asks for that was not pending before, and returns
// what is pending now.
func (v *visit) asks(r *statemachine.Stored, before map[string]string) map[string]string {
	now := make(map[string]string, len(r.Pending))
	for i := range r.Pending {
		p := &r.Pending[i]
		label, was := before[p.ID]
		if !was {
			label = p.Effect
			if p.Undoes != "" {
				label = "undo " + label
			}
			if p.Item > 0 {
				label = fmt.Sprintf("%s #%d", label, p.Item)
			}
			v.asked = append(v.asked, asked{label, p})
		}
		now[p.ID] = label
	}
	return now
}

func trimmed(kind, name string) string {
	if name == "" {
		return kind
	}
	return kind + " " + name
}
