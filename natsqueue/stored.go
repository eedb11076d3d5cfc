package natsqueue

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

var _ worker.Mail = (*Publisher)(nil)

// Stored implements worker.Mail. Any replica answers: one that is behind lets
// a message be published twice, which harms nothing. Of what is not where it
// was published, a postponed copy may be on its way.
func (p *Publisher) Stored(ctx context.Context, items []outbox.Item) ([]bool, error) {
	out := make([]bool, len(items))
	if err := p.find(ctx, items, p.places, out); err != nil {
		return nil, err
	}
	if err := p.find(ctx, items, p.postponedPlaces, out); err != nil {
		return nil, err
	}
	return out, nil
}

// find notes which of the items that were not found yet have a message in the
// places given.
func (p *Publisher) find(ctx context.Context, items []outbox.Item, places func(outbox.Item) (string, []string), out []bool) error {
	at := map[string][]int{} // items by a subject that their message may have
	asked := map[string][]string{}
	for i, it := range items {
		if out[i] {
			continue
		}
		stream, subjects := places(it)
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
				return fmt.Errorf("look for messages in %s: %w", p.subj.stream(stream), err)
			}
			subjects = subjects[n:]
		}
	}
	return nil
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

// postponedPlaces are where a postponed copy of an entry's message may be.
func (p *Publisher) postponedPlaces(it outbox.Item) (stream string, subjects []string) {
	e := it.Entry
	var id string
	switch e.Kind {
	case statemachine.EntryEffect:
		id = wakeID(queue.Effect, it.Run, e.ID, 0)
	case statemachine.EntryTimer:
		id = wakeID(queue.Due, it.Run, e.ID, e.Try)
	default:
		return "", nil
	}
	return streamTimers, []string{p.subj.later(id), p.subj.dueLater(id)}
}
