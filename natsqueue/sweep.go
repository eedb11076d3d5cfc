package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
// not at all. An error that is statemachine.ErrFormat is about one run, any
// other ends it.
func (g *Log) Sweep(ctx context.Context, partition int) iter.Seq2[*statemachine.Stored, error] {
	return func(yield func(*statemachine.Stored, error) bool) {
		if partition < 0 || partition >= queue.Partitions {
			yield(nil, fmt.Errorf("sweep partition %d: there are 0 to %d", partition, queue.Partitions-1))
			return
		}
		// One read answers for as many runs as it may; only a partition with
		// more is worth a consumer, which a cluster has to agree on.
		records := g.lasts(ctx, streamHistory, []string{g.subj.partition(partition)})
		for m, err := range records {
			if errors.Is(err, errTooMany) {
				g.sweepMany(ctx, partition, yield)
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("sweep partition %d: %w", partition, err))
				return
			}
			if s, err := m.record(); !yield(s, err) {
				return
			}
		}
	}
}

// sweepMany sweeps by a consumer of its own.
func (g *Log) sweepMany(ctx context.Context, partition int, yield func(*statemachine.Stored, error) bool) {
	fail := func(err error) { yield(nil, fmt.Errorf("sweep partition %d: %w", partition, err)) }
	stream, name := g.subj.stream(streamHistory), "sweep-"+newID()
	left, err := g.sweeper(ctx, stream, name, partition)
	if err != nil {
		fail(err)
		return
	}
	defer g.dismiss(ctx, stream, name)
	for left > 0 {
		msgs, err := g.pull(ctx, stream, name, int(min(left, sweepChunk)))
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

// pull takes what there is from a consumer, and nothing once there is no more.
// In a cluster, the news of a consumer may reach this client's server after
// the consumer's own answer.
func (g *Log) pull(ctx context.Context, stream, name string, n int) (msgs []*nats.Msg, err error) {
	err = g.retry(ctx, "pull", func() error {
		p, err := newPuller(g.link, stream, name)
		if err != nil {
			return err
		}
		defer p.close()
		for {
			if msgs, err = p.fetch(ctx, n, 0); err != nil || len(msgs) > 0 || !p.open {
				return err
			}
		}
	})
	return msgs, err
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
