package model

// holder says who holds a claim.
type holder uint8

const (
	nobody      holder = iota
	worker0            // worker0+i is worker i
	worker1            //
	gone               // a worker that crashed or left
	recorded           // in State.clean: the claim held until the result was recorded
	failed             // in State.clean: the claim held until the first failure was recorded
	failedAgain        // in State.clean: likewise the second
)

func holderOf(worker int) holder { return worker0 + holder(worker) }

// workers is the number of workers; with more the chain still orders every
// step, and two already race in all ways the rules speak of.
const workers = 2

// phase is the next thing a lane does.
type phase uint8

const (
	phaseIdle     phase = iota // waits for a message or a handler's return
	phaseFlush                 // publishes the outbox of the loaded record
	phaseFold                  // appends what is at hand
	phaseAtOnce                // calls what its own record asks, while fresh
	phaseStart                 // resumes effects
	phaseLook                  // has the claim, reads the last record
	phaseCall                  // has looked, calls
	phasePublish               // publishes the outbox of its own record
	phaseHint                  // writes the hint
	phaseSettle                // acks, keeps or gives back what it holds
	phaseClaim                 // flaw: has looked, claims
	phaseAckFirst              // flaw: has acked, publishes
)

// flags of a lane.
type flags uint8

const (
	flushed  flags = 1 << iota // the outbox of the loaded record, which is not empty, is known to be out
	fresh                      // less than F since the append was sent; others: younger than G
	draining                   // has got SIGTERM
)

// lane is one worker's memory of the run. A crash zeroes it.
type lane struct {
	held  messages
	phase phase
	rec   uint8 // sequence of the loaded record; also what the lane has seen, 0 nothing
	flags flags
	late  effects // claimed after the attempt's outcome was durable

	// What is on its way to Redis, beside the lane, in one script.
	save uint8   // sequence of the record whose copy is written, 0 none
	owed effects // called at once: their claims are taken
	done effects // settled by own records: their claims are released

	at  uint8 // the effect of phaseLook, phaseCall, phaseClaim
	run [maxEffects]outcome
}

// outcome is a handler under way or its outcome in hand: the start's value
// and the attempt. 0 is none.
type outcome uint8

func newOutcome(value, attempt uint8) outcome { return outcome(value | attempt<<2) }
func (o outcome) value() uint8                { return uint8(o) & 3 }
func (o outcome) attempt() uint8              { return uint8(o) >> 2 }

func (l *lane) running() bool { return l.run != [maxEffects]outcome{} }

// key packs the lane into a number, for the order of the two workers.
func (l *lane) key() uint64 {
	k := uint64(l.held)
	for _, v := range [...]uint8{uint8(l.phase), l.rec, uint8(l.flags), uint8(l.late), l.at, l.save, uint8(l.owed), uint8(l.done),
		uint8(l.run[0]), uint8(l.run[1]), uint8(l.run[2])} {
		k = k<<4 | uint64(v) // every one of them is below 16
	}
	return k
}

// chance is something the environment may do a bounded number of times.
type chance uint8

// The chances of a Budget.
const (
	Loss    chance = iota // Redis loses copies, hints or claims
	Crash                 // a worker dies
	Expiry                // a claim runs out under its live holder
	Unack                 // the server forgets an ack
	Late                  // an append without answer lands later, or never
	Stop                  // SIGTERM
	Sweep                 // the sweeper turns inline into queued
	Redrive               // the start is dead-lettered and re-driven
	LetGo                 // a lane turns inline into queued
	Failure               // an attempt of e1 fails
	chances
)

// Budget bounds what happens beside the run: Budget{Loss: 1, Crash: 2}.
// Redelivery, giving back, slowness and lost PubAcks are always free.
type Budget [chances]uint8

// State is everything that may differ between two moments: the broker, Redis,
// two workers, and what the checks must remember.
type State struct {
	head     ref // last record of HISTORY
	inflight ref // a record on its way, 0 none

	published, acked messages

	copied uint8 // sequence of the copy in Redis, 0 none
	hint   uint8 // sequence the hint names, 0 none
	claim  [maxEffects]holder

	lanes [workers]lane
	sent  holder // of the record on its way
	spent Budget

	// clean remembers, per effect, the start whose claim has held since.
	clean       [maxEffects]holder
	starts      uint8 // of e1, up to 2: two starts have two results
	paid        uint8 // the input e2 was started with
	compensated bool  // e3 was started
	broken      Property
}

func (s *State) unacked() messages { return s.published &^ s.acked }

// dropClaim frees the claim of effect k: a start under it no longer counts
// as protected.
func (s *State) dropClaim(k int) {
	if s.clean[k] == s.claim[k] {
		s.clean[k] = nobody
	}
	s.claim[k] = nobody
}

// release frees the claim of effect k if the worker holds it.
func (s *State) release(k, worker int) {
	if s.claim[k] == holderOf(worker) {
		s.claim[k] = nobody
	}
}

// canonical maps states which differ in nothing that matters to one.
func (m *Model) canonical(s *State) {
	if m.plain {
		return
	}
	m.forget(s)
	a, b := s.lanes[0].key(), s.lanes[1].key()
	if a < b {
		return
	}
	if a == b && !m.claimsAreSwapped(s) {
		return
	}
	s.lanes[0], s.lanes[1] = s.lanes[1], s.lanes[0]
	for k := range maxEffects {
		s.claim[k], s.clean[k] = s.claim[k].swapped(), s.clean[k].swapped()
	}
	s.sent = s.sent.swapped()
}

func (h holder) swapped() holder {
	switch h {
	case worker0:
		return worker1
	case worker1:
		return worker0
	}
	return h
}

// claimsAreSwapped orders two equal lanes by the first claim of either.
func (m *Model) claimsAreSwapped(s *State) bool {
	for k := range maxEffects {
		for _, h := range [...]holder{s.claim[k], s.clean[k]} {
			if h == worker0 || h == worker1 {
				return h == worker1
			}
		}
	}
	return s.sent == worker1
}

// forget cuts off the records nobody can come back to. While Redis may still
// fall back to an older copy, that is none.
func (m *Model) forget(s *State) {
	if s.inflight != 0 && m.hist.parent(s.inflight) != s.head {
		s.inflight, s.sent = 0, nobody // it can only be refused
	}
	if s.head == 0 || s.spent[Loss] < m.set.Budget[Loss] {
		return
	}
	low := m.hist.seq(s.head)
	if (m.set.StaleReads || m.set.Flaw == StaleLook) && low > 1 {
		low--
	}
	for _, seq := range [...]uint8{s.copied, s.lanes[0].rec, s.lanes[1].rec, s.lanes[0].save, s.lanes[1].save} {
		if seq > 0 {
			low = min(low, seq)
		}
	}
	off := low - 1
	if off == 0 {
		return
	}
	head := m.hist.forget(s.head, off)
	if s.inflight != 0 {
		s.inflight = m.hist.append(head, *m.hist.last(s.inflight))
	}
	s.head = head
	for _, seq := range [...]*uint8{&s.copied, &s.hint, &s.lanes[0].rec, &s.lanes[1].rec, &s.lanes[0].save, &s.lanes[1].save} {
		*seq -= min(*seq, off)
	}
}
