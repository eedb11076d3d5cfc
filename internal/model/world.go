package model

// environment emits everything that happens without a worker's doing.
func (m *Model) environment(s *State) {
	m.loseRedis(s)
	m.expireClaims(s)
	m.forgetAcks(s)
	m.landAppend(s)
	m.redrive(s)
	m.sendResume(s)
	if m.set.Sweeper {
		m.sweep(s)
	}
	for i := range workers {
		m.write(s, i)
		m.disturb(s, i)
	}
}

// spend takes one from a budget and reports whether there was one to take.
func (m *Model) spend(n *State, c chance) bool {
	if n.spent[c] >= m.set.Budget[c] {
		return false
	}
	n.spent[c]++
	return true
}

// loseRedis lets Redis fall back to any older copy or none, to a hint without
// its copy, and to one or all claims less: more than a lost suffix of writes.
func (m *Model) loseRedis(s *State) {
	n := *s
	if !m.spend(&n, Loss) || s.copied == 0 && s.hint == 0 && s.claim == [maxEffects]holder{} {
		return
	}
	lose := func(copied, hint uint8, claims effects) {
		n := n
		n.copied, n.hint = copied, hint
		for k := range maxEffects {
			if claims.has(k) {
				n.dropClaim(k)
			}
		}
		if n.copied != s.copied || n.hint != s.hint || n.claim != s.claim {
			m.emit(&n, true, Step{"Redis loses writes: copy {a}, hint {b}", 0, copied, hint})
		}
	}
	for copied := range s.copied + 1 {
		hint := min(copied, s.hint)
		lose(copied, hint, 0)
		lose(copied, hint, only(0)|only(1)|only(2))
		for k := range maxEffects {
			if s.claim[k] != nobody {
				lose(copied, hint, only(k))
			}
		}
	}
	if s.hint > 0 {
		lose(0, s.hint, 0)
	}
}

// expireClaims ends claims: freely those nobody renews, by the budget those
// of a holder at work.
func (m *Model) expireClaims(s *State) {
	for k := range maxEffects {
		if s.claim[k] == nobody {
			continue
		}
		n := *s
		n.dropClaim(k)
		if !working(s, k) {
			m.emit(&n, false, Step{"the claim of e{a}, which nobody renews, runs out", 0, uint8(k + 1), 0})
		} else if m.spend(&n, Expiry) {
			m.emit(&n, true, Step{"the claim of e{a} runs out under its holder", 0, uint8(k + 1), 0})
		}
	}
}

// working reports whether the holder of claim k is alive and at work on it.
func working(s *State, k int) bool {
	for i := range workers {
		if s.claim[k] != holderOf(i) {
			continue
		}
		l := &s.lanes[i]
		at := (l.phase == phaseLook || l.phase == phaseCall) && int(l.at) == k
		return l.run[k] != 0 || at
	}
	return false
}

func (m *Model) forgetAcks(s *State) {
	for x := range (s.published & s.acked).each {
		n := *s
		if x == msgStart && s.spent[Redrive] > 0 || !m.spend(&n, Unack) {
			continue
		}
		n.acked &^= x
		m.emit(&n, true, about("the server forgets the ack of {m}", 0, x))
	}
}

// landAppend ends an append that got no answer: it lands, if its expectation
// still holds, or is lost on the way.
func (m *Model) landAppend(s *State) {
	if s.inflight == 0 {
		return
	}
	n := *s
	n.inflight, n.sent = 0, nobody
	m.emit(&n, false, Step{"an append on its way is lost", 0, 0, 0})
	if m.hist.parent(s.inflight) == s.head {
		m.land(&n, s.inflight, s.sent)
		m.emit(&n, false, Step{"an append on its way lands as record {a}", 0, m.hist.seq(s.inflight), 0})
	}
}

// land makes a record the last of HISTORY. A start whose claim is still its
// worker's has kept it up to the record.
func (m *Model) land(n *State, r ref, by holder) {
	n.head = r
	rec := m.hist.last(r)
	for k := range maxEffects {
		if !rec.settles.has(k) || n.clean[k] != by || by == nobody {
			continue
		}
		switch rec.place[k] {
		case retry:
			n.clean[k] = failed
		case parked:
			n.clean[k] = failedAgain
		default:
			n.clean[k] = recorded
		}
	}
}

// redrive dead-letters the start and puts it back under another message id.
func (m *Model) redrive(s *State) {
	n := *s
	if s.unacked()&msgStart == 0 || s.published&msgStartAgain != 0 || !m.spend(&n, Redrive) {
		return
	}
	n.acked |= msgStart
	n.published |= msgStartAgain
	m.emit(&n, true, Step{"Ma goes to the dead letters and is re-driven as Ma'", 0, 0, 0})
}

// sendResume is the person who has seen that the run is paused.
func (m *Model) sendResume(s *State) {
	if !m.paused(m.hist.last(s.head)) || s.published&msgResume != 0 {
		return
	}
	n := *s
	n.published |= msgResume
	m.emit(&n, false, Step{"a person resumes the run", 0, 0, 0})
}

// sweep is the sweeper: it publishes again what the last record waits for and
// is not under way, and turns inline effects nobody claims into queued ones.
func (m *Model) sweep(s *State) {
	last := m.hist.last(s.head)
	var convert effects
	for k := range maxEffects {
		switch last.place[k] {
		case inline:
			if s.claim[k] == nobody && !m.young(s) {
				convert |= only(k)
			}
		case queued, retry:
			x := last.asking(k)
			if last.place[k] == retry {
				x = msgDue
			}
			if s.unacked()&x == 0 {
				n := *s
				m.publish(&n, x)
				m.emit(&n, false, about("the sweeper publishes {m} again", 0, x))
			}
		}
	}
	n := *s
	if convert == 0 || !m.spend(&n, Sweep) {
		return
	}
	m.publish(&n, last.outbox)
	r := last.blank()
	m.apply(&r, event{kind: evConvert, convert: convert})
	m.land(&n, m.hist.append(s.head, r), nobody)
	m.emit(&n, false, Step{"the sweeper flushes, appends record {a}: inline becomes queued", 0, m.hist.seq(n.head), 0})
}

// young reports whether the last record is younger than G.
func (m *Model) young(s *State) bool {
	return m.set.Flaw != NoGrace && (s.lanes[0].flags|s.lanes[1].flags)&fresh != 0
}

// publish puts an outbox on the queues. A message that was acked is out
// again: the duplicate window is not relied on.
func (m *Model) publish(n *State, outbox messages) {
	if m.set.Flaw == SameIDNextAttempt {
		outbox &^= n.published // the duplicate window at its longest
	}
	n.published |= outbox
	n.acked &^= outbox
}

// disturb crashes, stops or slows worker i.
func (m *Model) disturb(s *State, i int) {
	l := &s.lanes[i]
	busy := *l != lane{}
	if n := *s; busy && m.spend(&n, Crash) {
		n.leave(i)
		m.emit(&n, true, about("w{w} crashes, holding {m}", i, l.held))
	}
	if l.flags&draining != 0 {
		n := *s
		n.leave(i)
		m.emit(&n, l.held != 0 || l.running(), Step{"w{w} exits at the end of its drain", uint8(i), 0, 0})
	} else if n := *s; busy && m.spend(&n, Stop) {
		n.lanes[i].flags |= draining
		m.emit(&n, true, Step{"w{w} gets SIGTERM", uint8(i), 0, 0})
	}
	if l.flags&fresh != 0 {
		m.slow(s, i)
	}
}

// slow ends the fresh time of worker i. That the claims it owes are not in
// Redis by then, nor were taken by a beat, is a fault, as if they had run out.
func (m *Model) slow(s *State, i int) {
	n := *s
	l := &n.lanes[i]
	l.flags &^= fresh
	owed := l.owed
	if owed != 0 && m.set.Flaw != ClaimAtLeisure {
		if !m.spend(&n, Expiry) {
			return
		}
		for k := range maxEffects {
			if owed.has(k) && n.clean[k] == holderOf(i) {
				n.clean[k] = nobody
			}
		}
	}
	m.emit(&n, owed != 0, Step{"w{w} is slow: its fresh time is over", uint8(i), 0, 0})
}

// leave empties worker i. Its claims stay until they run out.
func (s *State) leave(i int) {
	s.lanes[i] = lane{}
	for k := range maxEffects {
		if s.claim[k] == holderOf(i) {
			s.claim[k] = gone
		}
		if s.clean[k] == holderOf(i) {
			s.clean[k] = nobody
		}
	}
}
