package model

// plan is what one record may hold: an event, or two folded.
type plan struct {
	events [2]event
	n      int
}

func (p *plan) all() []event { return p.events[:p.n] }

// fold looks at what the lane has in hand, messages and handlers' outcomes,
// and appends it as one record, in every way it may be chosen.
func (m *Model) fold(s *State, i int, d *record) {
	l := &s.lanes[i]
	if m.set.Flaw != TrustOldCopy && m.set.Flaw != NoForcedRead {
		for x := range l.held.each {
			if !m.reaches(d, x) {
				m.readHistory(s, i)
				return
			}
		}
	}
	must, ok := m.gather(s, i, d)
	if !ok {
		return
	}
	m.planEvents(l, d)
	m.planLetGo(s, i, d)
	if !must || len(m.plans) == 0 {
		n := *s
		n.lanes[i].phase = phaseStart
		m.emit(&n, false, Step{"w{w} has nothing to append to record {a}", uint8(i), l.rec, 0})
	}
	for p := range m.plans {
		if !m.append(s, i, d, &m.plans[p]) {
			return
		}
	}
}

// readHistory is the answer to a copy that is older than what the lane holds.
func (m *Model) readHistory(s *State, i int) {
	n := *s
	m.reload(&n, i)
	m.emit(&n, false, Step{"w{w} has an older copy than it needs: reads HISTORY", uint8(i), 0, 0})
	m.repair(&n, i, n.lanes[i].rec)
}

// gather collects the events at hand. It reports whether one of them comes
// from a message, and false if the turn went elsewhere.
func (m *Model) gather(s *State, i int, d *record) (must, ok bool) {
	l := &s.lanes[i]
	m.events = m.events[:0]
	for x := range l.held.each {
		var e event
		switch {
		case x == msgStart, x == msgStartAgain && l.held&msgStart == 0:
			e.kind = evStart
		case x == msgSignal:
			e.kind = evSignal
		case x == msgResume:
			if s.lanes[1-i].flags&fresh != 0 && m.set.Flaw != ResumeFresh {
				continue // somebody may be about to call what was inline
			}
			e.kind = evResume
		case x == msgDue:
			e.kind = evDue
		default:
			continue
		}
		seen := x != msgDue && m.applied(d, x) || x == msgDue && d.place[retried] != retry
		if !seen {
			m.events = append(m.events, e)
		}
	}
	must = len(m.events) > 0
	for k := range maxEffects {
		if l.run[k] != 0 && !m.gatherOutcome(s, i, d, k) {
			return must, false
		}
	}
	return must, true
}

// gatherOutcome adds the outcome of a handler of ours. It is kept if the
// effect is open in the loaded record, in whatever place; dropped if that
// is over; and a record that does not know the effect is too old.
func (m *Model) gatherOutcome(s *State, i int, d *record, k int) bool {
	l := &s.lanes[i]
	blind := m.set.Flaw == NoPendingCheck && d.start
	if d.place[k] == unasked && !blind && m.set.Flaw != TakeOlderCopy {
		m.readHistory(s, i)
		return false
	}
	if !d.place[k].open() && !blind {
		m.dropOutcome(s, i, k)
		return false
	}
	e := event{kind: evResult, effect: uint8(k), value: l.run[k].value(), attempt: l.run[k].attempt()}
	e.zombie = m.set.Flaw == ZombieKeepsWake && d.converts.has(k) && l.held&effectMessages(k) == 0
	e.heldWake = l.held&msgSignal != 0 && k == 0 &&
		(m.set.Flaw == WakeOfHeldInline || m.set.Flaw == WakeOfHeld && d.place[0] == queued)
	m.events = append(m.events, e)
	if k != retried || m.set.Budget[Failure] == 0 {
		return true
	}
	fail := event{kind: evFailure, attempt: l.run[k].attempt()}
	if m.fits(d, fail) {
		if s.spent[Failure] < m.set.Budget[Failure] {
			m.events = append(m.events, fail)
		}
	} else {
		m.dropOutcome(s, i, k) // a failure of an attempt that is over
	}
	return true
}

func (m *Model) dropOutcome(s *State, i, k int) {
	n := *s
	attemptOver := k == retried && s.lanes[i].run[k].attempt() < m.hist.last(s.head).failures
	if attemptOver && n.clean[k] == holderOf(i) {
		n.clean[k] = nobody // the next attempt's starts are others
	}
	n.lanes[i].run[k] = 0
	n.release(k, i)
	m.emit(&n, false, Step{"w{w} drops what it has of e{a}: not pending", uint8(i), uint8(k + 1), 0})
}

// planEvents lists the records that may be made of the events at hand: one,
// or two in either order, each event checked against the state it meets.
func (m *Model) planEvents(l *lane, d *record) {
	m.plans = m.plans[:0]
	for x, e := range m.events {
		if !m.fits(d, e) {
			continue
		}
		for _, first := range m.placements(l, e) {
			m.plans = append(m.plans, plan{[2]event{first}, 1})
			if !m.set.Fold {
				continue
			}
			met := *d
			m.apply(&met, first)
			for y, f := range m.events {
				same := f.kind >= evResult && f.kind <= evFailure && e.kind >= evResult && e.kind <= evFailure && f.effect == e.effect
				fits := m.fits(&met, f) || m.set.Flaw == FoldOnLoaded && m.fits(d, f)
				resumed := m.set.Signal == PausingSignal && e.kind == evSignal && f.kind == evResume
				if x == y || same || resumed || !fits {
					continue
				}
				for _, second := range m.placements(l, f) {
					m.plans = append(m.plans, plan{[2]event{first, second}, 2})
				}
			}
		}
	}
}

// placements returns the event as it may ask for what follows: inline or
// queued, at will where the setting is mixed, queued in a drain.
func (m *Model) placements(l *lane, e event) []event {
	q := e
	q.queued = true
	switch {
	case !m.follows(e):
		return []event{e}
	case l.flags&draining != 0 && m.set.Flaw != DrainAcks:
		return []event{q}
	case m.set.Mixed:
		return []event{e, q}
	}
	return []event{e}
}

// follows reports whether the event asks for an effect.
func (m *Model) follows(e event) bool {
	switch e.kind {
	case evStart:
		return true
	case evSignal:
		return m.set.Signal.asks()
	case evResult:
		return int(e.effect)+1 < m.set.Steps || m.set.Signal == UnwindingSignal && e.effect < 2
	case evFailure:
		return m.set.Signal == UnwindingSignal && e.attempt+1 == maxAttempts
	}
	return false
}

// planLetGo adds the record that turns inline effects into queued ones: of
// messages held here, not at work here, and older than G.
func (m *Model) planLetGo(s *State, i int, d *record) {
	l := &s.lanes[i]
	if l.flags&draining == 0 && s.spent[LetGo] >= m.set.Budget[LetGo] || m.set.Flaw == DrainAcks {
		return
	}
	if s.lanes[1-i].flags&fresh != 0 && m.set.Flaw != LetGoFresh {
		return
	}
	var convert effects
	for k := range maxEffects {
		if l.run[k] == 0 && m.wakes(l, d, k) {
			convert |= only(k)
		}
	}
	if convert != 0 {
		m.plans = append(m.plans, plan{[2]event{{kind: evConvert, convert: convert}}, 1})
	}
}

// append sends one record with the loaded sequence as expectation. It
// reports false if that was refused, which the plan has no part in.
func (m *Model) append(s *State, i int, d *record, p *plan) bool {
	l := &s.lanes[i]
	n := *s
	switch p.events[0].kind {
	case evConvert:
		if l.flags&draining == 0 {
			n.spent[LetGo]++
		}
	}
	for _, e := range p.all() {
		if e.kind == evFailure {
			n.spent[Failure]++
		}
	}
	if m.set.Flaw == CallBeforeRecord {
		m.callEarly(&n, i, d, p)
	}
	stale := l.rec != m.hist.seq(s.head)
	if stale && m.set.Flaw != NoExpectation {
		n.spent = s.spent
		m.refused(&n, i)
		return false
	}
	r := d.blank()
	for _, e := range p.all() {
		m.apply(&r, e)
	}
	if stale {
		r.broken = Chain
	}
	id := m.hist.append(s.head, r)
	if late := *s; s.inflight == 0 && !stale && m.spend(&late, Late) {
		late.spent[LetGo], late.spent[Failure] = n.spent[LetGo], n.spent[Failure]
		late.inflight, late.sent = id, holderOf(i)
		m.reload(&late, i)
		m.emit(&late, true, Step{"w{w} sends record {a}, no answer, reads HISTORY: unchanged", uint8(i), m.hist.seq(id), 0})
	}
	m.land(&n, id, holderOf(i))
	nl := &n.lanes[i]
	for _, e := range p.all() {
		if e.kind == evResult || e.kind == evFailure {
			nl.run[e.effect] = 0
		}
	}
	lost := n
	m.reload(&lost, i)
	m.emit(&lost, true, Step{"w{w} appends record {a}, its PubAck is lost, reads HISTORY", uint8(i), m.hist.seq(id), 0})
	nl.phase, nl.rec, nl.save = phaseAtOnce, m.hist.seq(id), m.hist.seq(id)
	nl.flags = nl.flags&draining | fresh
	for k := range maxEffects {
		if n.claim[k] == holderOf(i) && nl.run[k] == 0 {
			nl.done |= only(k)
		}
	}
	m.emit(&n, false, Step{"w{w} appends record {a}: {p}", uint8(i), m.hist.seq(id), p.code()})
	return true
}

// refused goes on after somebody else's record: never an ack because of it.
func (m *Model) refused(n *State, i int) {
	l := &n.lanes[i]
	last := m.hist.seq(n.head)
	if m.set.Flaw == LoserAcks {
		for x := range l.held.each {
			if m.applied(m.hist.last(n.head), x) {
				n.ack(i, x)
			}
		}
	}
	if m.set.StaleReads && last > 1 && last-1 >= l.rec {
		o := *n
		m.reload(&o, i)
		o.lanes[i].rec = last - 1
		m.emit(&o, false, Step{"w{w} is refused, loads record {a}, stale", uint8(i), last - 1, 0})
	}
	m.reload(n, i)
	m.emit(n, false, Step{"w{w} is refused, loads record {a}", uint8(i), last, 0})
}

// callEarly is the flaw of calling the next effect before its record is
// acknowledged.
func (m *Model) callEarly(n *State, i int, d *record, p *plan) {
	for _, e := range p.all() {
		if e.kind == evResult && e.effect == 0 && m.set.Steps > 1 && n.lanes[i].run[1] == 0 {
			n.claim[1] = holderOf(i)
			m.called(n, i, 1, d, e.value)
		}
	}
}
