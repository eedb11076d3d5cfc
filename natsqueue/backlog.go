package natsqueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Backlog is what waits in the streams of a fleet.
type Backlog struct {
	Streams   []StreamState
	Consumers []ConsumerState
	Letters   map[string]int // in DLQ, by kind
}

// StreamState is how full a stream is.
type StreamState struct {
	Name        string // without the prefix
	Messages    uint64
	Bytes       uint64
	MaxMessages int64 // 0: no limit
	MaxBytes    int64 // 0: no limit
}

// ConsumerState is what a consumer has before it.
type ConsumerState struct {
	Name        string
	Pending     int           // messages that nobody was given yet
	InFlight    int           // messages given to a worker and not acked
	Redelivered int           // of those: given before
	Oldest      time.Duration // age of the oldest message that is not acked; 0 if there is none
}

// Backlog looks at all streams and their consumers: some twenty requests,
// none of which reads more than one small message.
func (q *Queue) Backlog(ctx context.Context) (Backlog, error) {
	b := Backlog{Letters: map[string]int{}}
	for _, name := range streamNames {
		if err := q.link.backlog(ctx, name, &b); err != nil {
			return Backlog{}, fmt.Errorf("look at stream %s: %w", q.link.subj.stream(name), err)
		}
	}
	return b, nil
}

func (l *link) backlog(ctx context.Context, name string, b *Backlog) error {
	s, err := l.js.Stream(ctx, l.subj.stream(name))
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	b.Streams = append(b.Streams, StreamState{
		Name: name, Messages: info.State.Msgs, Bytes: info.State.Bytes,
		MaxMessages: max(info.Config.MaxMsgs, 0), MaxBytes: max(info.Config.MaxBytes, 0),
	})
	switch name {
	case streamDLQ: // holds the index of letters, too
		return l.countLetters(ctx, s, b)
	case streamStart, streamSignal, streamEvents, streamEffects, streamTimers:
	default:
		return nil // has readers, but no queue
	}
	consumers := s.ListConsumers(ctx)
	for c := range consumers.Info() {
		state := ConsumerState{Name: c.Name, Pending: int(c.NumPending), InFlight: c.NumAckPending, Redelivered: c.NumRedelivered}
		if state.Pending+state.InFlight > 0 {
			if state.Oldest, err = l.oldest(ctx, name, info, c); err != nil {
				return err
			}
		}
		b.Consumers = append(b.Consumers, state)
	}
	return consumers.Err()
}

// oldest is the age of the oldest message of a consumer. Starts and signals
// may be large, and are alone in their stream: its state has the time.
func (l *link) oldest(ctx context.Context, name string, info *jetstream.StreamInfo, c *jetstream.ConsumerInfo) (time.Duration, error) {
	at := info.State.FirstTime
	switch name {
	case streamStart, streamSignal:
		if info.State.Msgs == 0 { // it came since
			return 0, nil
		}
	default:
		m, err := l.lead(ctx, name, map[string]any{"next_by_subj": c.Config.FilterSubject, "seq": c.AckFloor.Stream + 1})
		if err != nil || m == nil { // acked since
			return 0, err
		}
		at = m.time
	}
	return max(time.Since(at), 0), nil
}

func (l *link) countLetters(ctx context.Context, s jetstream.Stream, b *Backlog) error {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(l.subj.prefix+".dlq.>"))
	if err != nil {
		return err
	}
	for subject, n := range info.State.Subjects {
		if t := l.subj.tokens(subject); len(t) == 3 {
			b.Letters[strings.Clone(t[1])] += int(n)
		}
	}
	return nil
}
