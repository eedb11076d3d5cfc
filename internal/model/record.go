package model

// place says where a pending effect waits, or how it ended.
type place uint8

const (
	unasked   place = iota
	inline          // performed by a holder of its wake
	queued          // performed by a holder of X(e)
	retry           // an attempt failed; waits for T(e)
	held            // the run is paused; waits for its resume
	answered        // its result is in the chain
	cancelled       // a signal withdrew it
	parked          // its last attempt failed, the run is parked
)

func (p place) pending() bool { return p == inline || p == queued || p == retry || p == held }
func (p place) over() bool    { return p >= answered }

// wakeable reports whether a message resumes what stands there.
func (p place) wakeable() bool { return p == inline || p == queued }

// open reports whether a result still counts: a parked effect waits for a
// person, but takes a late answer as well.
func (p place) open() bool { return p.pending() || p == parked }

// record is one message on HISTORY: the state after it, the pending work and
// the outbox, committed together. The zero record is the run before its start.
type record struct {
	place    [maxEffects]place
	wake     [maxEffects]wake // of inline effects
	value    uint8            // recorded result of e1, which is the input of e2
	failures uint8            // failed attempts of the retried effect
	start    bool             // start applied
	signal   bool             // signal applied
	resumed  bool             // resume applied
	again    effects          // queued effects that were held before
	outbox   messages

	asks     effects // effects this record asks inline
	settles  effects // effects whose outcome this record brings
	converts effects // effects this record turns from inline to queued (kept for one flaw only)

	broken Property // what the events of this record violate
}

// effects is a set of effects; bit k is effect k.
type effects uint8

func only(k int) effects         { return 1 << k }
func (e effects) has(k int) bool { return e>>k&1 != 0 }
func (r *record) pending() bool {
	return r.place[0].pending() || r.place[1].pending() || r.place[2].pending()
}

// kind is the kind of an event.
type kind uint8

const (
	evStart kind = iota
	evSignal
	evResult  // an attempt of an effect succeeded
	evFailure // an attempt of an effect failed
	evDue     // the schedule of a failed attempt fired
	evConvert // inline effects become queued; no event of the run, but a record
	evResume  // what is held becomes queued
)

// event is one thing a record applies.
type event struct {
	kind    kind
	effect  uint8
	value   uint8   // of a result
	attempt uint8   // failures before the attempt that brought the outcome
	queued  bool    // what it asks for is asked queued
	convert effects // of evConvert

	heldWake bool // flaw: what follows gets the signal as wake
	zombie   bool // flaw: what follows inherits the wake from before the conversion
}

// blank returns the record that follows r before any event is applied:
// pending work is carried on, the outbox is not.
func (r record) blank() record {
	r.outbox, r.asks, r.settles, r.converts = 0, 0, 0, 0
	return r
}

// apply is Step: it moves the record on by one event, checked against the
// state the event meets.
func (m *Model) apply(r *record, e event) {
	switch e.kind {
	case evStart:
		if r.start {
			r.broken = Chain
		}
		r.start = true
		m.ask(r, 0, wakeStart, e)
	case evSignal:
		if r.signal {
			r.broken = Chain
		}
		r.signal = true
		m.applySignal(r, e)
	case evResult:
		m.applyResult(r, e)
	case evFailure:
		m.applyFailure(r, e)
	case evDue:
		if r.place[retried] != retry {
			r.broken = Chain
		}
		r.place[retried] = queued
		r.outbox |= m.nextAttempt()
	case evResume:
		if r.resumed {
			r.broken = Chain
		}
		r.resumed = true
		m.resume(r)
	case evConvert:
		for k := range maxEffects {
			if r.place[k] == inline && e.convert.has(k) {
				m.enqueue(r, k)
			}
		}
	}
}

// paused reports whether nothing may start that has not.
func (m *Model) paused(r *record) bool {
	return m.set.Signal == PausingSignal && r.signal && !r.resumed
}

// pause holds what somebody may start; its message, if it stands in this very
// record, is not sent.
func (m *Model) pause(r *record) {
	for k := range maxEffects {
		if !r.place[k].wakeable() {
			continue
		}
		if r.place[k] == queued {
			r.outbox &^= r.asking(k)
		}
		m.hold(r, k)
	}
}

func (m *Model) hold(r *record, k int) {
	r.place[k] = held
	r.asks &^= only(k)
	r.again &^= only(k)
	if m.set.Flaw != ResumeRestores {
		r.wake[k] = 0
	}
}

// resume queues what is held: X of the resume is what wakes it.
func (m *Model) resume(r *record) {
	for k := range maxEffects {
		switch {
		case r.place[k] != held:
		case m.set.Flaw == ResumeRestores:
			r.place[k] = inline
		default:
			if m.set.Flaw != ResumeKeepsAsked {
				r.again |= only(k)
			}
			m.enqueue(r, k)
		}
	}
}

func (m *Model) applySignal(r *record, e event) {
	if m.set.Signal == PausingSignal {
		m.pause(r)
	}
	if m.set.Signal.cancels() {
		for k := range 2 {
			if r.place[k].pending() {
				m.end(r, k, cancelled)
			}
		}
	}
	if m.set.Signal.asks() {
		m.ask(r, 2, wakeSignal, e)
	}
	if m.set.Signal == UnwindingSignal && (!r.pending() || m.set.Flaw == UndoAtOnce) {
		e.queued = true // nobody is sure to hold a message that would wake it
		m.ask(r, 2, wakeSignal, e)
	}
}

// unwinds reports whether the run goes on to its end: nothing follows but e3.
func (m *Model) unwinds(r *record) bool { return m.set.Signal == UnwindingSignal && r.signal }

func (m *Model) applyResult(r *record, e event) {
	k := int(e.effect)
	met := r.place[k]
	if !met.open() {
		r.broken = Chain
	}
	w := r.wake[k]
	switch {
	case met == inline, m.set.Flaw == InheritQueuedWake, e.zombie:
	case !met.wakeable() && m.set.Flaw == RetryKeepsWake:
	default:
		w = wakeEffect + wake(k)
	}
	m.end(r, k, answered)
	r.settles |= only(k)
	if k == 0 {
		r.value = e.value
	}
	next := k + 1
	if next >= m.set.Steps {
		next = maxEffects
	}
	if m.unwinds(r) {
		next = 2
	}
	if next >= maxEffects || r.place[next] != unasked {
		return
	}
	if !met.wakeable() && m.set.Flaw != RetryInline && m.set.Flaw != RetryKeepsWake {
		// No message with the wake of an effect in retry, or parked, need
		// exist: the one that asked for it may be acked, the next is not out.
		// So what its result asks for brings a message of its own.
		e.queued = true
	}
	m.ask(r, next, w, e)
}

func (m *Model) applyFailure(r *record, e event) {
	at := r.place[retried]
	if at != inline && at != queued || e.attempt != r.failures {
		r.broken = Chain
	}
	r.settles |= only(retried)
	r.failures = min(maxAttempts, r.failures+1)
	if r.failures == maxAttempts && m.unwinds(r) {
		w := r.wake[retried]
		if at == queued {
			w = wakeEffect + wake(retried)
		}
		m.end(r, retried, cancelled)
		if r.place[2] == unasked {
			m.ask(r, 2, w, e)
		}
		return
	}
	if r.failures == maxAttempts {
		m.end(r, retried, parked)
		return
	}
	if m.set.Flaw != RetryKeepsWake {
		r.wake[retried] = 0
	}
	r.place[retried] = retry
	r.outbox |= msgDue
}

// nextAttempt is the message which asks for the second attempt. With the
// flaw it repeats the first one's id.
func (m *Model) nextAttempt() messages {
	if m.set.Flaw == SameIDNextAttempt {
		return msgEffect1
	}
	return msgEffect1Next
}

// ask adds an effect to the pending ones.
func (m *Model) ask(r *record, k int, w wake, e event) {
	if e.heldWake {
		w = wakeSignal
	}
	r.wake[k] = w
	if m.paused(r) {
		m.hold(r, k)
		return
	}
	if e.queued {
		m.enqueue(r, k)
		r.converts &^= only(k)
		return
	}
	r.place[k] = inline
	r.asks |= only(k)
}

func (m *Model) enqueue(r *record, k int) {
	r.place[k] = queued
	r.asks &^= only(k)
	r.outbox |= r.asking(k)
	switch m.set.Flaw {
	case ZombieKeepsWake:
		r.converts |= only(k)
	case InheritQueuedWake, RetryKeepsWake:
	default:
		r.wake[k] = 0 // its wake is its own id from now on
	}
}

func (m *Model) end(r *record, k int, p place) {
	r.place[k], r.wake[k] = p, 0
	r.asks &^= only(k)
	r.again &^= only(k)
}

// fits reports whether an event applies to the state it meets.
func (m *Model) fits(r *record, e event) bool {
	switch e.kind {
	case evStart:
		return !r.start
	case evSignal:
		return r.start && !r.signal
	case evDue:
		return r.place[retried] == retry
	case evConvert:
		return r.start
	case evResume:
		return r.start && !r.resumed
	case evFailure:
		if m.set.Flaw == CountAnyFailure {
			return r.place[retried].pending()
		}
		return (r.place[retried] == inline || r.place[retried] == queued) && r.failures == e.attempt
	}
	if m.set.Flaw == NoPendingCheck {
		return r.start
	}
	return r.place[e.effect].open()
}

// reaches reports whether the record is at least as new as the one in whose
// outbox message x stands: seq >= asked. One record per chain holds x, and
// from it on x has left its mark, so the sequences need not be kept.
func (m *Model) reaches(r *record, x messages) bool {
	if x == msgDue || x == msgEffect1Next {
		if r.place[retried].over() {
			return true
		}
		return r.failures > 0 && (x == msgDue || r.place[retried] != retry)
	}
	if x == msgEffect1Again || x == msgEffect2Again {
		return r.resumed
	}
	k, ok := x.asksFor()
	if !ok {
		return true
	}
	switch r.place[k] {
	case unasked:
		return false
	case inline:
		return m.set.Flaw == AskedOfQuestion
	}
	return true
}

// applied reports whether the record has what message x brings: the event,
// or an outcome of the attempt asked for.
func (m *Model) applied(r *record, x messages) bool {
	switch x {
	case msgStart, msgStartAgain:
		return r.start
	case msgSignal:
		return r.signal
	case msgResume:
		return r.resumed
	case msgDue:
		return r.place[retried] != retry && (m.reaches(r, x) || m.trusts())
	}
	k, _ := x.asksFor()
	if !m.reaches(r, x) {
		return m.trusts() && r.place[k] != inline && r.place[k] != queued
	}
	return r.place[k] != inline && r.place[k] != queued
}

// trusts reports the flaw which lets an old copy say "not pending".
func (m *Model) trusts() bool { return m.set.Flaw == TrustOldCopy }
