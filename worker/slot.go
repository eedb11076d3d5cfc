package worker

import (
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// slot is what a lane has in hand of one run: a copy of its last record,
// messages, and handlers under way. It lives as long as it holds any of them.
type slot struct {
	run string

	known   bool                 // state was loaded: nil then means "no record yet"
	assumed bool                 // … but it was not read: nothing is judged by it, only appended on it
	state   *statemachine.Stored // the newest record this lane has seen
	flushed string               // txid of the record whose outbox is known to be published
	sent    time.Time            // when the append of state was sent, if this lane did
	history bool                 // the next load must read HISTORY
	read    bool                 // in this turn HISTORY was read, from the leader
	behind  bool                 // HISTORY's leader knows less of the run than its copy does
	strange error                // why the run cannot be worked on here: its format or machine is unknown

	held    []*held
	running map[string]*call // by effect id
	results []*result

	sealed  *sealing      // chunk stored and not yet part of a record
	fold    *folded       // this round's record
	again   bool          // another round is needed
	due     time.Time     // when to look again, if nothing else wakes the run
	waiting time.Duration // how long others want to be left alone
}

// held is a message in hand.
type held struct {
	m       queue.Message
	gate    *gate               // what it counts against
	event   *statemachine.Event // what it tells the run; nil for an effect's message
	wake    string              // it resumes inline effects with this wake; "" if none
	since   time.Time           // when this worker first received it
	beat    time.Time           // when it was received or last prolonged
	failure error               // result, due: what its failure is
	known   bool                // start: the run has taken it, or one like it
	kept    time.Time           // effect: it is held until then, though nobody performs it: it waits for its turn
	spent   bool                // nothing of it is left to do: a letter or a postponed copy is stored
}

// begins reports whether the message makes a run.
func (h *held) begins() bool {
	return h.event != nil && (h.event.Kind == statemachine.EventStart || h.event.Kind == statemachine.EventFork)
}

// call is a handler under way.
type call struct {
	pending statemachine.Pending
	over    atomic.Int64 // its deadline in ns since 1970; no beats after it
	again   bool         // it may have been begun before: its message was delivered before
	noted   bool         // the ledger has an entry of it that nobody needs once it is answered
}

// result is what a handler came back with.
type result struct {
	call    *call
	body    []byte
	err     error
	class   string // of err
	dropped bool   // interrupted by a stop: it was no attempt

	recorded bool // it is what came of the effect in the run that this one is a fork of
}

// fail turns a result that the run cannot take into a failure. It is final:
// the effect was performed, and doing it again would not mend its result.
func (r *result) fail(err error) {
	r.class, r.body = statemachine.ClassOf(err), nil
	r.err = statemachine.Terminal(r.class, err)
}

// folded is a record under way.
type folded struct {
	sealed  *statemachine.Sealed
	results []*result // applied by it
	held    []*held   // messages whose events are applied by it
	more    bool      // something is left for another record
	claims  []string  // inline effects it asks that are started here
	release []string  // effects it answers
}

// events is how many events the record applies, but for those of letting go.
func (f *folded) events() int { return len(f.results) + len(f.held) }

// sealing is a chunk of a log that the next record will refer to.
type sealing struct {
	log   string
	head  string
	first int // index of its first item
	count int // items of the log that are sealed with it
}

// empty reports whether nothing of the run is in hand any more.
func (s *slot) empty() bool {
	return len(s.held) == 0 && len(s.running) == 0 && len(s.results) == 0
}

// pending returns a pending effect of the state, or nil.
func (s *slot) pending(id string) *statemachine.Pending {
	if s.state == nil {
		return nil
	}
	for i := range s.state.Pending {
		if s.state.Pending[i].ID == id {
			return &s.state.Pending[i]
		}
	}
	return nil
}

// dueAt returns when the timer of an effect or a wait is due, or nil.
func (s *slot) dueAt(id string) *time.Time {
	if p := s.pending(id); p != nil {
		return p.RetryAt
	}
	for i := range s.state.Waits {
		if w := &s.state.Waits[i]; w.ID == id {
			return w.Due
		}
	}
	return nil
}

// nextStart returns the first start in hand that is not dealt with, or nil.
func (s *slot) nextStart() *held {
	for _, h := range s.held {
		if h.begins() && !h.spent {
			return h
		}
	}
	return nil
}

// holder returns a message in hand that has this wake, or nil.
func (s *slot) holder(wake string) *held {
	for _, h := range s.held {
		if h.wake == wake && !h.spent {
			return h
		}
	}
	return nil
}

// asks reports whether an effect is asked by the lane's own last record.
func (s *slot) asks(p *statemachine.Pending) bool {
	return !s.sent.IsZero() && p.Rev == s.state.Rev
}

// isFlushed reports whether the state's outbox is known to be published. An
// empty one needs neither flush nor hint.
func (s *slot) isFlushed() bool {
	return s.state == nil || len(s.state.Outbox) == 0 || s.flushed == s.state.Txid
}

// see takes a newer record as the state. A lane never goes back to a copy
// older than it has seen.
func (s *slot) see(r *statemachine.Stored, sent time.Time) bool {
	if s.state != nil && (r == nil || r.Seq < s.state.Seq) {
		return false
	}
	if s.state != nil && r.Seq == s.state.Seq {
		if !r.Time.IsZero() {
			s.state.Time = r.Time
		}
		return true
	}
	s.state, s.known, s.assumed, s.sent = r, true, false, sent
	return true
}

// take adds a message, or the newer delivery of one already in hand; it
// reports whether it was new.
func (s *slot) take(h *held) bool {
	for _, o := range s.held {
		if o.m.Kind == h.m.Kind && o.m.Seq == h.m.Seq && o.m.Subject == h.m.Subject {
			o.m.Delivery, o.m.Delivered, o.beat = h.m.Delivery, h.m.Delivered, h.beat
			return false
		}
	}
	s.held = append(s.held, h)
	return true
}

// mayAck reports whether a message may be acked on this state. Both halves
// are facts that stay true, so even an old copy may say so; below asked
// neither is, and the copy has no say.
func (s *slot) mayAck(h *held) bool {
	if h.spent {
		return true
	}
	if s.state == nil || !s.isFlushed() {
		return false
	}
	if h.m.Asked > s.state.Seq {
		return false
	}
	if h.event != nil && !s.applied(h) {
		return false
	}
	if h.m.Kind == queue.Effect {
		if p := s.pending(h.m.ID); p != nil && (p.Place == statemachine.Queued || p.Place == statemachine.Inline) {
			return false
		}
	}
	if h.wake != "" {
		for i := range s.state.Pending {
			if p := &s.state.Pending[i]; p.Place == statemachine.Inline && p.Wake == h.wake {
				return false
			}
		}
	}
	return true
}

// applied reports whether nothing of a message's event is left to apply to
// the state.
func (s *slot) applied(h *held) bool {
	switch e := h.event; e.Kind {
	case statemachine.EventStart, statemachine.EventFork:
		return h.known // the run may exist by another start: that one is refused, not acked
	case statemachine.EventDue:
		p := s.pending(e.Effect)
		if s.state.WaitsFor(e.Effect, e.Try) {
			return false
		}
		return p == nil || p.Place != statemachine.Retry || p.Try != e.Try
	case statemachine.EventChild: // another try is another run, and a run with a given id ends once
		p := s.pending(e.Effect)
		return p == nil || p.Child == nil || p.Child.Run != e.Name
	case statemachine.EventBeat:
		p := s.pending(e.Effect)
		return p == nil || !p.Accepted() || e.RetryAt != nil && !e.RetryAt.After(*p.RetryAt)
	default: // signals, commands and callbacks
		return contains(s.state.Applied, e.ID)
	}
}

// calls yields the handlers under way, and those whose results are in hand.
func (s *slot) calls(yield func(*call) bool) {
	for _, c := range s.running {
		if !yield(c) {
			return
		}
	}
	for _, r := range s.results {
		if !yield(r.call) {
			return
		}
	}
}

// serves reports whether a call is done on behalf of a message.
func (c *call) serves(h *held) bool {
	return h.wake != "" && c.pending.Wake == h.wake || h.m.Kind == queue.Effect && c.pending.ID == h.m.ID
}
