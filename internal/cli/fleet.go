package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
)

// Fleet is a connection to a fleet's streams.
type Fleet struct {
	Conn      *nats.Conn
	JetStream jetstream.JetStream
	Answers   *api.Answers
	Timeout   time.Duration // of one request
	Queue     *natsqueue.Queue
}

// Connect connects to the server, and nothing more.
func (t *Tool) Connect(name string) (*nats.Conn, error) {
	s, err := t.Server()
	if err != nil {
		return nil, err
	}
	opts, err := s.options()
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", s.shown(), err)
	}
	opts = append(opts, nats.Name(name), nats.Timeout(t.Timeout),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.hear(s, err) }),
		nats.ClosedHandler(func(nc *nats.Conn) { t.shut(s, nc.LastError()) }))
	nc, err := nats.Connect(s.URL, opts...)
	if err != nil {
		return nil, s.unreached(err)
	}
	if v := nc.ConnectedServerVersion(); tooOld(v) {
		nc.Close()
		return nil, &Error{
			Err:  fmt.Errorf("the nats-server at %s is version %s, a fleet needs %s or later", s.shown(), v, oldest),
			Hint: "is it the right server? " + s.named(),
		}
	}
	return nc, nil
}

// Open connects to the fleet. Close it.
func (t *Tool) Open(ctx context.Context, name string) (*Fleet, error) {
	nc, err := t.Connect(name)
	if err != nil {
		return nil, err
	}
	f, err := t.open(ctx, nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return f, nil
}

func (t *Tool) open(ctx context.Context, nc *nats.Conn) (*Fleet, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(t.Timeout))
	if err != nil {
		return nil, err
	}
	q, err := natsqueue.Open(ctx, nc, natsqueue.Options{Prefix: t.Prefix, Quiet: t.Timeout, Patience: t.Timeout})
	switch {
	case errors.Is(err, natsqueue.ErrMissing):
		return nil, &Error{Err: err, Hint: "is --prefix " + t.Prefix + " right? if so, create the streams with: pawl provision"}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return nil, &Error{Err: err, Hint: "these are the credentials of another account than the fleet's"}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return nil, &Error{Err: err, Hint: "is it the right server? it has no JetStream"}
	case err != nil:
		return nil, err
	}
	if err := t.untouched(ctx, js); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return &Fleet{
		Conn: nc, JetStream: js, Timeout: t.Timeout, Queue: q,
		Answers: &api.Answers{Log: q.Log, Blobs: q.Blobs, Letters: q.Letters, Registry: q.Machines, Sender: q.Sender, Flow: q.Flow, Forker: q.Forker(),
			Observers: []api.Observer{{What: "messages", See: q.Observe}}},
	}, nil
}

// untouched looks whether HISTORY is as reading needs it. Somebody who changed
// it by hand should not be told that nobody answers.
func (t *Tool) untouched(ctx context.Context, js jetstream.JetStream) error {
	name := strings.ToUpper(t.Prefix) + "_HISTORY"
	s, err := js.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("look up stream %s: %w", name, err)
	}
	c := s.CachedInfo().Config
	what := ""
	switch {
	case !c.AllowDirect:
		what = "direct reads are off"
	case !slices.Equal(c.Subjects, []string{t.Prefix + ".history.*.*"}):
		what = "its subjects are " + cmp.Or(strings.Join(c.Subjects, ", "), "none")
	default:
		return nil
	}
	return &Error{Err: fmt.Errorf("stream %s was changed by hand: %s", name, what), Hint: "pawl provision --dry-run shows it, pawl provision puts it right"}
}

// Last reads the last records of runs, in their order; nil for a run that does
// not exist. The answers may be a moment old.
func (f *Fleet) Last(ctx context.Context, runs []string) ([]*statemachine.Stored, error) {
	return f.Queue.Log.Last(ctx, runs)
}

// Incarnation is the id of the fleet's HISTORY, under which Redis has copies.
func (f *Fleet) Incarnation(ctx context.Context) (string, error) { return f.Queue.Incarnation(ctx) }

// Close ends the connection.
func (f *Fleet) Close() {
	// What it could not end, ends with the process.
	_ = f.Queue.Close()
	f.Conn.Close()
}
