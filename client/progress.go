package client

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/queue"
)

// Progress is what the handler of an effect told of an attempt under way.
type Progress struct {
	Run      string
	Effect   string // its type
	EffectID string
	Attempt  int // from 1
	At       time.Time
	First    int               // which of the attempt's items is the first here, from 0; those in between are lost
	Items    []json.RawMessage // in the order they were told
	Sequence uint64            // in the stream, for Progress of the client
}

// Progress follows what handlers tell of a run's attempts: what was told after
// a sequence, and what will be, until ctx ends. 0 is all that is still kept,
// which is an hour's at most. It may be asked for before the run is started.
// It is ranged over once.
//
//	for p, err := range events {
//		last = p.Sequence // whoever is cut off goes on after it
//	}
func (c *Client) Progress(ctx context.Context, run string, after uint64) (iter.Seq2[*Progress, error], error) {
	const op = "follow the progress of a run"
	if err := queue.CheckRun(run); err != nil {
		return nil, invalid(op, err)
	}
	messages, err := c.messages(ctx, op, "PROGRESS", c.subj.progress(run), func(jetstream.Stream) uint64 { return after })
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, messages.Stop) // whoever never ranges over it leaves nothing behind, either
	return func(yield func(*Progress, error) bool) {
		for m, err := range each(ctx, op, messages) {
			if err != nil {
				yield(nil, err)
				return
			}
			meta, err := m.Metadata()
			var t queue.Progress
			if err != nil || json.Unmarshal(m.Data(), &t) != nil || len(t.Items) == 0 {
				continue // who performs effects may send there; this is none of progress
			}
			p := &Progress{Run: run, Effect: t.Effect, EffectID: t.ID, Attempt: t.Attempt, At: t.At, First: t.First, Items: t.Items, Sequence: meta.Sequence.Stream}
			if !yield(p, nil) {
				return
			}
		}
	}, nil
}
