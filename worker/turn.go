package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/statemachine"
)

// maxRounds bounds how often a batch is gone through before runs that keep
// losing their appends wait a moment.
const maxRounds = 8

// turn drives a batch of runs until each waits for something else.
func (l *lane) turn(ctx context.Context, active map[string]*slot) {
	l.asked = 0
	slots := make([]*slot, 0, len(active))
	for _, s := range active {
		s.due, s.read = time.Time{}, false
		delete(l.due, s.run)
		slots = append(slots, s)
	}
	_ = crash.Point("turn.received")
	for round := 0; len(slots) > 0 && round < maxRounds; round++ {
		for _, s := range slots {
			s.again, s.fold, s.waiting = false, nil, 0
		}
		if !l.load(ctx, slots) {
			l.giveBack(slots)
			return
		}
		slots = l.drive(ctx, slots)
	}
	for _, s := range slots { // lost too often: somebody else is at it
		l.later(s, time.Duration(rand.Int64N(int64(50*time.Millisecond))))
	}
}

// drive goes through one round of the protocol and returns the runs that need
// another.
func (l *lane) drive(ctx context.Context, slots []*slot) []*slot {
	_ = crash.Point("turn.loaded")
	l.flush(ctx, slots)
	_ = crash.Point("turn.flushed")
	l.seal(ctx, slots)
	for _, s := range slots {
		l.foldSlot(ctx, s)
	}
	_ = crash.Point("turn.folded")
	l.append(ctx, slots)
	l.save(slots)
	l.resume(ctx, slots)
	l.flush(ctx, slots)
	var again []*slot
	for _, s := range slots {
		if s.again {
			again = append(again, s)
			continue
		}
		l.settle(s)
	}
	if l.saver.full() != nil {
		l.beatWhile(ctx, l.saver.room)
	}
	return again
}

// load gives every slot a state: what the lane has seen, else the Redis copy,
// else the last record, else none. It reports whether it could.
func (l *lane) load(ctx context.Context, slots []*slot) bool {
	var cold, deep []*slot
	for _, s := range slots {
		switch {
		case s.history:
			deep = append(deep, s)
		case !s.known:
			cold = append(cold, s)
		}
	}
	if len(cold) > 0 {
		var copies []*Copy
		var err error
		l.beatWhile(ctx, func() {
			l.saver.wait(names(cold)) // what was let go of a moment ago
			copies, err = l.w.ports.Shadow.Load(ctx, names(cold))
		})
		if err != nil {
			l.w.trouble(onRedis, err)
			return false
		}
		var missing []*slot
		for i, s := range cold {
			if c := copies[i]; c != nil {
				l.w.metrics.hits.Inc()
				s.see(&c.Stored, time.Time{})
				s.known, s.flushed = true, c.Flushed
				continue
			}
			l.w.metrics.misses.Inc()
			missing = append(missing, s)
		}
		if len(missing) > 0 {
			var last []*statemachine.Stored
			l.beatWhile(ctx, func() { last, err = l.w.ports.Log.Last(ctx, names(missing)) })
			strange := errors.Is(err, statemachine.ErrFormat) // some are; Look tells which
			if err != nil && !strange {
				l.w.trouble(onNATS, err)
				return false
			}
			for i, s := range missing {
				if strange && last[i] == nil {
					deep = append(deep, s)
					continue
				}
				l.found(s, last[i])
			}
			l.repair(ctx, missing)
		}
	}
	return l.lookAll(ctx, deep, l.lookedUp) && l.repair(ctx, deep)
}

// lookedUp takes what the leader of HISTORY says.
func (l *lane) lookedUp(s *slot, r *statemachine.Stored) {
	s.history, s.read = false, true
	s.behind = s.state != nil && (r == nil || r.Seq < s.state.Seq)
	l.found(s, r)
}

// found takes what HISTORY says.
func (l *lane) found(s *slot, r *statemachine.Stored) {
	s.known, s.assumed = true, false
	if r != nil {
		s.see(r, time.Time{})
	}
}

// repair writes to Redis what had to be read from HISTORY.
func (l *lane) repair(ctx context.Context, slots []*slot) bool {
	var saves []Save
	for _, s := range slots {
		if s.state != nil {
			saves = append(saves, Save{Stored: s.state, Owner: l.w.cfg.ID, Lease: l.w.cfg.lease()})
		}
	}
	if len(saves) == 0 {
		return true
	}
	var err error
	l.beatWhile(ctx, func() { _, err = l.w.ports.Shadow.Save(ctx, saves) })
	if err != nil {
		l.w.trouble(onRedis, err)
		return false
	}
	l.w.metrics.rebuiltHere.Add(float64(len(saves)))
	return true
}

// lookAll reads the last records of runs from the leader, side by side.
func (l *lane) lookAll(ctx context.Context, slots []*slot, then func(*slot, *statemachine.Stored)) bool {
	if len(slots) == 0 {
		return true
	}
	looks := make([]Look, len(slots))
	for i, s := range slots {
		looks[i] = Look{Run: s.run, Known: s.state}
	}
	var read []*statemachine.Stored
	var errs []error
	l.beatWhile(ctx, func() { read, errs = l.w.ports.Log.Looks(ctx, looks) })
	ok := true
	for i, s := range slots {
		if err := errs[i]; err != nil {
			if errors.Is(err, statemachine.ErrFormat) {
				s.strange = err
				continue
			}
			l.w.trouble(onNATS, err)
			ok = false
			continue
		}
		then(s, read[i])
	}
	return ok
}

// foldSlot folds what is at hand into the run's next record, if there is
// anything to fold.
func (l *lane) foldSlot(ctx context.Context, s *slot) {
	if !s.isFlushed() {
		l.later(s, l.w.cfg.beat()) // its outbox first (I5)
		return
	}
	if s.behind {
		l.ahead(ctx, s)
		return
	}
	def := l.definition(ctx, s)
	if def == nil {
		return
	}
	for _, h := range s.held {
		if s.state == nil || h.spent || h.m.Asked <= s.state.Seq {
			continue
		}
		if s.read { // even the leader does not know the record that asked
			s.waiting = max(s.waiting, l.w.cfg.beat())
			l.log.Error("a message is ahead of its run's history", logkey.Run, s.run, logkey.Subject, h.m.Subject)
			continue
		}
		s.history, s.again = true, true // the copy is older than what the message knows
		return
	}
	l.fold(ctx, s, def, false)
}

// append commits the records of the round.
func (l *lane) append(ctx context.Context, slots []*slot) {
	var appends []Append
	var of []*slot
	for _, s := range slots {
		if s.fold == nil {
			continue
		}
		if err := l.prepare(ctx, s); err != nil {
			l.w.trouble(onNATS, err)
			s.fold = nil
			l.later(s, l.w.cfg.beat())
			continue
		}
		appends = append(appends, Append{Record: s.fold.sealed.Record, Bytes: s.fold.sealed.Bytes})
		of = append(of, s)
	}
	if len(appends) == 0 {
		return
	}
	l.w.metrics.batch.Observe(float64(len(appends)))
	limit, cancel := context.WithTimeout(ctx, l.w.cfg.AckWait)
	defer cancel()
	var answers []Appended
	l.beatWhile(ctx, func() { answers = l.w.ports.Log.Append(limit, appends) })
	if err := crash.Point("append.sent"); err != nil {
		for i := range answers {
			answers[i] = Appended{Err: err}
		}
	}
	now := time.Now()
	for i, a := range answers {
		s := of[i]
		switch {
		case a.Err == nil && a.Last == nil:
			l.committed(s, a, now)
		case a.Last != nil:
			l.w.metrics.lost.Inc()
			s.fold, s.again = nil, true
			s.see(a.Last, time.Time{})
		default:
			l.w.metrics.failed.Inc()
			l.appendFailed(ctx, s, a.Err)
		}
	}
}

// prepare stores what must be there before the record is.
func (l *lane) prepare(ctx context.Context, s *slot) (err error) {
	if b := s.fold.sealed.Blobs; len(b) > 0 {
		l.beatWhile(ctx, func() { err = l.w.ports.Blobs.Put(ctx, s.run, b) })
		if err != nil {
			return err
		}
	}
	return l.recordResolved(ctx, s)
}

// appendFailed deals with a record that was not stored, or is not known to be.
func (l *lane) appendFailed(ctx context.Context, s *slot, err error) {
	f := s.fold
	s.fold = nil
	switch {
	case errors.Is(err, ErrTooLarge) && len(f.results) > 0 && f.results[0].err == nil:
		f.results[0].fail(statemachine.Terminal(statemachine.ClassTooLarge, err)) // the run is parked
		s.again = true
	case errors.Is(err, ErrTooLarge) && len(f.held) > 0:
		s.again = l.blame(ctx, s, f.held[0], statemachine.Terminal(statemachine.ClassTooLarge, err))
	default:
		if !errors.Is(err, statemachine.ErrFormat) {
			l.w.trouble(onNATS, err)
		}
		s.history = true // unknown is unknown: it is read before anything else is done
		l.later(s, l.w.cfg.beat())
	}
}

// committed takes the record that was appended as the state. now is when the
// answer came.
func (l *lane) committed(s *slot, a Appended, now time.Time) {
	l.w.metrics.committed.Inc()
	l.w.fine(onNATS)
	rec := &s.fold.sealed.Stored
	rec.Seq = a.Seq
	if s.state != nil {
		l.w.disarmer.add(over(s.state.Record, rec.Record))
	}
	s.sealed = nil
	s.see(rec, a.Sent)
	s.again = s.fold.more
	for _, h := range s.fold.held {
		h.known = true
	}
	if len(rec.Outbox) == 0 {
		s.flushed = rec.Txid
	}
	l.w.metrics.moved(rec.Record)
	l.w.metrics.append.Observe(now.Sub(a.Sent).Seconds())
	for _, r := range s.fold.results {
		l.w.metrics.step.Observe(now.Sub(r.call.pending.At).Seconds())
	}
	keep := s.results[:0]
	for _, r := range s.results {
		if !contains(s.fold.release, r.call.pending.ID) {
			keep = append(keep, r)
		}
	}
	clear(s.results[len(keep):])
	s.results = keep
	l.answered(s)
}

// save calls at once what the records of the round ask, where their appends were
// sent less than F ago, and has the copies written with the claims: those follow
// within G, until when all others leave these effects alone. What is not called
// here is resumed.
func (l *lane) save(slots []*slot) {
	var saves []Save
	prompt := !l.w.health.away() // else claims would not follow
	for _, s := range slots {
		if s.fold == nil {
			continue
		}
		if len(saves) == 0 {
			_ = crash.Point("turn.committed")
		}
		v := Save{Release: s.fold.release, Owner: l.w.cfg.ID, Lease: l.w.cfg.lease()}
		for _, id := range s.fold.claims {
			if prompt && time.Since(s.sent) < l.w.cfg.fresh() {
				l.start(s, s.pending(id), false)
				v.Claim = append(v.Claim, id)
			}
		}
		stored := *s.state // the lane goes on with its own
		v.Stored = &stored
		saves = append(saves, v)
	}
	if len(saves) == 0 {
		return
	}
	_ = crash.Point("turn.called")
	l.saver.add(func(b *batch) {
		for _, v := range saves {
			b.put(v)
		}
	})
}

// settle has acked what may be, after the copy, and keeps or gives back the
// rest. A message is kept only while something of it goes on here.
func (l *lane) settle(s *slot) {
	keep := s.held[:0]
	var acks []*held
	for _, h := range s.held {
		switch {
		case s.mayAck(h):
			acks = append(acks, h)
			l.w.settled(h) // it takes no place while it waits for its ack
		case l.busy(s, h):
			keep = append(keep, h)
		default:
			_ = h.m.Nak(max(s.waiting, 20*time.Millisecond))
			l.w.settled(h)
		}
	}
	clear(s.held[len(keep):])
	s.held = keep
	if len(acks) > 0 {
		l.saver.add(func(b *batch) { b.acks = append(b.acks, acks...) })
	}
	if s.empty() {
		l.forget(s)
	}
}

// busy reports whether something of a message goes on here.
func (l *lane) busy(s *slot, h *held) bool {
	for c := range s.calls {
		if c.serves(h) {
			return true
		}
	}
	return !l.w.stopping() && time.Now().Before(h.kept)
}

// giveBack returns messages when the stores are away, and keeps results:
// they are recorded when the stores are back.
func (l *lane) giveBack(slots []*slot) {
	for _, s := range slots {
		s.history = s.known
		s.waiting = l.w.cfg.beat()
		if len(s.running) > 0 || len(s.results) > 0 {
			l.later(s, l.w.cfg.beat())
			continue
		}
		for _, h := range s.held {
			_ = h.m.Nak(l.w.cfg.beat())
			l.w.settled(h)
		}
		s.held = nil
		l.forget(s)
	}
}

// later has the run looked at again after d.
func (l *lane) later(s *slot, d time.Duration) {
	at := time.Now().Add(d)
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
		l.due[s.run] = s
	}
	s.waiting = max(s.waiting, d)
}
