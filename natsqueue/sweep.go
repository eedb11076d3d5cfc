package natsqueue

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

const (
	sweepChunk = 500
	// sweepIdle is when the server removes a sweep's consumer that nobody
	// removed.
	sweepIdle = time.Minute
)

// Sweep implements worker.Log. It ends with the last record that was there
// when it began; a run that moved meanwhile may come in its newer state, or
// not at all.
func (g *Log) Sweep(ctx context.Context, partition int) iter.Seq2[*statemachine.Stored, error] {
	return func(yield func(*statemachine.Stored, error) bool) {
		fail := func(err error) { yield(nil, fmt.Errorf("sweep partition %d: %w", partition, err)) }
		if partition < 0 || partition >= queue.Partitions {
			fail(fmt.Errorf("there are partitions 0 to %d", queue.Partitions-1))
			return
		}
		stream, name := g.subj.stream(streamHistory), "sweep-"+nuid.Next()
		left, err := g.sweeper(ctx, stream, name, partition)
		if err != nil {
			fail(err)
			return
		}
		defer g.dismiss(ctx, stream, name)
		if left == 0 {
			return
		}
		p, err := newPuller(g.link, stream, name)
		if err != nil {
			fail(err)
			return
		}
		defer p.close()
		for left > 0 {
			msgs, err := p.fetch(ctx, int(min(left, sweepChunk)), 0)
			if err != nil {
				fail(err)
				return
			}
			if len(msgs) == 0 { // removed meanwhile
				return
			}
			for _, m := range msgs {
				left--
				meta, err := m.Metadata()
				if err != nil {
					fail(err)
					return
				}
				r := raw{subject: m.Subject, seq: meta.Sequence.Stream, time: meta.Timestamp, data: m.Data}
				if s, err := r.record(); !yield(s, err) {
					return
				}
			}
		}
	}
}

// sweeper makes a consumer over the last records of a partition, and returns
// how many there are.
func (g *Log) sweeper(ctx context.Context, stream, name string, partition int) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.Patience)
	defer cancel()
	c, err := g.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Name:              name,
		FilterSubject:     g.subj.partition(partition),
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: sweepIdle,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return 0, unavailable("create consumer", err)
	}
	return c.CachedInfo().NumPending, nil
}

// dismiss removes a sweep's consumer, also when the sweep was cancelled; the
// server would remove it a little later.
func (g *Log) dismiss(ctx context.Context, stream, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.Quiet)
	defer cancel()
	if err := g.js.DeleteConsumer(ctx, stream, name); err != nil {
		g.opts.Logger.Debug("consumer of a sweep not removed", "consumer", name, "error", err)
	}
}
