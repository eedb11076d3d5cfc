package worker

import (
	"context"
	"encoding/json"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/statemachine"
)

// flush publishes the outboxes of the slots' states, unless that is known to
// be done, and notes it.
func (l *lane) flush(ctx context.Context, slots []*slot) {
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
	for i, err := range l.w.ports.Mail.Publish(ctx, items) {
		switch {
		case err == nil:
		case items[i].Entry.Kind == statemachine.EntryLetter: // a full DLQ holds this run, not the worker
			failed[of[i]] = true
			l.log.Error("could not store a letter", logkey.Run, of[i].run, logkey.Error, err)
		default:
			failed[of[i]] = true
			l.w.trouble(onNATS, err)
		}
	}
	var hints []Hint
	for _, s := range of {
		if failed[s] || s.flushed == s.state.Txid {
			continue
		}
		s.flushed = s.state.Txid
		hints = append(hints, Hint{Run: s.run, Txid: s.state.Txid})
	}
	for i, it := range items {
		if it.Entry.Kind == statemachine.EntryLetter && !failed[of[i]] {
			l.w.metrics.letter("effect", classOfLetter(it.Entry.Body))
		}
	}
	if len(hints) == 0 {
		return
	}
	if err := l.w.ports.Shadow.Flushed(ctx, hints); err != nil {
		l.w.trouble(onRedis, err) // the next one to load the run flushes again
	}
}

// classOfLetter is the class that the letter of an effect names.
func classOfLetter(body []byte) string {
	var letter statemachine.Letter
	if err := json.Unmarshal(body, &letter); err != nil {
		return statemachine.ClassError
	}
	return letter.Class
}
