package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
)

// Backlog is what waits in the streams of a fleet.
type Backlog struct {
	Streams []api.Stream             // those that are not missing
	Oldest  map[string]time.Duration // age of the oldest message that is not acked, by consumer; 0 if there is none
	Letters map[string]int           // letters in DLQ, by kind: the stream has an index of them, too
}

// Name is the name of one of the fleet's streams without the prefix.
func (q *Queue) Name(stream string) string {
	return strings.TrimPrefix(stream, q.link.subj.stream(""))
}

// Backlog looks at all streams and their consumers: some twenty requests,
// none of which reads more than one small message.
func (q *Queue) Backlog(ctx context.Context) (Backlog, error) {
	b := Backlog{Oldest: map[string]time.Duration{}, Letters: map[string]int{}}
	for _, name := range streamNames {
		s, err := q.link.stream(ctx, name)
		if err != nil {
			return Backlog{}, err
		}
		if s.Missing {
			continue
		}
		b.Streams = append(b.Streams, *s)
		for _, c := range s.Consumers {
			if b.Oldest[c.Name], err = q.link.oldest(ctx, name, s, c); err != nil {
				return Backlog{}, fmt.Errorf("oldest message of consumer %s: %w", c.Name, err)
			}
		}
	}
	return b, q.link.countLetters(ctx, b.Letters)
}

// oldest is the age of the oldest message of a consumer: of a work queue, the
// first that is still there. Where a consumer is alone on its stream, whose
// messages may be large, the stream's state has the time.
func (l *link) oldest(ctx context.Context, name string, s *api.Stream, c api.StreamConsumer) (time.Duration, error) {
	if c.Lag == 0 && c.InHand == 0 || s.Messages == 0 {
		return 0, nil
	}
	at, filter := s.FirstTime, ""
	switch name {
	case streamStart:
		filter = l.subj.start("*")
		if in, ok := queue.ParseLine(c.Name); ok {
			filter = l.subj.line(in, "*")
		}
	case streamEffects:
		filter = l.subj.effects(strings.TrimPrefix(c.Name, consumerEffect))
	case streamTimers:
		filter = l.subj.dues()
	case streamSignal:
		if filter = l.subj.signals(); c.Name == ConsumerResult {
			filter = l.subj.result("*")
		}
	}
	if filter != "" {
		m, err := l.lead(ctx, name, map[string]any{"next_by_subj": filter, "seq": s.FirstSeq})
		if err != nil || m == nil { // acked since
			return 0, err
		}
		at = m.time
	}
	return max(time.Since(at), 0), nil
}

func (l *link) countLetters(ctx context.Context, to map[string]int) error {
	stream := l.subj.stream(streamDLQ)
	s, err := l.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return unavailable("count the letters in "+stream, err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(l.subj.letters()))
	if err != nil {
		return unavailable("count the letters in "+stream, err)
	}
	for subject, n := range info.State.Subjects {
		if t := l.subj.tokens(subject); len(t) == 3 {
			to[t[1]] += int(n)
		}
	}
	return nil
}
