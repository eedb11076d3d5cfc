package model

// step emits what lane i may do next.
func (m *Model) step(s *State, i int) {
	l := &s.lanes[i]
	d := m.hist.at(s.head, l.rec)
	switch l.phase {
	case phaseIdle:
		m.receive(s, i)
		m.load(s, i)
	case phaseFlush:
		n := *s
		if m.set.Flaw != NoFlush {
			m.publish(&n, d.outbox)
		}
		n.lanes[i].phase = phaseFold
		n.lanes[i].flags |= flushed
		m.emit(&n, false, Step{"w{w} flushes the outbox of record {a}", uint8(i), l.rec, 0})
	case phaseFold:
		m.fold(s, i, d)
	case phaseAtOnce:
		m.atOnce(s, i, d)
	case phasePublish:
		m.flushOwn(s, i, d)
	case phaseAckFirst:
		n := *s
		m.publish(&n, d.outbox)
		n.lanes[i].phase = phaseHint
		m.emit(&n, false, Step{"w{w} publishes the outbox of record {a}", uint8(i), l.rec, 0})
	case phaseHint:
		m.writeHint(s, i)
	case phaseStart:
		m.start(s, i, d)
	case phaseLook:
		m.look(s, i, d)
	case phaseClaim:
		m.claimLate(s, i)
	case phaseCall:
		n := *s
		m.call(&n, i, int(l.at), d)
		m.emit(&n, false, Step{"w{w} calls e{a}", uint8(i), l.at + 1, 0})
	case phaseSettle:
		m.settle(s, i, d)
	}
}

// receive takes any unacked message: redelivery is free, to anybody, at any
// time. A draining lane takes none.
func (m *Model) receive(s *State, i int) {
	l := &s.lanes[i]
	if l.flags&draining != 0 {
		return
	}
	for x := range (s.unacked() &^ l.held).each {
		n := *s
		n.lanes[i].held |= x
		m.emit(&n, false, about("w{w} receives {m}", i, x))
	}
}

// load begins a turn of a lane with work in hand: from what the lane itself
// last saw, whose outbox it knows to be out; or from the copy in Redis, else
// from the last record.
func (m *Model) load(s *State, i int) {
	l := &s.lanes[i]
	if l.held == 0 && !l.running() {
		return
	}
	n := *s
	nl := &n.lanes[i]
	nl.begin()
	if l.rec > 0 {
		n := n
		n.lanes[i].phase = phaseFold
		n.lanes[i].flags |= flushed // no turn ends before that
		m.emit(&n, false, Step{"w{w} goes on from its own memory, record {a}", uint8(i), l.rec, 0})
	}
	nl.phase = phaseFlush
	if s.copied > 0 && (s.copied >= l.rec || m.set.Flaw == TakeOlderCopy) {
		nl.rec = s.copied
		if s.hint == s.copied {
			nl.flags |= flushed
		}
		m.emit(&n, false, Step{"w{w} loads copy {a}, hint {b}", uint8(i), s.copied, s.hint})
		return
	}
	last := m.hist.seq(s.head)
	if m.set.StaleReads && last > 1 && last-1 >= l.rec {
		n := n
		n.lanes[i].rec = last - 1
		m.emit(&n, false, Step{"w{w} loads record {a} of HISTORY, stale", uint8(i), last - 1, 0})
	}
	nl.rec = last
	if s.hint == last {
		nl.flags |= flushed
	}
	m.emit(&n, false, Step{"w{w} loads record {a} of HISTORY", uint8(i), last, 0})
	m.repair(&n, i, last)
}

// repair writes what was read from HISTORY to Redis, if newer. The other
// course, that the write is lost, is the step before it.
func (m *Model) repair(n *State, i int, seq uint8) {
	if n.copied >= seq {
		return
	}
	n.copied = seq
	m.emit(n, false, Step{"w{w} loads record {a} of HISTORY, repairs Redis", uint8(i), seq, 0})
}

// reload goes back to the start of the turn with the last record.
func (m *Model) reload(n *State, i int) {
	l := &n.lanes[i]
	l.phase, l.rec = phaseFlush, m.hist.seq(n.head)
	l.begin()
}

// begin forgets what only the turn before had to know. Others leave alone
// what was called at once until its claim is in Redis, or G is over.
func (l *lane) begin() {
	keep := draining
	if l.owed != 0 {
		keep |= fresh
	}
	l.flags &= keep
	l.late, l.at = 0, 0
}

// atOnce calls what the lane's own record asks, while it is fresh: nobody else
// may until then, so the claim can follow, with the copy.
func (m *Model) atOnce(s *State, i int, d *record) {
	l := &s.lanes[i]
	for k := range maxEffects {
		if !m.startable(l, d, k) || !d.asks.has(k) || l.flags&fresh == 0 && m.set.Flaw != NoGrace {
			continue
		}
		if k == 2 && m.set.Signal.compensates() && m.set.Flaw != CompensateAtOnce {
			continue // what it compensates is closed first
		}
		n := *s
		n.lanes[i].owed |= only(k)
		m.noteLate(&n, i, k, d)
		m.call(&n, i, k, d)
		n.lanes[i].phase = phaseAtOnce
		m.emit(&n, false, Step{"w{w} calls e{a} at once", uint8(i), uint8(k + 1), 0})
		return
	}
	n := *s
	n.lanes[i].phase = phaseStart
	m.emit(&n, false, Step{"w{w} calls nothing more at once", uint8(i), 0, 0})
}

// write is one script beside lane i: the copy if newer, the claims of settled
// effects released, those of effects called at once taken.
func (m *Model) write(s *State, i int) {
	if s.lanes[i].save == 0 || s.lanes[i].phase == phaseAtOnce {
		return
	}
	n := *s
	l := &n.lanes[i]
	for k := range maxEffects {
		if l.done.has(k) {
			n.release(k, i)
		}
		if l.owed.has(k) && l.run[k] != 0 && n.claim[k] == nobody && m.set.Flaw != NoClaims && m.set.Flaw != ReleaseAtReturn {
			n.claim[k] = holderOf(i)
		}
	}
	n.copied = max(n.copied, l.save)
	l.save, l.owed, l.done = 0, 0, 0
	m.emit(&n, false, Step{"copy {a} of w{w} is in Redis", uint8(i), n.copied, 0})
}

// wakes reports whether the lane holds a message that may resume the inline
// effect k.
func (m *Model) wakes(l *lane, d *record, k int) bool {
	return d.place[k] == inline && d.wake[k].carriers(m.set.Flaw)&l.held != 0
}

// noteLate remembers whether a claim was taken when the attempt it is for was
// already over in HISTORY.
func (m *Model) noteLate(n *State, i, k int, d *record) {
	l := &n.lanes[i]
	l.late &^= only(k)
	if m.over(n, k, d) {
		l.late |= only(k)
	}
}

// over reports whether the attempt of effect k which record d asks for has a
// durable outcome.
func (m *Model) over(n *State, k int, d *record) bool {
	last := m.hist.last(n.head)
	if last.place[k] == answered || last.place[k] == parked {
		return true
	}
	return k == retried && last.failures > d.failures
}

// flushOwn publishes the outbox of the lane's own record.
func (m *Model) flushOwn(s *State, i int, d *record) {
	n := *s
	l := &n.lanes[i]
	if m.set.Flaw == AckBeforeFlush {
		for x := range l.held.each {
			if m.applied(d, x) && !m.blocks(s, i, d, x) {
				n.ack(i, x)
			}
		}
		l.phase = phaseAckFirst
		m.emit(&n, false, Step{"w{w} acks before its outbox is out", uint8(i), 0, 0})
		return
	}
	m.publish(&n, d.outbox)
	l.phase = phaseHint
	m.emit(&n, false, Step{"w{w} publishes the outbox of record {a}", uint8(i), l.rec, 0})
}

func (s *State) ack(i int, x messages) {
	s.acked |= x
	s.lanes[i].held &^= x
}

// writeHint notes in Redis that the outbox of the record is out.
func (m *Model) writeHint(s *State, i int) {
	n := *s
	l := &n.lanes[i]
	if n.copied > 0 && n.hint < l.rec {
		n.hint = l.rec
	}
	if n.copied > 0 && m.set.Flaw == UnnamedHint {
		n.hint = n.copied
	}
	l.phase = phaseSettle
	m.emit(&n, false, Step{"w{w} writes hint {a}", uint8(i), n.hint, 0})
}
