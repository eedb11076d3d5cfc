package natsqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

const (
	mostObserved = 64   // effects of a run whose messages are looked for, beside those that wait longest
	mostTypes    = 16   // … and effect types whose queues are looked at
	nearlyFull   = 8192 // bytes: a stream with less room takes hardly a record more
)

// Observe sees where the messages are that wake a run, what it was told and
// has not applied, its letters, what the ledger says of its effects, and which
// streams are full. It sends a dozen requests, and none that others wait for.
func (q *Queue) Observe(ctx context.Context, f *explain.Facts) error {
	o := &observation{link: q.link, facts: f, consumers: map[string]*jetstream.ConsumerInfo{}}
	steps := []func(context.Context) error{o.told}
	if f.Record != nil {
		if f.Record.Status.Ended() {
			return nil
		}
		steps = append(steps, o.wakes, o.letters, o.ledger, o.full,
			func(ctx context.Context) error { return o.holds(ctx, q.Flow) })
	} else {
		steps = append(steps, o.starts, o.full)
	}
	var errs []error
	for _, see := range steps {
		errs = append(errs, see(ctx))
	}
	return errors.Join(errs...)
}

// observation is one look at a run.
type observation struct {
	*link
	facts     *explain.Facts
	consumers map[string]*jetstream.ConsumerInfo
}

// consumer describes a consumer; nil if there is none.
func (o *observation) consumer(ctx context.Context, name string) (*jetstream.ConsumerInfo, error) {
	if c, ok := o.consumers[name]; ok {
		return c, nil
	}
	stream, err := streamOf(name)
	if err != nil || len(o.consumers) > mostTypes {
		return nil, err
	}
	c, err := o.js.Consumer(ctx, o.subj.stream(stream), name)
	switch {
	case err == nil:
		o.consumers[name] = c.CachedInfo()
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		o.consumers[name] = nil
	default:
		return nil, unavailable("look at consumer "+name, err)
	}
	return o.consumers[name], nil
}

// place says how far a stored message has come on its way by a consumer.
func (o *observation) place(ctx context.Context, consumer, stream string, m *raw) (explain.Message, error) {
	at := explain.Message{Place: explain.InLine, Stream: o.subj.stream(stream), Seq: m.seq, Stored: m.time}
	c, err := o.consumer(ctx, consumer)
	if err != nil || c == nil {
		return at, err
	}
	at.Pulls = c.NumWaiting
	if m.seq <= c.Delivered.Stream {
		at.Place, at.Again = explain.InHand, c.Config.AckWait
		return at, nil
	}
	at.Ahead = min(m.seq-c.Delivered.Stream-1, c.NumPending)
	return at, nil
}

// wakes finds the message of each effect that waits for one.
func (o *observation) wakes(ctx context.Context) error {
	o.facts.Wakes = map[string]explain.Message{}
	type ask struct {
		id, consumer string
		item         outbox.Item
	}
	run := o.facts.Run
	var asks []ask
	for _, p := range o.facts.Record.Pending {
		if len(asks) == mostObserved {
			break
		}
		switch p.Place {
		case statemachine.Queued:
			e := statemachine.Entry{Kind: statemachine.EntryEffect, ID: p.ID, Effect: p.Effect}
			asks = append(asks, ask{p.ID, EffectConsumer(p.Effect), outbox.Item{Run: run, Entry: e}})
		case statemachine.Retry:
			e := statemachine.Entry{Kind: statemachine.EntryTimer, ID: p.ID, Try: p.Try}
			asks = append(asks, ask{p.ID, ConsumerDue, outbox.Item{Run: run, Entry: e}})
		}
	}
	for _, w := range o.facts.Record.Waits {
		if e, ok := w.Timer(); ok && len(asks) < mostObserved {
			asks = append(asks, ask{w.ID, ConsumerDue, outbox.Item{Run: run, Entry: e}})
		}
	}
	pub := &Publisher{o.link}
	for _, places := range []func(outbox.Item) (string, []string){pub.places, pub.postponedPlaces} {
		at := map[string]ask{} // by subject
		asked := map[string][]string{}
		for _, a := range asks {
			if _, found := o.facts.Wakes[a.id]; found {
				continue
			}
			stream, subjects := places(a.item)
			for _, s := range subjects {
				at[s], asked[stream] = a, append(asked[stream], s)
			}
		}
		for stream, subjects := range asked {
			for m, err := range o.lasts(ctx, stream, subjects) {
				if err != nil {
					return fmt.Errorf("look for messages in %s: %w", o.subj.stream(stream), err)
				}
				a := at[m.subject]
				at, err := o.wake1(ctx, a.consumer, stream, m)
				if err != nil {
					return err
				}
				o.facts.Wakes[a.id] = at
			}
		}
	}
	for _, a := range asks {
		if _, found := o.facts.Wakes[a.id]; !found {
			o.facts.Wakes[a.id] = explain.Message{Place: explain.Missing}
		}
	}
	return nil
}

// wake1 says where a message is that wakes a run: a schedule has yet to come.
func (o *observation) wake1(ctx context.Context, consumer, stream string, m *raw) (explain.Message, error) {
	if stream != streamTimers {
		return o.place(ctx, consumer, stream, m)
	}
	t := o.subj.tokens(m.subject)
	later := len(t) > 1 && t[1] == "later"
	if t[0] != "timer" { // it has come
		at, err := o.place(ctx, ConsumerDue, stream, m)
		at.Tries = tries(m)
		return at, err
	}
	at := explain.Message{Place: explain.Scheduled, Stream: o.subj.stream(stream), Seq: m.seq, Stored: m.time, Tries: tries(m)}
	if later {
		at.Place = explain.Postponed
	}
	text, _ := strings.CutPrefix(m.headers().Get(headerSchedule), "@at ")
	at.Due, _ = time.Parse(time.RFC3339Nano, text) // unread: when is not known
	return at, nil
}

func tries(m *raw) int {
	n, _ := strconv.Atoi(m.headers().Get(headerTries)) // not there: 0
	return n
}

// told finds signals and commands that are stored for the run, the last of
// each name.
func (o *observation) told(ctx context.Context) error {
	run := o.facts.Run
	for _, from := range []struct{ stream, consumer, kind, subject string }{
		{streamSignal, ConsumerSignal, "signal", o.subj.signal(run, "*")},
		{streamEvents, ConsumerEvent, "command", o.subj.event(run)},
	} {
		for m, err := range o.lasts(ctx, from.stream, []string{from.subject}) {
			if err != nil {
				return fmt.Errorf("look for messages in %s: %w", o.subj.stream(from.stream), err)
			}
			h := m.headers()
			name, id := h.Get(headerName), statemachine.CommandEventID(h.Get(headerEvent))
			if from.kind == "signal" {
				t := o.subj.tokens(m.subject)
				name, id = t[len(t)-1], statemachine.SignalEventID(cmp.Or(h.Get(headerSignal), h.Get(headerMsgID)))
			}
			if r := o.facts.Record; r != nil && slices.Contains(r.Applied, id) {
				continue
			}
			at, err := o.place(ctx, from.consumer, from.stream, m)
			if err != nil {
				return err
			}
			at.Kind, at.Name = from.kind, name
			o.facts.Told = append(o.facts.Told, at)
		}
	}
	return nil
}

// letters finds the letters of effects that were given up. A letter and its
// entry in the index are stored together, the letter first.
func (o *observation) letters(ctx context.Context) error {
	box := &Letters{o.link}
	found := map[string]explain.Letter{}
	given := map[string]int{} // up: by id, the try
	for _, p := range o.facts.Record.Pending {
		if p.Place == statemachine.Parked && len(given) < mostObserved {
			given[p.ID] = p.Try
		}
	}
	for _, w := range o.facts.Record.Waits {
		if w.Cause != nil && len(given) < mostObserved {
			given[w.ID] = w.Try
		}
	}
	for of, try := range given {
		id := of + ":" + strconv.Itoa(try)
		entry, err := o.lead(ctx, streamDLQ, map[string]any{"last_by_subj": o.subj.letterIndex(hashToken(id))})
		if err != nil {
			return fmt.Errorf("look for the letter of %s: %w", of, err)
		}
		if entry == nil || entry.seq < 2 {
			continue
		}
		m, err := box.get(ctx, entry.seq-1)
		if err != nil {
			return err
		}
		l := explain.Letter{}
		if m != nil && m.headers().Get(dlqHash) == hashToken(id) {
			l.Seq, l.At = m.seq, m.time
		}
		found[of] = l
	}
	o.facts.Letters = found
	return nil
}

// ledger finds what is noted of tries of the run's effects, and who holds the
// business keys of those that wait.
func (o *observation) ledger(ctx context.Context) error {
	o.facts.Keys, o.facts.Tries = map[string]explain.KeyHolder{}, map[string]explain.Try{}
	at := map[string]*statemachine.Pending{} // by subject
	var subjects []string
	for i := range o.facts.Record.Pending {
		p := &o.facts.Record.Pending[i]
		if p.Place == statemachine.Parked || len(at) == mostObserved {
			continue
		}
		s := o.subj.ledger(cmp.Or(p.Key, statemachine.EffectWake(p.ID)))
		at[s], subjects = p, append(subjects, s)
	}
	if len(subjects) == 0 {
		return nil
	}
	for m, err := range o.lasts(ctx, streamLedger, subjects) {
		var e page
		if err == nil {
			err = json.Unmarshal(m.data, &e)
		}
		if err != nil {
			return fmt.Errorf("look at the ledger: %w", err)
		}
		p, state := at[m.subject], worker.LedgerState(e.State)
		switch {
		case state == worker.LedgerReleased || state == worker.LedgerCleared:
		case e.Run != o.facts.Run || e.Effect != p.ID:
			o.facts.Keys[p.ID] = explain.KeyHolder{Run: e.Run, Effect: e.Effect, Done: state == worker.LedgerDone}
		case state != worker.LedgerDone:
			o.facts.Tries[p.ID] = explain.Try{
				N: e.Try, By: e.By, Until: e.Until, Crashes: e.Crashes,
				Open: state == worker.LedgerClaimed, Unknown: state == worker.LedgerUnknown, Asks: e.Doubt,
			}
		}
	}
	return nil
}

// holds finds what flow control keeps effects from beginning by.
func (o *observation) holds(ctx context.Context, f *Flow) error {
	notices, _, err := f.List(ctx) // closed keys may be too many to be read: then none is seen
	if err != nil {
		return err
	}
	codes := map[flow.Kind]explain.Code{flow.KindEffect: explain.EffectPaused, flow.KindState: explain.StatePaused, flow.KindKey: explain.KeyClosed}
	board := &flow.Board{}
	board.Replace(notices)
	o.facts.Holds = map[string]explain.Hold{}
	r := o.facts.Record
	for _, p := range r.Pending {
		if p.Place != statemachine.Queued && p.Place != statemachine.Inline {
			continue
		}
		state := r.To
		if i := slices.IndexFunc(r.Frames, func(f statemachine.Frame) bool { return f.ID == p.Frame }); i >= 0 {
			state = r.Frames[i].State
		}
		if n, held := board.Why(p.Effect, p.Flow, r.Machine, state); held {
			o.facts.Holds[p.ID] = explain.Hold{Code: codes[n.Kind], What: n.Subject().String(), Effect: n.Effect, Key: n.Key, Machine: n.Machine, State: n.State, By: n.By, Reason: n.Reason, Since: n.At, Until: n.Until}
		}
	}
	return nil
}

// full finds the streams that have no room for another record, or another
// letter.
func (o *observation) full(ctx context.Context) error {
	for _, name := range []string{streamHistory, streamBlobs, streamDLQ} {
		info, err := o.streamInfo(ctx, name)
		if err != nil {
			return err
		}
		what := ""
		switch c, s := info.Config, info.State; {
		case c.MaxMsgs > 0 && s.Msgs >= uint64(c.MaxMsgs):
			what = fmt.Sprintf("%d of %d messages", s.Msgs, c.MaxMsgs)
		case c.MaxBytes > 0 && s.Bytes+nearlyFull > uint64(c.MaxBytes):
			what = fmt.Sprintf("%d of %d bytes", s.Bytes, c.MaxBytes)
		default:
			continue
		}
		o.facts.Full = append(o.facts.Full, explain.FullStream{Name: info.Config.Name, What: what, Letters: name == streamDLQ})
	}
	return nil
}

// starts looks at the queue of starts, and for a postponed one of the run.
func (o *observation) starts(ctx context.Context) error {
	c, err := o.consumer(ctx, ConsumerStart)
	if err != nil {
		return err
	}
	q := &explain.Queue{}
	if c != nil {
		q.InHand = uint64(c.NumAckPending)
	}
	for _, l := range queue.Lines() {
		c, err := o.consumer(ctx, l.Consumer())
		if err != nil {
			return err
		}
		if c != nil {
			q.Waiting, q.InHand, q.InLine = q.Waiting+c.NumPending, q.InHand+uint64(c.NumAckPending), q.InLine+c.NumPending
		}
	}
	info, err := o.streamInfo(ctx, streamStart)
	if err != nil {
		return err
	}
	if n := info.State.Msgs; n > 0 { // those that wait in lines among them
		q.Waiting, q.Oldest = n-min(n, q.InHand), info.State.FirstTime
	}
	o.facts.Starts = q
	for m, err := range o.lasts(ctx, streamTimers, []string{o.subj.later("*"), o.subj.dueLater("*")}) {
		if err != nil { // there are too many
			return fmt.Errorf("look for a postponed start: %w", err)
		}
		line, _, _ := strings.Cut(string(m.data), "\n")
		var p postponed
		if json.Unmarshal([]byte(line), &p) != nil || p.Kind != queue.Start || p.Run != o.facts.Run {
			continue
		}
		at, err := o.wake1(ctx, ConsumerDue, streamTimers, m)
		if err != nil {
			return err
		}
		q.Postponed = &at
	}
	return nil
}
