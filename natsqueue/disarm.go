package natsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/worker"
)

var _ worker.Timers = (*Publisher)(nil)

// disarmedFor is how long the message stays that took a schedule's place: the
// shortest time to live there is.
const disarmedFor = time.Second

// Disarm implements worker.Timers. A message without a schedule takes the place
// of the one that has one, and goes by itself: a purge would leave the broker
// the time that it noted, until then (190 bytes of memory for each), and needs
// a right that workers do without.
func (p *Publisher) Disarm(ctx context.Context, timers []worker.Timer) []error {
	msgs := make([]*nats.Msg, len(timers))
	for i, t := range timers {
		msgs[i] = &nats.Msg{Subject: p.subj.timer(t.Run, t.ID, t.Try), Header: nats.Header{
			headerRollup: {"sub"}, headerTTL: {ttl(disarmedFor)},
		}}
	}
	errs := make([]error, len(timers))
	for i, a := range p.together(ctx, &p.timers, msgs) {
		if err := a.err(); err != nil {
			errs[i] = fmt.Errorf("disarm timer %s of run %s: %w", quoted(timers[i].ID), quoted(timers[i].Run), err)
		}
	}
	return errs
}

// Armed implements worker.Timers.
func (p *Publisher) Armed(ctx context.Context, partition int, before time.Time, known func(worker.Timer) bool) ([]worker.Timer, error) {
	fail := func(err error) ([]worker.Timer, error) {
		return nil, fmt.Errorf("look for timers of partition %d: %w", partition, err)
	}
	stream := p.subj.stream(streamTimers)
	patience, cancel := context.WithTimeout(ctx, p.opts.Patience)
	defer cancel()
	s, err := p.js.Stream(patience, stream)
	if err != nil {
		return fail(unavailable("look up stream", err))
	}
	info, err := s.Info(patience, jetstream.WithSubjectFilter(p.subj.timers(partition)))
	if err != nil {
		return fail(unavailable("list subjects", err))
	}
	var subjects []string
	for subject := range info.State.Subjects {
		t := p.subj.tokens(subject) // timer, partition, run, id, try
		if len(t) != 5 {
			continue
		}
		try, err := strconv.Atoi(t[4])
		if err == nil && !known(worker.Timer{Run: t[2], ID: t[3], Try: try}) {
			subjects = append(subjects, subject)
		}
	}
	var out []worker.Timer
	for len(subjects) > 0 {
		n := min(lastChunk, len(subjects))
		err := p.lastOf(ctx, streamTimers, subjects[:n], func(m *raw) {
			var w wake
			if !m.time.Before(before) || m.headers().Get(headerSchedule) == "" || json.Unmarshal(m.data, &w) != nil {
				return
			}
			if p.subj.timer(w.Run, w.Effect, w.Try) == m.subject { // else somebody else's
				out = append(out, worker.Timer{Run: w.Run, ID: w.Effect, Try: w.Try})
			}
		})
		if err != nil {
			return fail(err)
		}
		subjects = subjects[n:]
	}
	return out, nil
}
