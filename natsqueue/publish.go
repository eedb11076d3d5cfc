package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// Publisher publishes the outboxes of records.
type Publisher struct{ *link }

// wake is the body of a message that wakes a run for one of its effects. It is
// whole: subjects and headers only repeat what they can carry of it.
type wake struct {
	Run    string `json:"run"`
	Effect string `json:"effect"`         // effect id
	Type   string `json:"type,omitempty"` // effect type
	Try    int    `json:"try,omitempty"`  // which try is due
	Asked  uint64 `json:"asked"`          // sequence of the record in whose outbox it stood
}

// Publish implements outbox.Publisher. All items are under way at once.
func (p *Publisher) Publish(ctx context.Context, items []outbox.Item) []error {
	errs := make([]error, len(items))
	wrap := func(i int, err error) {
		e := items[i].Entry
		errs[i] = fmt.Errorf("publish %s %s of run %s: %w", e.Kind, quoted(e.ID), quoted(items[i].Run), err)
	}
	msgs := make([]*nats.Msg, 0, len(items))
	at := make([]int, 0, len(items))
	var letters []deadletter.Letter
	var letterAt []int
	for i, item := range items {
		if item.Entry.Kind == statemachine.EntryLetter && item.Entry.ID != "" {
			d, err := p.letterOf(item)
			if err != nil {
				wrap(i, err)
				continue
			}
			letters, letterAt = append(letters, d), append(letterAt, i)
			continue
		}
		m, err := p.message(ctx, item)
		if err != nil {
			wrap(i, err)
			continue
		}
		msgs, at = append(msgs, m), append(at, i)
	}
	if p.group {
		msgs, at = p.publishBatches(ctx, items, msgs, at)
	}
	for k, a := range p.send(ctx, msgs) {
		if err := a.err(); err != nil {
			wrap(at[k], err)
		}
	}
	for k, err := range p.post(ctx, letters) {
		if err != nil {
			wrap(letterAt[k], err)
		}
	}
	return errs
}

// publishBatches publishes wake-ups and ends as batches, by stream, and returns what is
// left to be published one by one: what was not acknowledged. A wake-up may
// come twice.
func (p *Publisher) publishBatches(ctx context.Context, items []outbox.Item, msgs []*nats.Msg, at []int) (left []*nats.Msg, leftAt []int) {
	byKind := map[statemachine.EntryKind][]int{} // indexes of msgs
	for k := range msgs {
		kind := items[at[k]].Entry.Kind
		byKind[kind] = append(byKind[kind], k)
	}
	combiners := map[statemachine.EntryKind]*combiner[*nats.Msg, ack]{
		statemachine.EntryEffect: &p.effects, statemachine.EntryTimer: &p.timers, statemachine.EntryFinished: &p.ends,
	}
	for kind, ks := range byKind {
		var acks []ack
		if c := combiners[kind]; c != nil {
			batch := make([]*nats.Msg, len(ks))
			for i, k := range ks {
				batch[i] = msgs[k]
			}
			acks = c.send(ctx, batch)
		}
		for i, k := range ks {
			if acks == nil || acks[i].verdict != stored {
				left, leftAt = append(left, msgs[k]), append(leftAt, at[k])
			}
		}
	}
	return left, leftAt
}

// message makes the message of one entry that is no letter.
func (p *Publisher) message(ctx context.Context, item outbox.Item) (*nats.Msg, error) {
	e := item.Entry
	if e.ID == "" {
		return nil, errors.New("an entry without an id")
	}
	switch e.Kind {
	case statemachine.EntryEffect:
		if err := checkEffect(e.Effect); err != nil {
			return nil, err
		}
		return p.wake(p.subj.effect(e.Effect, item.Run, e.ID), wake{Run: item.Run, Effect: e.ID, Type: e.Effect, Asked: item.Seq}), nil
	case statemachine.EntryTimer:
		if e.Due == nil {
			return nil, errors.New("a timer without a time")
		}
		m := p.wake(p.subj.timer(item.Run, e.ID, e.Try), wake{Run: item.Run, Effect: e.ID, Type: e.Effect, Try: e.Try, Asked: item.Seq})
		schedule(m, *e.Due, p.subj.due(item.Run, e.ID, e.Try))
		return m, nil
	case statemachine.EntryFinished:
		return p.finished(item)
	case statemachine.EntryChild:
		return p.childStart(ctx, item)
	case statemachine.EntryStop:
		return p.childStop(item)
	case statemachine.EntryAnswer:
		return p.answer(item)
	}
	return nil, fmt.Errorf("no queue takes an entry of kind %s", quoted(string(e.Kind)))
}

// wake makes the message of a wake.
func (l *link) wake(subject string, w wake) *nats.Msg {
	body, _ := json.Marshal(w) // strings and numbers
	return &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		headerRun:   {headerValue(w.Run)},
		headerAsked: {strconv.FormatUint(w.Asked, 10)},
	}}
}

// schedule turns a message into one that the broker publishes at the given
// time. It never has a Nats-Msg-Id: arming again must replace. The client's
// own option would cut the time to whole seconds, which is early.
func schedule(m *nats.Msg, at time.Time, target string) {
	m.Header[headerSchedule] = []string{"@at " + at.UTC().Format(time.RFC3339Nano)}
	m.Header[headerTarget] = []string{target}
}

// letterOf is the dead letter of an effect that was given up on.
func (p *Publisher) letterOf(item outbox.Item) (deadletter.Letter, error) {
	var l statemachine.Letter
	if err := json.Unmarshal(item.Entry.Body, &l); err != nil {
		return deadletter.Letter{}, fmt.Errorf("the letter: %w", err)
	}
	var headers map[string]string
	if l.Tenant != "" {
		headers = map[string]string{headerTenant: l.Tenant}
	}
	return deadletter.Letter{
		ID:       l.ID,
		Kind:     deadletter.KindEffect,
		Machine:  l.Machine,
		Run:      l.Run,
		State:    l.State,
		Effect:   l.Effect,
		EffectID: l.EffectID,
		Key:      l.Key,
		Class:    l.Class,
		Cause:    l.Cause,
		Attempts: l.Attempts,
		Print:    l.Print,
		First:    l.First,
		Last:     l.Last,
		Build:    l.Build,
		Redrives: l.Redrives,
		Source:   p.subj.history(item.Run),
		SrcSeq:   item.Seq,
		Headers:  headers,
		Body:     l.Input,
	}, nil
}

// send publishes messages until each is answered, ctx ends or Patience is
// over. What is not answered is sent again, so all of them must be harmless
// when stored twice, or guarded.
func (l *link) send(ctx context.Context, msgs []*nats.Msg) []ack {
	out := make([]ack, len(msgs))
	open := make([]int, len(msgs))
	for i := range msgs {
		open[i] = i
	}
	began, pause := time.Now(), firstPause
	for len(open) > 0 {
		part := make([]*nats.Msg, len(open))
		for k, i := range open {
			part[k] = msgs[i]
		}
		answers := l.sendEach(ctx, part)
		err := ctx.Err()
		again := open[:0]
		for k, i := range open {
			if out[i] = answers[k]; out[i].verdict != unsure {
				continue
			}
			if denied := l.forbidden(msgs[i].Subject); denied != nil {
				out[i] = ack{verdict: impossible, why: denied}
				continue
			}
			if err != nil {
				out[i].why = err
			}
			again = append(again, i)
		}
		open = again
		if len(open) == 0 || err != nil || time.Since(began) > l.opts.Patience {
			return out
		}
		if err := sleep(ctx, jitter(pause)); err != nil {
			for _, i := range open {
				out[i].why = err
			}
			return out
		}
		pause = min(2*pause, mostPause)
	}
	return out
}

// sendEach sends messages once, all at once, and returns the answers.
func (l *link) sendEach(ctx context.Context, msgs []*nats.Msg) []ack {
	out := make([]ack, len(msgs))
	f := l.mux.fly(len(msgs))
	for i, m := range msgs {
		if err := f.send(i, m); err != nil {
			out[i] = sendError(err)
		}
	}
	answers, _ := f.land(ctx, l.opts.Quiet)
	for i, a := range answers {
		if out[i].why == nil { // it was sent
			out[i] = readAck(a)
		}
	}
	return out
}

// err is what an answer means to who only wants the message stored.
func (a ack) err() error {
	switch a.verdict {
	case stored:
		return nil
	case tooLarge:
		return fmt.Errorf("%w: %w", worker.ErrTooLarge, a.why)
	case refused:
		return a.why
	}
	if errors.Is(a.why, context.Canceled) || errors.Is(a.why, context.DeadlineExceeded) {
		return a.why
	}
	return fmt.Errorf("%w: %w", worker.ErrUnavailable, a.why)
}
