package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Completion is a run that has ended.
type Completion struct {
	Run      string          `json:"run"`
	Machine  string          `json:"machine"`
	Version  int             `json:"version"`
	Status   Status          `json:"status"`
	State    string          `json:"state"`
	Revision uint64          `json:"revision"` // its last
	Data     json.RawMessage `json:"data"`     // the machine's data; a value over 8 KB is {"$blob": hash, "size": bytes}
	Error    *Cause          `json:"error"`    // why it failed or was cancelled; nil if it succeeded
	Started  time.Time       `json:"started"`
	Ended    time.Time       `json:"ended"`
	Sequence uint64          `json:"-"` // in the stream, for FinishedOptions.After
}

// FinishedOptions say which completions are wanted.
type FinishedOptions struct {
	Machine string // "" is all machines
	After   uint64 // those after this one; 0: those from now on
}

// Finished subscribes to the completions of runs. It returns once it is sure to
// miss none from then on, so subscribe, then start. The sequence goes on until
// ctx ends, whatever the connection does meanwhile, and may be ranged over
// once. A completion may come more than once; their stream keeps them for a
// day unless configured otherwise.
func (c *Client) Finished(ctx context.Context, o FinishedOptions) (iter.Seq2[*Completion, error], error) {
	const op = "subscribe to completions"
	if o.Machine != "" {
		if err := checkMachine(o.Machine); err != nil {
			return nil, invalid(op, err)
		}
	}
	messages, err := c.completions(ctx, op, o)
	if err != nil {
		return nil, err
	}
	// Whoever never ranges over it leaves nothing behind, either.
	context.AfterFunc(ctx, messages.Stop)
	return func(yield func(*Completion, error) bool) {
		for m, err := range each(ctx, op, messages) {
			var v *Completion
			if err == nil {
				v, err = completionOf(m)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}, nil
}

// completions makes the consumer. It begins at a sequence and not at "new", so
// that one that is made anew begins where the one before did.
func (c *Client) completions(ctx context.Context, op string, o FinishedOptions) (jetstream.MessagesContext, error) {
	return c.messages(ctx, op, "FINISHED", c.subj.finished(o.Machine), func(s jetstream.Stream) uint64 {
		if o.After == 0 {
			return s.CachedInfo().State.LastSeq
		}
		return o.After
	})
}

// messages makes a consumer of a subject of a stream.
func (c *Client) messages(ctx context.Context, op, stream, subject string, after func(jetstream.Stream) uint64) (jetstream.MessagesContext, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	stream = c.subj.stream(stream)
	var messages jetstream.MessagesContext
	err := c.again(ctx, op, "$JS.API.>", func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, stream)
		if err != nil {
			return noStream(op, stream, err)
		}
		consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{subject},
			DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:    after(s) + 1,
		})
		if err != nil {
			return err
		}
		messages, err = consumer.Messages()
		return err
	})
	return messages, err
}

// each yields messages until ctx ends, whatever the connection does meanwhile.
func each(ctx context.Context, op string, messages jetstream.MessagesContext) iter.Seq2[jetstream.Msg, error] {
	return func(yield func(jetstream.Msg, error) bool) {
		defer messages.Stop()
		for {
			m, err := messages.Next(jetstream.NextContext(ctx))
			switch {
			case ctx.Err() != nil:
				yield(nil, ctx.Err())
				return
			case errors.Is(err, jetstream.ErrNoHeartbeat): // the consumer is made anew
				continue
			case err != nil:
				yield(nil, &Error{Op: op, Message: err.Error(), kind: ErrUnavailable, below: err})
				return
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}

// noStream says that what is asked for is not kept.
func noStream(op, stream string, err error) error {
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	return &Error{Op: op, Message: fmt.Sprintf("there is no stream %s", stream), kind: ErrNotFound, below: err}
}

func completionOf(m jetstream.Msg) (*Completion, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("completion on %s: %w", m.Subject(), err)
	}
	v := &Completion{Sequence: meta.Sequence.Stream}
	if err := json.Unmarshal(m.Data(), v); err != nil {
		return nil, fmt.Errorf("completion %d: %w", v.Sequence, err)
	}
	if v.Machine == "" {
		v.Machine = m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:]
	}
	return v, nil
}
