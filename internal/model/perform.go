package model

// start resumes or passes by the pending effects the lane has a wake for.
// Whoever did not call at once, while fresh, claims first and then looks.
func (m *Model) start(s *State, i int, d *record) {
	l := &s.lanes[i]
	did := false
	for k := range maxEffects {
		if !m.startable(l, d, k) {
			continue
		}
		if k == 2 && m.set.Signal.compensates() && m.set.Flaw != CompensateAtOnce {
			open, ready := m.keysToClose(s, i, d)
			if open != 0 {
				m.closeKeys(s, i, open)
				did = true
			}
			if !ready {
				continue
			}
		}
		did = m.startOne(s, i, k, d) || did
	}
	if !did {
		n := *s
		n.lanes[i].phase = phasePublish
		m.emit(&n, false, Step{"w{w} starts nothing", uint8(i), 0, 0})
	}
}

// startable reports whether the lane may start effect k, claims aside: it is
// pending, no handler of it runs here, and its wake is held. Holding X(e)
// starts e itself while queued, and what has the wake e while inline.
func (m *Model) startable(l *lane, d *record, k int) bool {
	if l.flags&draining != 0 || l.run[k] != 0 {
		return false
	}
	if d.place[k] == queued {
		return l.held&effectMessages(k) != 0
	}
	if m.set.Flaw == ResumeLastOnly && !d.asks.has(k) {
		return false
	}
	return m.wakes(l, d, k)
}

func (m *Model) startOne(s *State, i, k int, d *record) bool {
	n := *s
	nl := &n.lanes[i]
	if nl.save != 0 {
		return false // what is on its way to Redis may release this very claim
	}
	isInline := d.place[k] == inline
	taken := s.claim[k] != nobody && m.set.Flaw != NoClaims
	tooYoung := isInline && s.lanes[1-i].flags&fresh != 0 && m.set.Flaw != NoGrace
	if taken || tooYoung || isInline && m.set.Flaw == NoResume {
		return false
	}
	if m.set.Flaw == LookThenClaim {
		last := m.hist.last(s.head)
		if last.place[k] != d.place[k] || last.failures != d.failures {
			return false
		}
		nl.at, nl.phase = uint8(k), phaseClaim
		m.emit(&n, false, Step{"w{w} looks: e{a} is pending", uint8(i), uint8(k + 1), 0})
		return true
	}
	if m.set.Flaw != NoClaims {
		n.claim[k] = holderOf(i)
	}
	m.noteLate(&n, i, k, d)
	nl.at, nl.phase = uint8(k), phaseLook
	if m.set.Flaw == NoLook {
		nl.phase = phaseCall
	}
	m.emit(&n, false, Step{"w{w} claims e{a}", uint8(i), uint8(k + 1), 0})
	return true
}

// keysToClose returns the keys of cancelled effects that are open, and
// whether the compensation may start: all of them are ours, no handler of
// them runs here, and nobody is within the fresh time of asking for them.
func (m *Model) keysToClose(s *State, i int, d *record) (open effects, ready bool) {
	if s.lanes[1-i].flags&fresh != 0 && m.set.Flaw != NoGrace {
		return 0, false
	}
	ready = true
	for k := range 2 {
		if d.place[k] != cancelled {
			continue
		}
		if s.lanes[i].run[k] != 0 {
			return 0, false
		}
		switch s.claim[k] {
		case holderOf(i):
		case nobody:
			open |= only(k)
			ready = false
		default:
			ready = false
		}
	}
	return open, ready
}

func (m *Model) closeKeys(s *State, i int, open effects) {
	n := *s
	for k := range 2 {
		if open.has(k) {
			n.claim[k] = holderOf(i)
		}
	}
	m.emit(&n, false, Step{"w{w} closes the keys of the cancelled {e}", uint8(i), 0, uint8(open)})
}

// look is the leader read between the claim and the call.
func (m *Model) look(s *State, i int, d *record) {
	k := int(s.lanes[i].at)
	last := m.hist.last(s.head)
	same := func(r *record) bool {
		return r.place[k] == d.place[k] && (k != retried || r.failures == d.failures)
	}
	n := *s
	if m.set.Flaw == StaleLook && m.hist.seq(s.head) > 1 && same(m.hist.at(s.head, m.hist.seq(s.head)-1)) {
		n := n
		n.lanes[i].phase = phaseCall
		m.emit(&n, false, Step{"w{w} looks, stale: e{a} is pending", uint8(i), uint8(k + 1), 0})
	}
	if same(last) {
		n.lanes[i].phase = phaseCall
		m.emit(&n, false, Step{"w{w} looks: e{a} is still pending", uint8(i), uint8(k + 1), 0})
		return
	}
	n.release(k, i)
	m.reload(&n, i)
	m.emit(&n, false, Step{"w{w} looks: e{a} has moved on, lets go of the claim", uint8(i), uint8(k + 1), 0})
}

// claimLate is the claim of the flaw that looks first.
func (m *Model) claimLate(s *State, i int) {
	n := *s
	l := &n.lanes[i]
	k := int(l.at)
	if s.claim[k] != nobody {
		l.phase, l.at = phasePublish, 0
		m.emit(&n, false, Step{"w{w} finds e{a} claimed", uint8(i), uint8(k + 1), 0})
		return
	}
	n.claim[k] = holderOf(i)
	m.noteLate(&n, i, k, m.hist.at(s.head, l.rec))
	l.phase = phaseCall
	m.emit(&n, false, Step{"w{w} claims e{a}", uint8(i), uint8(k + 1), 0})
}

// call starts the handler of effect k with the input the loaded record has.
func (m *Model) call(n *State, i, k int, d *record) {
	m.called(n, i, k, d, d.value)
	l := &n.lanes[i]
	l.late &^= only(k)
	l.at, l.phase = 0, phaseStart
	if m.set.Flaw == ReleaseAtReturn {
		n.release(k, i)
	}
}

// called judges a start: the world sees the effect.
func (m *Model) called(n *State, i, k int, d *record, input uint8) {
	l := &n.lanes[i]
	attempt := uint8(0)
	if k == retried {
		attempt = d.failures
	}
	last := m.hist.last(n.head)
	intact := n.claim[k] == holderOf(i) || l.owed.has(k) || m.set.Flaw == NoClaims
	earlier := n.clean[k] != nobody && (n.clean[k] != failed || attempt == 0)
	switch {
	case l.late.has(k):
		n.broken = TooLate
	case intact && earlier:
		n.broken = Window
	case intact && last.place[k] == cancelled && n.compensated, intact && k < 2 && m.set.Signal == UnwindingSignal && n.compensated:
		n.broken = Cancel
	}
	value := uint8(1)
	switch k {
	case 0:
		n.starts = min(2, n.starts+1)
		value = n.starts
	case 1:
		if n.paid != 0 && n.paid != input && n.broken == 0 {
			n.broken = Key
		}
		n.paid = input
	case 2:
		n.compensated = true
	}
	if intact {
		n.clean[k] = holderOf(i)
	}
	l.run[k] = newOutcome(value, attempt)
}

// settle acks what may be acked, one message at a time, then keeps the rest
// or gives it back. An ack is never sent because somebody else is at work.
func (m *Model) settle(s *State, i int, d *record) {
	l := &s.lanes[i]
	acked := false
	if l.save != 0 {
		return // acks come after the copy
	}
	for x := range l.held.each {
		if !m.applied(d, x) || m.blocks(s, i, d, x) {
			continue
		}
		n := *s
		n.ack(i, x)
		m.emit(&n, false, about("w{w} acks {m}", i, x))
		acked = true
		break
	}
	if !acked {
		n := *s
		n.lanes[i].rest()
		m.emit(&n, false, about("w{w} waits, keeps {m}", i, l.held))
	}
	if l.held != 0 {
		n := *s
		n.lanes[i].held = 0
		n.lanes[i].rest()
		m.emit(&n, false, about("w{w} gives {m} back, or its acks are lost", i, l.held))
	}
}

// rest ends a turn. With nothing in hand the lane forgets the run.
func (l *lane) rest() {
	l.phase = phaseIdle
	l.begin()
	if l.held == 0 && !l.running() {
		l.rec = 0
	}
}

// blocks reports whether an inline effect is pending that x wakes.
func (m *Model) blocks(s *State, i int, d *record, x messages) bool {
	_, isX := x.asksFor()
	switch {
	case m.set.Flaw == AckOwn, m.set.Flaw == NoResume, m.set.Flaw == AckXEarly && isX:
		return false
	case m.set.Flaw == DrainAcks && s.lanes[i].flags&draining != 0:
		return false
	}
	for k := range maxEffects {
		if d.place[k] != inline || d.wake[k].carriers(m.set.Flaw)&x == 0 {
			continue
		}
		if m.set.Flaw == ResumeLastOnly && !d.asks.has(k) {
			continue
		}
		if h := s.claim[k]; m.set.Flaw == AckIfClaimed && h != nobody && h != gone && h != holderOf(i) {
			continue
		}
		return true
	}
	return false
}
