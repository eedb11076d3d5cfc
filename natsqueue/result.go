package natsqueue

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

// The secret of result tokens is a message of MACHINES, under a name that no
// machine can have: made once, by whoever comes first, and for ever. Who may
// read that stream can make tokens.
const (
	secretName  = "_result"
	secretBytes = 32
)

// Secret is what result tokens are signed with.
func (q *Queue) Secret(ctx context.Context) ([]byte, error) { return q.link.secretOf(ctx) }

func (l *link) secretOf(ctx context.Context) ([]byte, error) {
	if p := l.secret.Load(); p != nil {
		return *p, nil
	}
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("the secret of result tokens: %w", err) }
	subject := l.subj.machine(secretName, 1)
	m, err := l.lead(ctx, streamMachines, map[string]any{"last_by_subj": subject})
	if err != nil {
		return fail(err)
	}
	if m == nil {
		secret := make([]byte, secretBytes)
		_, _ = rand.Read(secret) // it never fails
		a := l.send(ctx, []*nats.Msg{{Subject: subject, Data: secret, Header: nats.Header{headerExpected: {"0"}}}})[0]
		if a.verdict != stored && a.verdict != refused {
			return fail(a.err())
		}
		// What is there counts, whoever put it there.
		if m, err = l.lead(ctx, streamMachines, map[string]any{"last_by_subj": subject}); err != nil {
			return fail(err)
		}
	}
	if m == nil || len(m.data) < secretBytes {
		return fail(fmt.Errorf("%w: it is and is not there", worker.ErrUnavailable))
	}
	l.secret.Store(&m.data)
	return m.data, nil
}

var _ api.Results = (*Sender)(nil)

// Awaited implements api.Results.
func (s *Sender) Awaited(ctx context.Context, token string) (queue.Callback, bool, error) {
	secret, err := s.secretOf(ctx)
	if err != nil {
		return queue.Callback{}, false, err
	}
	c, ok := queue.ParseCallback(secret, token)
	return c, ok, nil
}

// Result implements api.Results.
func (s *Sender) Result(ctx context.Context, r api.ResultOf) error {
	m := &nats.Msg{Subject: s.subj.result(r.Token), Header: nats.Header{}, Data: r.Body}
	switch {
	case r.Heartbeat:
		m.Header[queue.HeaderOutcome] = []string{queue.OutcomeHeartbeat}
	case r.Code != 0:
		m.Header[queue.HeaderFailureCode], m.Header[queue.HeaderFailureText] = []string{strconv.Itoa(r.Code)}, []string{headerValue(r.Error)}
	}
	_, err := s.tell(ctx, "take a result", streamSignal, m)
	return err
}
