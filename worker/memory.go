package worker

import (
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// mostRemembered bounds, in bytes of records, what a lane remembers.
const mostRemembered = 4 << 20

// memory holds the last records of runs whose queued effects were published a
// moment ago: often their messages come to this lane, and then nothing needs to
// be loaded. It serves only the message that the very record asks, so it is a
// copy no older than that; and before its effect is performed, HISTORY is
// looked at as ever.
type memory struct {
	runs  map[string]remembered
	order []ticket // oldest first; some are of runs that were recalled since
	last  uint64   // ticket given out last
	bytes int
}

type remembered struct {
	state   *statemachine.Stored
	flushed string
	number  uint64 // of its ticket
}

type ticket struct {
	run    string
	number uint64
}

// keep remembers the state of a slot that waits for a queued effect.
func (m *memory) keep(s *slot) {
	m.drop(s.run) // whatever it was, this is newer
	if s.state == nil || s.strange != nil || s.behind || s.history || !waitsQueued(s.state) {
		return
	}
	if m.runs == nil {
		m.runs = map[string]remembered{}
	}
	m.last++
	m.runs[s.run] = remembered{s.state, s.flushed, m.last}
	m.order = append(m.order, ticket{s.run, m.last})
	m.bytes += len(s.state.Bytes)
	for m.bytes > mostRemembered || len(m.order) > 2*len(m.runs)+16 {
		oldest := m.order[0]
		m.order = m.order[1:]
		if m.runs[oldest.run].number == oldest.number {
			m.drop(oldest.run)
		}
	}
}

// recall gives a new slot what is remembered of its run, if that is what its
// message asks for. Anything else that moves a run makes the memory old.
func (m *memory) recall(s *slot, h *held) {
	r, ok := m.runs[s.run]
	if !ok {
		return
	}
	m.drop(s.run)
	if h.m.Kind == queue.Effect && h.m.Asked == r.state.Seq {
		s.state, s.flushed, s.known = r.state, r.flushed, true
	}
}

func (m *memory) drop(run string) {
	if r, ok := m.runs[run]; ok {
		m.bytes -= len(r.state.Bytes)
		delete(m.runs, run)
	}
}

func waitsQueued(r *statemachine.Stored) bool {
	for i := range r.Pending {
		if r.Pending[i].Place == statemachine.Queued {
			return true
		}
	}
	return false
}
