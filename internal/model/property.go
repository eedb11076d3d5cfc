package model

// Property is what a search looks for in every state it meets.
type Property uint8

// The properties. None means that a state violates nothing.
const (
	None Property = iota
	// Chain: HISTORY is one chain, each event is applied once, an outcome
	// only to a pending effect and an attempt's failure once.
	Chain
	// Lost: an acked message is in the chain.
	Lost
	// Wake: if both workers and Redis vanished now, an unacked message would
	// still finish everything pending. The sweeper is not counted.
	Wake
	// Key: one key has one fingerprint.
	Key
	// Window: of two starts of one attempt at least one lost its claim, or its
	// worker, between taking the claim and the record.
	Window
	// TooLate: nobody starts an attempt under a claim taken after its outcome
	// was durable.
	TooLate
	// Cancel: a cancelled effect, or one that is undone, is not started, with its
	// claim intact, after what takes it back has started.
	Cancel
	// Stuck: from every state, completion can be reached without more faults.
	Stuck
	// Intent: no effect is performed before the record asking for it is in
	// the chain (group commit).
	Intent
	properties
)

func (p Property) String() string {
	return [...]string{"none", "CHAIN", "LOST", "WAKE", "KEY", "WINDOW", "LATE", "CANCEL", "STUCK", "INTENT"}[p]
}

// verdict returns the property a state violates, or None.
func (m *Model) verdict(s *State) Property {
	last := m.hist.last(s.head)
	starts := s.published & (msgStart | msgStartAgain)
	switch {
	case s.broken != None:
		return s.broken
	case last.broken != None:
		return last.broken
	case starts != 0 && s.unacked()&starts == 0 && !last.start:
		return Lost
	case s.acked&msgSignal != 0 && !last.signal:
		return Lost
	case s.acked&msgResume != 0 && !last.resumed:
		return Lost
	}
	for k := range maxEffects {
		if !m.hasTrigger(s, last, k) {
			return Wake
		}
	}
	return None
}

// hasTrigger reports whether a durable message will make somebody go on with
// effect k. Of a message that stands in the last outbox only the first
// publication counts as still to come: a later one may be swallowed as a
// duplicate.
func (m *Model) hasTrigger(s *State, last *record, k int) bool {
	unacked := s.unacked()
	var x, there messages
	switch last.place[k] {
	case inline:
		there = last.wake[k].carriers(m.set.Flaw)
		x = there
	case queued:
		x, there = last.asking(k), effectMessages(k)
	case retry:
		x, there = msgDue, msgDue
	default:
		return true
	}
	toCome := last.outbox&x&^s.published != 0 && unacked != 0
	return unacked&there != 0 || toCome
}

// complete reports whether everything is applied, acked and at rest.
func (m *Model) complete(s *State) bool {
	last := m.hist.last(s.head)
	idle := s.lanes == [workers]lane{} && s.inflight == 0
	signalled := last.signal || m.set.Signal == NoSignal
	resumed := last.resumed || m.set.Signal != PausingSignal
	return s.unacked() == 0 && idle && last.start && signalled && resumed && !last.pending()
}
