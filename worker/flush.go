package worker

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// flush publishes the outboxes of the slots' states, unless that is known to
// be done, and notes it.
func (l *lane) flush(ctx context.Context, slots []*slot) {
	l.find(ctx, slots)
	var items []outbox.Item
	var of []*slot
	for _, s := range slots {
		if s.isFlushed() {
			continue
		}
		for _, it := range outbox.Items(s.state) {
			items, of = append(items, it), append(of, s)
		}
	}
	if len(items) == 0 {
		return
	}
	failed := map[*slot]bool{}
	var published []error
	l.beatWhile(ctx, func() { published = l.w.publish(ctx, items) })
	_ = crash.Point("outbox.published")
	for i, err := range published {
		if err == nil {
			continue
		}
		failed[of[i]] = true
		if items[i].Entry.Kind == statemachine.EntryLetter || errors.Is(err, errBoxed) { // a full DLQ holds this run, not the worker
			of[i].waiting = max(of[i].waiting, l.w.letters.wait())
			continue
		}
		l.w.trouble(onNATS, err)
	}
	var hints []Hint
	for _, s := range of {
		if failed[s] || s.flushed == s.state.Txid {
			continue
		}
		s.flushed = s.state.Txid
		if !wakesOne(s.state.Outbox) {
			hints = append(hints, Hint{Run: s.run, Txid: s.state.Txid})
		}
	}
	for i, it := range items {
		if it.Entry.Kind == statemachine.EntryLetter && !failed[of[i]] {
			l.w.metrics.letter("effect", classOfLetter(it.Entry.Body))
		}
	}
	if len(hints) > 0 {
		l.saver.add(func(b *batch) { b.hints = append(b.hints, hints...) })
	}
}

// find spares the publishing of messages that are in hand or still stored: a
// second one would only bring another worker to an effect that is under way.
func (l *lane) find(ctx context.Context, slots []*slot) {
	var items []outbox.Item
	var of []*slot
	for _, s := range slots {
		switch {
		case s.isFlushed():
		case s.told():
			s.flushed = s.state.Txid
		case s.sent.IsZero() && wakesOne(s.state.Outbox):
			items, of = append(items, outbox.Items(s.state)...), append(of, s)
		}
	}
	if len(items) == 0 {
		return
	}
	var stored []bool
	var err error
	l.beatWhile(ctx, func() { stored, err = l.w.ports.Mail.Stored(ctx, items) })
	if err != nil {
		l.w.trouble(onNATS, err)
		return
	}
	for i, s := range of {
		if stored[i] {
			s.flushed = s.state.Txid
		}
	}
}

// wakesOne reports whether an outbox is the message of one queued effect. Most
// often the next who loads the run holds that very message, which tells as much
// as a hint; all others look for it.
func wakesOne(box []statemachine.Entry) bool {
	return len(box) == 1 && box[0].Kind == statemachine.EntryEffect
}

// told reports whether a message in hand shows that the state's outbox was
// published: it stood there, alone.
func (s *slot) told() bool {
	if s.state == nil || !wakesOne(s.state.Outbox) {
		return false
	}
	for _, h := range s.held {
		if h.m.Kind == queue.Effect && h.m.ID == s.state.Outbox[0].ID && h.m.Asked == s.state.Seq {
			return true
		}
	}
	return false
}

// classOfLetter is the class that the letter of an effect names.
func classOfLetter(body []byte) string {
	var letter statemachine.Letter
	if err := json.Unmarshal(body, &letter); err != nil {
		return statemachine.ClassError
	}
	return letter.Class
}
