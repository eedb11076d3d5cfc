package model

// Model is one setting on its way to be searched.
type Model struct {
	set  Setting
	hist *history

	plain bool // canonical merges nothing

	out    []edge[State] // scratch of successors
	events []event       // scratch of fold
	plans  []plan        // scratch of fold
}

// newModel returns the model of a setting.
func newModel(set Setting) *Model {
	return &Model{set: set, hist: newHistory()}
}

func (m *Model) initial() State {
	s := State{published: msgStart}
	if m.set.Duplicate {
		s.published |= msgStartAgain
	}
	if m.set.Signal != NoSignal {
		s.published |= msgSignal
	}
	return s
}

// successors returns everything that may happen next. The result is valid
// until the next call.
func (m *Model) successors(s *State) []edge[State] {
	m.out = m.out[:0]
	m.environment(s)
	for i := range workers {
		m.step(s, i)
	}
	return m.out
}

// emit adds a successor, after the steps that follow whatever else happens.
func (m *Model) emit(n *State, fault bool, step Step) {
	m.out = append(m.out, edge[State]{*n, step, fault})
	to := &m.out[len(m.out)-1].to
	for i := range workers {
		m.hurry(to, i)
	}
}

// hurry takes the steps of a lane that neither see nor change anything
// shared, and forgets what can only hold others back.
func (m *Model) hurry(s *State, i int) {
	l := &s.lanes[i]
	d := m.hist.at(s.head, l.rec)
	if l.phase == phaseFlush && (l.flags&flushed != 0 || d.outbox == 0) {
		l.phase = phaseFold
	}
	if l.phase == phaseStart && !m.mayStart(l, d) {
		l.phase = phasePublish
	}
	if l.phase == phasePublish && (l.flags&flushed != 0 || d.outbox == 0) && m.set.Flaw != AckBeforeFlush {
		l.phase = phaseSettle
	}
	if d.outbox == 0 || l.phase >= phasePublish || l.phase == phaseIdle {
		l.flags &^= flushed // says nothing more
	}
	if l.phase != phaseAtOnce && l.owed == 0 {
		// The committer has nothing left to call at once. Time may pass
		// anyway, and without the flag everybody may do all they could.
		l.flags &^= fresh
	}
}

func (m *Model) mayStart(l *lane, d *record) bool {
	for k := range maxEffects {
		if m.startable(l, d, k) {
			return true
		}
	}
	return false
}
