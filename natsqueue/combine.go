package natsqueue

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// combiner lets what several lanes send to one stream share batches: what
// comes while a batch is on its way goes, all of it, as the next. The server
// works on one batch at a time anyway, and a batch costs it the same syncs
// whatever its size.
type combiner struct {
	stream string

	mu      sync.Mutex
	busy    bool // somebody leads
	waiting []*turn
}

// turn is what one caller sends.
type turn struct {
	msgs []*nats.Msg
	acks []ack
	lead chan bool // true: lead the next batch; false: acks are there
}

// send sends messages as part of a batch, unless there are too few for one.
// The answers are parallel. A caller
// waits for at most two batches, each of which ends when the server says
// nothing for Quiet; that is not cut short, since others depend on it.
func (c *combiner) send(ctx context.Context, l *link, msgs []*nats.Msg) []ack {
	t := &turn{msgs: msgs, lead: make(chan bool, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, t)
	first := !c.busy
	c.busy = true
	c.mu.Unlock()
	if !first && !<-t.lead {
		return t.acks
	}
	c.mu.Lock()
	turns := c.waiting
	c.waiting = nil
	c.mu.Unlock()

	var all []*nats.Msg
	for _, one := range turns {
		all = append(all, one.msgs...)
	}
	l.opts.Gathered(c.stream, len(all))
	ctx = context.WithoutCancel(ctx)
	var acks []ack
	if len(all) < leastBatch {
		acks = l.sendEach(ctx, all)
	} else {
		acks = l.sendBatches(ctx, all)
	}
	for _, one := range turns {
		one.acks, acks = acks[:len(one.msgs)], acks[len(one.msgs):]
		if one != t {
			one.lead <- false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy = len(c.waiting) > 0; c.busy {
		c.waiting[0].lead <- true
	}
	return t.acks
}
