package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// How an effect that may not begin waits. For a short time its message is kept
// here, prolonged; for a longer one it is put off, by a schedule in TIMERS, and
// nobody holds it. Messages of a type that is paused, or whose type as a whole
// is at its limit, are not pulled.
const (
	keptFor   = 2 * time.Second // a schedule is up to a quarter of a second late
	typeEvery = 5 * time.Second // at the latest, a type's limit is asked again

	// What is held up is looked at again after this at the latest: it may go on
	// sooner than was said. That of a paused state is after a quarter of the time
	// that it has been paused.
	heldMost    = time.Minute
	pausedEvery = 5 * time.Second // … and after this at the soonest

	postponers = 64 // postponements under way at once
)

// flowState returns the state of a run that asked for a pending effect.
func flowState(r *statemachine.Record, p *statemachine.Pending) string {
	for i := range r.Frames {
		if r.Frames[i].ID == p.Frame {
			return r.Frames[i].State
		}
	}
	return r.To
}

// countHeld says what is held up now.
func (w *Worker) countHeld() {
	for _, kind := range []flow.Kind{flow.KindEffect, flow.KindState, flow.KindKey} {
		w.metrics.upheld.WithLabelValues(string(kind)).Set(float64(w.ports.Flow.Board().Count(kind)))
	}
}

// unhindered reports whether an effect of a run in a state may be asked inline:
// no limit is on its type, and nothing holds it up.
func (w *Worker) unhindered(p *statemachine.Pending, machine, state string) bool {
	if _, limited := w.cfg.Limits[p.Effect]; limited {
		return false
	}
	_, held := w.ports.Flow.Board().Why(p.Effect, p.Flow, machine, state)
	return !held
}

// admitted returns those of the candidates that may begin now, with their
// permits taken, and has the others wait. An inline one that may not is left
// alone: a record will queue it.
func (l *lane) admitted(ctx context.Context, found []candidate) []candidate {
	var free, limited []candidate
	var asks []Permit
	var later []postponement
	for _, c := range found {
		machine, state := c.s.state.Machine, flowState(c.s.state.Record, c.p)
		limit, isLimited := l.w.cfg.Limits[c.p.Effect]
		n, held := l.w.ports.Flow.Board().Why(c.p.Effect, c.p.Flow, machine, state)
		switch {
		case c.p.Place == statemachine.Inline && (held || isLimited):
		case held:
			l.w.metrics.waits.WithLabelValues(c.p.Effect, string(n.Kind)).Inc()
			later = l.heldUp(later, c, n)
		case isLimited:
			limited = append(limited, c)
			asks = append(asks, Permit{Effect: c.p.Effect, Key: c.p.Flow, ID: c.p.ID, Owner: l.w.cfg.ID, Limit: limit, Lease: l.w.cfg.lease()})
		default:
			free = append(free, c)
		}
	}
	if len(asks) > 0 {
		var taken []Taken
		var err error
		l.beatWhile(ctx, func() { taken, err = l.w.ports.Permits.Take(ctx, asks) })
		if err != nil {
			l.w.trouble(onRedis, err)
		}
		for i, c := range limited {
			switch {
			case err != nil:
				c.s.waiting = max(c.s.waiting, l.w.cfg.beat())
			case taken[i].OK:
				l.w.permits.took(asks[i])
				free = append(free, c)
			default:
				l.w.metrics.waits.WithLabelValues(c.p.Effect, string(taken[i].By)).Inc()
				wait := taken[i].Wait
				if by := taken[i].By; by == LimitConcurrency || by == LimitRate {
					l.keep(c, min(wait, typeEvery))
					continue
				}
				later = l.comeAgain(later, c, wait)
			}
		}
	}
	l.postponeAll(ctx, later)
	return free
}

// heldUp has an effect wait for what holds it up.
func (l *lane) heldUp(later []postponement, c candidate, n flow.Notice) []postponement {
	switch n.Kind {
	case flow.KindKey:
		wait := min(time.Until(n.Until), heldMost)
		return l.comeAgain(later, c, wait+spread(wait))
	case flow.KindState:
		wait := min(max(time.Since(n.At)/4, pausedEvery), heldMost)
		return l.comeAgain(later, c, wait+spread(wait))
	}
	c.s.waiting = max(c.s.waiting, keptFor) // its queue is not pulled from: there it lies
	return later
}

// spread is a part of a wait that is left to chance, so that not all who wait
// for the same come together.
func spread(wait time.Duration) time.Duration {
	return rand.N(max(wait/10, time.Millisecond))
}

// comeAgain has an effect's message come again after a while: kept here if it
// is a short one.
func (l *lane) comeAgain(later []postponement, c candidate, wait time.Duration) []postponement {
	if wait <= keptFor {
		l.keep(c, wait)
		return later
	}
	for _, h := range c.s.held {
		if h.m.Kind == queue.Effect && h.m.ID == c.p.ID && !h.spent {
			later = append(later, postponement{c.s, h, time.Now().Add(wait)})
		}
	}
	return later
}

// keep holds on to an effect's message until it is asked for again.
func (l *lane) keep(c candidate, wait time.Duration) {
	for _, h := range c.s.held {
		if h.m.Kind == queue.Effect && h.m.ID == c.p.ID {
			h.kept = time.Now().Add(wait + l.w.cfg.beat())
		}
	}
	l.later(c.s, max(wait, time.Millisecond))
}

// postponement is a message that is to come again at a time.
type postponement struct {
	s  *slot
	h  *held
	at time.Time
}

// postponeAll schedules copies of messages, side by side.
func (l *lane) postponeAll(ctx context.Context, all []postponement) {
	if len(all) == 0 {
		return
	}
	errs := make([]error, len(all))
	l.beatWhile(ctx, func() {
		var g sync.WaitGroup
		slots := make(chan struct{}, postponers)
		for i, p := range all {
			slots <- struct{}{}
			g.Go(func() {
				errs[i] = l.w.ports.Source.Postpone(ctx, p.h.m, p.at, p.h.m.Tries+1)
				<-slots
			})
		}
		g.Wait()
	})
	for i, p := range all {
		if errs[i] != nil {
			l.w.trouble(onNATS, errs[i])
			p.s.waiting = max(p.s.waiting, l.w.cfg.beat())
			continue
		}
		p.h.spent = true
	}
}

// returnUnused gives back the permits of those that did not begin after all.
func (l *lane) returnUnused(admitted []candidate) {
	for _, c := range admitted {
		if c.s.running[c.p.ID] == nil {
			l.w.permits.done(c.p.ID, false)
		}
	}
}

// throttled closes the flow key of an effect to the whole fleet if its handler
// says that the provider wants that.
func (w *Worker) throttled(p *statemachine.Pending, err error) {
	d, ok := statemachine.ThrottledFor(err)
	if !ok {
		return
	}
	now := time.Now()
	n := flow.Notice{Kind: flow.KindKey, Effect: p.Effect, Key: p.Flow, Held: true, At: now.UTC(), By: w.cfg.ID, Reason: messageOf(err)}
	board := w.ports.Flow.Board()
	if have, ok := board.Get(n.Subject()); ok && !have.Until.Before(now.Add(d)) {
		return // said already, by another answer to the same wave
	}
	n.Until = now.Add(d + d/10).UTC() // the later answers to a wave say a later time: most need no notice of their own
	board.Apply(n)                    // here at once
	ctx, cancel := context.WithTimeout(w.work, w.cfg.beat())
	defer cancel()
	if err := w.ports.Flow.Post(ctx, n); err != nil { // the others learn by their own calls
		w.log.Warn("could not tell the fleet to wait", logkey.Effect, p.Effect, logkey.Error, err)
		return
	}
	w.log.Info("closed a flow key", logkey.Effect, p.Effect, logkey.Key, p.Flow, logkey.Wait, d)
}

// unpaused waits until an effect type may be pulled; false if ctx ended first.
func (w *Worker) unpaused(ctx context.Context, c consumer) bool {
	board := w.ports.Flow.Board()
	for first := true; ; first = false {
		changed := board.Changed()
		if _, paused := board.Effect(c.effect); !paused {
			return ctx.Err() == nil
		}
		if first {
			w.giveBack(c)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// toQueues gives effects whose wait is over back to the queue of their type, and
// returns the other messages: a queue has its own bounds, and may be paused.
func (w *Worker) toQueues(c consumer, messages []queue.Message) []queue.Message {
	var effects, others []queue.Message
	for _, m := range messages {
		if m.Kind == queue.Effect && m.Fault == nil {
			effects = append(effects, m)
			continue
		}
		others = append(others, m)
	}
	if len(effects) == 0 {
		return messages
	}
	for i, err := range w.ports.Source.Requeue(w.work, effects) {
		if err != nil {
			w.trouble(onNATS, fmt.Errorf("requeue an effect: %w", err))
			_ = effects[i].Nak(w.cfg.beat())
			continue
		}
		_ = effects[i].Ack()
	}
	c.gate.put(len(effects))
	return others
}

// permits are those that handlers of this worker have.
type permits struct {
	mu    sync.Mutex
	inUse map[string]usedPermit // by effect id
	over  []Permit              // to be returned
	wake  chan struct{}         // size 1: there are some
	count func(effect string, n int)
}

type usedPermit struct {
	Permit
	since time.Time
}

func (p *permits) took(one Permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse == nil {
		p.inUse = map[string]usedPermit{}
	}
	p.inUse[one.ID] = usedPermit{one, time.Now()}
	p.count(one.Effect, 1)
}

// done returns the permit of an effect, if it has one, used or not.
func (p *permits) done(id string, used bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.inUse[id]
	if !ok {
		return
	}
	delete(p.inUse, id)
	p.count(one.Effect, -1)
	if used {
		one.Took = max(time.Since(one.since), time.Millisecond)
	}
	p.over = append(p.over, one.Permit)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// all returns those in use and those to be returned.
func (p *permits) all() (inUse, over []Permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.inUse {
		inUse = append(inUse, one.Permit)
	}
	over, p.over = p.over, nil
	return inUse, over
}

// keepPermits prolongs the permits in use and returns the others, until ctx
// ends. One that cannot be returned runs out.
func (w *Worker) keepPermits(ctx context.Context) {
	every := time.NewTicker(w.cfg.lease() / 4)
	defer every.Stop()
	for ctx.Err() == nil {
		renew := false
		select {
		case <-w.permits.wake:
		case <-every.C:
			renew = true
		case <-ctx.Done():
		}
		w.countHeld()
		inUse, over := w.permits.all()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.lease()/4)
		if len(over) > 0 {
			if err := w.ports.Permits.Return(limit, over); err != nil {
				w.trouble(onRedis, err)
			}
		}
		if renew && len(inUse) > 0 {
			if err := w.ports.Permits.RenewPermits(limit, inUse); err != nil {
				w.trouble(onRedis, err)
			}
		}
		cancel()
	}
}
