package natsqueue

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

var _ worker.Mail = (*Publisher)(nil)

// Stored implements worker.Mail. Any replica answers: one that is behind lets
// a message be published twice, which harms nothing.
func (p *Publisher) Stored(ctx context.Context, items []outbox.Item) ([]bool, error) {
	out := make([]bool, len(items))
	at := map[string][]int{} // items by a subject that their message may have
	asked := map[string][]string{}
	for i, it := range items {
		stream, subjects := p.places(it)
		for _, s := range subjects {
			if at[s] == nil {
				asked[stream] = append(asked[stream], s)
			}
			at[s] = append(at[s], i)
		}
	}
	for stream, subjects := range asked {
		for len(subjects) > 0 {
			n := min(lastChunk, len(subjects))
			err := p.lastOf(ctx, stream, subjects[:n], func(m *raw) {
				for _, i := range at[m.subject] {
					out[i] = true
				}
			})
			if err != nil {
				return nil, fmt.Errorf("look for messages in %s: %w", p.subj.stream(stream), err)
			}
			subjects = subjects[n:]
		}
	}
	return out, nil
}

// places are the stream and the subjects where the message of an entry may be.
// A timer is a schedule until it fires, and what it fired until that is acked.
func (p *Publisher) places(it outbox.Item) (stream string, subjects []string) {
	e := it.Entry
	switch e.Kind {
	case statemachine.EntryEffect:
		return streamEffects, []string{p.subj.effect(e.Effect, it.Run, e.ID)}
	case statemachine.EntryTimer:
		return streamTimers, []string{p.subj.timer(it.Run, e.ID, e.Try), p.subj.due(it.Run, e.ID, e.Try)}
	}
	return "", nil
}
