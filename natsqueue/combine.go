package natsqueue

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// combiner lets what several callers send to one stream share batches: what
// comes while a batch is on its way goes, all of it, as the next. The server
// works on one batch at a time anyway, and a batch costs it the same syncs
// whatever its size.
type combiner[M, A any] struct {
	// ship sends messages; its answers are parallel. It ends when the server
	// says nothing for Quiet; that is not cut short, since others depend on it.
	ship func(ctx context.Context, msgs []M) []A

	mu      sync.Mutex
	busy    bool // somebody leads
	waiting []*turn[M, A]
}

// turn is what one caller sends.
type turn[M, A any] struct {
	msgs    []M
	answers []A
	lead    chan bool // true: lead the next batch; false: answers are there
}

// send sends messages, together with those of others. The answers are
// parallel. A caller waits for at most two batches.
func (c *combiner[M, A]) send(ctx context.Context, msgs []M) []A {
	t := &turn[M, A]{msgs: msgs, lead: make(chan bool, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, t)
	first := !c.busy
	c.busy = true
	c.mu.Unlock()
	if !first && !<-t.lead {
		return t.answers
	}
	c.mu.Lock()
	turns := c.waiting
	c.waiting = nil
	c.mu.Unlock()

	var all []M
	for _, one := range turns {
		all = append(all, one.msgs...)
	}
	answers := c.ship(context.WithoutCancel(ctx), all)
	for _, one := range turns {
		one.answers, answers = answers[:len(one.msgs)], answers[len(one.msgs):]
		if one != t {
			one.lead <- false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy = len(c.waiting) > 0; c.busy {
		c.waiting[0].lead <- true
	}
	return t.answers
}

// grouped is the ship of messages that may go one by one as well: as a batch,
// unless there are too few for one.
func (l *link) grouped(stream string) func(ctx context.Context, msgs []*nats.Msg) []ack {
	return func(ctx context.Context, msgs []*nats.Msg) []ack {
		l.opts.Gathered(stream, len(msgs))
		if len(msgs) < leastBatch {
			return l.sendEach(ctx, msgs)
		}
		return l.sendBatches(ctx, msgs)
	}
}

// together publishes messages of one stream as a batch where that is possible,
// and what the broker does not take so one by one. One may be stored twice.
func (l *link) together(ctx context.Context, c *combiner[*nats.Msg, ack], msgs []*nats.Msg) []ack {
	if !l.group {
		return l.send(ctx, msgs)
	}
	acks := c.send(ctx, msgs)
	var left []*nats.Msg
	var at []int
	for i, a := range acks {
		if a.verdict != stored {
			left, at = append(left, msgs[i]), append(at, i)
		}
	}
	for k, a := range l.send(ctx, left) {
		acks[at[k]] = a
	}
	return acks
}
