package model

// The second model: group commit. Two runs, two workers, the records of both
// runs in one batch, each with its own expected sequence. A run is record 1
// (its start, which asks an inline effect) and record 2 (the result). Claims,
// copies and outboxes are left to the first model; here the question is what
// a worker may conclude from the fate of a batch.

// runs is the number of runs in the second model.
const runs = 2

// runSet is a set of runs; bit r is run r.
type runSet uint8

const bothRuns runSet = 1<<runs - 1

func (s runSet) has(r int) bool { return s>>r&1 != 0 }

// BatchFlaw is one rule of group commit removed.
type BatchFlaw uint8

// The flaws of group commit. Each run of a batch is settled by its own read.
const (
	BatchSound        BatchFlaw = iota
	NoAnswerCommitted           // no answer is taken for committed
	OneReadForAll               // one run's fate is taken for that of all
	RefusedByOthers             // a refused batch is taken as done by somebody else
	RestStored                  // of a refused batch, the runs that did not race are taken as stored
)

// BatchSetting is one bounded world of group commit.
type BatchSetting struct {
	Name    string
	Partial bool // the server may store any part of a batch
	Crashes uint8
	Late    uint8 // batches without answer that land later, or never
	Flaw    BatchFlaw
	Breaks  Property
	Least   int // states a whole search meets at least
}

type batchPhase uint8

const (
	batchIdle   batchPhase = iota // takes messages
	batchDecide                   // performs, chooses what to append, acks
	batchSend                     // sends its plan
	batchRead                     // no answer, or a single refused: reads every run of it
	batchSingle                   // batch refused: falls back to single appends
)

// batchLane is one worker's memory.
type batchLane struct {
	held   runSet
	phase  batchPhase
	plan   runSet // runs in the batch it sends
	expect [runs]uint8
	known  [runs]uint8 // the last record it knows of
	ran    [runs]bool  // it has performed the run's effect and holds the result
}

// batchState is everything that may differ between two moments.
type batchState struct {
	last     [runs]uint8 // last record of each run
	acked    runSet
	lanes    [workers]batchLane
	inflight runSet // a batch on its way
	expect   [runs]uint8
	crashes  uint8
	late     uint8
	broken   Property
}

// batchModel is one setting of group commit on its way to be searched.
type batchModel struct {
	set BatchSetting
	out []edge[batchState]
}

// CheckBatch searches a setting of group commit.
func CheckBatch(set BatchSetting, opt Options) Result {
	r := explore(&batchModel{set: set}, opt)
	r.Name = set.Name
	return r
}

func (b *batchModel) initial() batchState            { return batchState{} }
func (b *batchModel) verdict(s *batchState) Property { return s.broken }

// canonical puts the two workers, which are interchangeable, into one order.
func (b *batchModel) canonical(s *batchState) {
	if s.lanes[0].key() > s.lanes[1].key() {
		s.lanes[0], s.lanes[1] = s.lanes[1], s.lanes[0]
	}
}

// key packs the lane into a number.
func (l *batchLane) key() uint64 {
	k := uint64(l.held)<<16 | uint64(l.phase)<<8 | uint64(l.plan)
	for r := range runs {
		k = k<<8 | uint64(l.expect[r])<<4 | uint64(l.known[r])<<1
		if l.ran[r] {
			k |= 1
		}
	}
	return k
}

func (b *batchModel) complete(s *batchState) bool {
	return s.acked == bothRuns && s.last == [runs]uint8{2, 2} && s.lanes == [workers]batchLane{} && s.inflight == 0
}

func (b *batchModel) emit(n batchState, fault bool, step Step) {
	b.out = append(b.out, edge[batchState]{n, step, fault})
}

func (b *batchModel) successors(s *batchState) []edge[batchState] {
	b.out = b.out[:0]
	b.landBatch(s)
	for i := range workers {
		if n := *s; s.lanes[i] != (batchLane{}) && s.crashes < b.set.Crashes {
			n.crashes++
			n.lanes[i] = batchLane{}
			b.emit(n, true, Step{"w{w} crashes", uint8(i), 0, 0})
		}
		switch s.lanes[i].phase {
		case batchIdle:
			b.take(s, i)
		case batchDecide:
			b.perform(s, i)
			b.choose(s, i)
			b.ack(s, i)
		case batchSend:
			b.send(s, i)
		case batchSingle:
			b.single(s, i)
		case batchRead:
			b.read(s, i)
		}
	}
	return b.out
}

// landBatch ends a batch on its way: refused, lost, stored whole, or, where
// the setting has it, in part.
func (b *batchModel) landBatch(s *batchState) {
	if s.inflight == 0 {
		return
	}
	n := *s
	n.inflight, n.expect = 0, [runs]uint8{}
	b.emit(n, false, Step{"a batch on its way is lost", 0, 0, 0})
	for part := runSet(1); part <= bothRuns; part++ {
		if part&^s.inflight != 0 || part != s.inflight && !b.set.Partial || !matches(s, s.inflight, s.expect) {
			continue
		}
		n := n
		n.store(part)
		b.emit(n, false, Step{"a batch on its way lands, runs {a}", 0, uint8(part), 0})
	}
}

// matches reports whether every expectation of a batch holds.
func matches(s *batchState, plan runSet, expect [runs]uint8) bool {
	for r := range runs {
		if plan.has(r) && s.last[r] != expect[r] {
			return false
		}
	}
	return true
}

func (s *batchState) store(plan runSet) {
	for r := range runs {
		if plan.has(r) {
			s.last[r]++
		}
	}
}

// take receives a run's message and loads what it may know: the truth, or a
// copy one record old, never one older than it has seen.
func (b *batchModel) take(s *batchState, i int) {
	l := &s.lanes[i]
	for r := range runs {
		if s.acked.has(r) || l.held.has(r) {
			continue
		}
		n := *s
		nl := &n.lanes[i]
		nl.held |= 1 << r
		nl.known[r] = max(l.known[r], s.last[r])
		b.emit(n, false, Step{"w{w} takes run {a}, loads record {b}", uint8(i), uint8(r), nl.known[r]})
		if s.last[r] > 0 && s.last[r]-1 >= l.known[r] {
			nl.known[r] = s.last[r] - 1
			b.emit(n, false, Step{"w{w} takes run {a}, loads old copy {b}", uint8(i), uint8(r), nl.known[r]})
		}
	}
	if l.held != 0 {
		n := *s
		n.lanes[i].phase = batchDecide
		b.emit(n, false, Step{"w{w} decides", uint8(i), 0, 0})
	}
}

// perform calls the effect of a run whose record 1 the worker knows of.
func (b *batchModel) perform(s *batchState, i int) {
	l := &s.lanes[i]
	for r := range runs {
		if !l.held.has(r) || l.known[r] != 1 || l.ran[r] {
			continue
		}
		n := *s
		if s.last[r] < 1 {
			n.broken = Intent
		}
		n.lanes[i].ran[r] = true
		b.emit(n, false, Step{"w{w} performs the effect of run {a}", uint8(i), uint8(r), 0})
	}
}

// choose makes a batch of any of the runs that have something to append.
func (b *batchModel) choose(s *batchState, i int) {
	l := &s.lanes[i]
	for plan := runSet(1); plan <= bothRuns; plan++ {
		n := *s
		nl := &n.lanes[i]
		ready := true
		for r := range runs {
			if plan.has(r) {
				asked := l.known[r] == 0 || l.known[r] == 1 && l.ran[r]
				ready = ready && l.held.has(r) && asked
				nl.expect[r] = l.known[r]
			}
		}
		if ready {
			nl.plan, nl.phase = plan, batchSend
			b.emit(n, false, Step{"w{w} makes a batch of runs {a}", uint8(i), uint8(plan), 0})
		}
	}
}

// ack acks the runs it knows to be finished, or goes back to taking.
func (b *batchModel) ack(s *batchState, i int) {
	l := &s.lanes[i]
	for r := range runs {
		if !l.held.has(r) || l.known[r] != 2 {
			continue
		}
		n := *s
		n.acked |= 1 << r
		n.lanes[i].held &^= 1 << r
		n.lanes[i].ran[r] = false
		if s.last[r] != 2 {
			n.broken = Lost
		}
		b.emit(n, false, Step{"w{w} acks run {a}", uint8(i), uint8(r), 0})
	}
	n := *s
	n.lanes[i].phase = batchIdle
	if l.held == 0 {
		n.lanes[i] = batchLane{}
	}
	b.emit(n, false, Step{"w{w} goes back", uint8(i), 0, 0})
}

// conclude ends a send with what the worker now takes each run to be.
func (l *batchLane) conclude(known func(r int) uint8) {
	for r := range runs {
		if l.plan.has(r) {
			l.known[r] = known(r)
		}
	}
	l.plan, l.phase, l.expect = 0, batchDecide, [runs]uint8{}
}

func (b *batchModel) send(s *batchState, i int) {
	l := &s.lanes[i]
	stored := func(r int) uint8 { return l.expect[r] + 1 }
	if n := *s; s.late < b.set.Late && s.inflight == 0 {
		n.late++
		n.inflight, n.expect = l.plan, l.expect
		n.lanes[i].phase = batchRead
		b.emit(n, true, Step{"w{w} sends runs {a}, no answer, it may land later", uint8(i), uint8(l.plan), 0})
	}
	n := *s
	nl := &n.lanes[i]
	if matches(s, l.plan, l.expect) {
		n.store(l.plan)
		lost := n
		lost.lanes[i].phase = batchRead
		b.emit(lost, true, Step{"w{w} sends runs {a}: stored, the answer is lost", uint8(i), uint8(l.plan), 0})
		nl.conclude(stored)
		b.emit(n, false, Step{"w{w} sends runs {a}: stored", uint8(i), uint8(l.plan), 0})
		return
	}
	switch {
	case l.plan != bothRuns:
		nl.phase = batchRead
	case b.set.Flaw == RefusedByOthers:
		nl.conclude(stored)
	case b.set.Flaw == RestStored:
		nl.conclude(func(r int) uint8 {
			if s.last[r] == l.expect[r] {
				return l.expect[r] + 1
			}
			return s.last[r]
		})
	default:
		nl.phase = batchSingle
	}
	b.emit(n, false, Step{"w{w} sends runs {a}: refused", uint8(i), uint8(l.plan), 0})
}

// single takes one run of a refused batch on its own.
func (b *batchModel) single(s *batchState, i int) {
	for r := range runs {
		n := *s
		nl := &n.lanes[i]
		nl.plan, nl.phase = 1<<r, batchSend
		nl.expect[1-r] = 0
		b.emit(n, false, Step{"w{w} takes run {a} on its own", uint8(i), uint8(r), 0})
	}
}

// read settles each run of a batch by its own last record.
func (b *batchModel) read(s *batchState, i int) {
	n := *s
	l := &s.lanes[i]
	first := -1
	n.lanes[i].conclude(func(r int) uint8 {
		switch {
		case b.set.Flaw == NoAnswerCommitted:
			return l.expect[r] + 1
		case b.set.Flaw == OneReadForAll && first >= 0:
			if s.last[first] > l.expect[first] {
				return l.expect[r] + 1
			}
			return l.known[r]
		}
		first = r
		return s.last[r]
	})
	b.emit(n, false, Step{"w{w} reads the last records", uint8(i), 0, 0})
}

// BatchSettings returns the settings of group commit, sound and flawed.
func BatchSettings() []BatchSetting {
	return []BatchSetting{
		{Name: "G1 group commit, all or nothing; 1 crash, 1 late batch", Crashes: 1, Late: 1, Least: 430_000},
		{Name: "G2 group commit, parts may be stored; 1 crash, 1 late batch", Crashes: 1, Late: 1, Partial: true, Least: 430_000},
		{Name: "MG1 no answer taken for committed", Late: 1, Flaw: NoAnswerCommitted, Breaks: Intent},
		{Name: "MG2 one run's fate taken for the batch, all or nothing", Late: 1, Flaw: OneReadForAll, Breaks: Intent},
		{Name: "MG3 one run's fate taken for the batch, parts may be stored", Late: 1, Partial: true, Flaw: OneReadForAll, Breaks: Intent},
		{Name: "MG4 refused batch taken as done by others", Flaw: RefusedByOthers, Breaks: Intent},
		{Name: "MG5 refused batch: the others taken as stored", Flaw: RestStored, Breaks: Intent},
	}
}
