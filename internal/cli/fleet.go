package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/natsqueue"
)

// Fleet is a connection to a fleet's streams.
type Fleet struct {
	Conn      *nats.Conn
	JetStream jetstream.JetStream
	Answers   *api.Answers
	Timeout   time.Duration // of one request
	queue     *natsqueue.Queue
}

// Connect connects to the server, and nothing more.
func (t *Tool) Connect(name string) (*nats.Conn, error) {
	s, err := FindServer(t.URL, t.Getenv)
	if err != nil {
		return nil, err
	}
	opts, err := s.options()
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", s.shown(), err)
	}
	nc, err := nats.Connect(s.URL, append(opts, nats.Name(name), nats.Timeout(t.Timeout))...)
	if err == nil {
		return nc, nil
	}
	hint := "that is the default; name another with -s URL"
	if s.From != "" {
		hint = "named by " + s.From + "; name another with -s URL"
	}
	if errors.Is(err, nats.ErrNoServers) {
		hint = "is it running? " + hint
	}
	return nil, &Error{Err: fmt.Errorf("connect to NATS at %s: %w", s.shown(), err), Hint: hint}
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
	if errors.Is(err, natsqueue.ErrMissing) {
		return nil, &Error{Err: err, Hint: "is --prefix " + t.Prefix + " right? if so, create the streams with: pawl provision"}
	}
	if err != nil {
		return nil, err
	}
	return &Fleet{
		Conn: nc, JetStream: js, Timeout: t.Timeout, queue: q,
		Answers: &api.Answers{Log: q.Log, Blobs: q.Blobs, Letters: q.Letters},
	}, nil
}

// Close ends the connection.
func (f *Fleet) Close() {
	// What it could not end, ends with the process.
	_ = f.queue.Close()
	f.Conn.Close()
}
