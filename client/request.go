package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
)

// once is how long one try of a call may take: a part of the call's time, so
// that a worker that dies with a request in its hands costs a part of it only.
func (c *Client) once() time.Duration { return c.timeout / 2 }

// call makes a request of the control API and decodes its answer, within the
// time of a call.
func (c *Client) call(ctx context.Context, op string, v api.Verb, request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.ask(ctx, op, v, request, answer, c.once(), nil)
}

// ask makes a request again while nobody answers it and ctx lasts. Every
// request may be made again: those that change something have an id. A try
// ends after a time, and when the connection breaks, if status tells of it.
func (c *Client) ask(ctx context.Context, op string, v api.Verb, request, answer any, once time.Duration, status <-chan nats.Status) error {
	body, err := json.Marshal(request)
	if err != nil {
		return invalid(op, fmt.Errorf("encode the request: %w", err))
	}
	subject := c.subj.api(v)
	var data []byte
	err = c.again(ctx, op, subject, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, once)
		defer cancel()
		defer c.endsWithConnection(ctx, cancel, status)()
		m, err := c.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: body})
		if err != nil {
			return err
		}
		data = m.Data
		return answered(op, m)
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return &Error{Op: op, Message: fmt.Sprintf("the answer cannot be read: %v", err), kind: ErrInternal, below: err}
	}
	return nil
}

// endsWithConnection ends a try when the connection on which it was made
// breaks. What it returns is to be called when the try is over. A try that is
// made while there is no connection is sent on the next one, and goes on
// through what is told of the break before it.
func (c *Client) endsWithConnection(ctx context.Context, cancel func(), status <-chan nats.Status) (over func()) {
	if status == nil {
		return func() {}
	}
	for len(status) > 0 { // of earlier tries
		<-status
	}
	up := c.nc.IsConnected()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s, open := <-status:
				if !open || up && s != nats.CONNECTED {
					cancel()
					return
				}
				up = s == nats.CONNECTED
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// answered is the error that an answer is, nil if it is none.
func answered(op string, m *nats.Msg) error {
	text := m.Header.Get(api.HeaderCode)
	if text == "" {
		return nil
	}
	code, _ := strconv.Atoi(text)
	e := &Error{Op: op, Code: code, Message: m.Header.Get(api.HeaderError), kind: kindOf(code)}
	var f api.Error
	if json.Unmarshal(m.Data, &f) == nil && f.Message != "" {
		e.Message, e.Class = f.Message, f.Class
	}
	return e
}

// again tries until there is an answer or ctx ends. Only what may be over in a
// moment is tried again.
func (c *Client) again(ctx context.Context, op, subject string, try func(context.Context) error) error {
	ctx, cancel := c.denials.watch(ctx, subject)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := try(ctx)
		if err == nil || !passing(err) { // an answer is one, even if it came with the end of the time
			return outcome(op, subject, err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return unanswered(ctx, op, subject, err)
		}
	}
}

// passing reports whether the same request may be answered in a moment.
func passing(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.kind == ErrUnavailable
	}
	for _, lasting := range []error{nats.ErrConnectionClosed, nats.ErrInvalidConnection, nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrHeadersNotSupported} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return true
}

// outcome gives what came of a request its operation.
func outcome(op, subject string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	kind := ErrUnavailable
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		kind = ErrTooLarge
	case errors.Is(err, nats.ErrBadSubject):
		kind = ErrInvalid
	}
	return &Error{Op: op, Message: fmt.Sprintf("ask %s: %v", subject, err), kind: kind, below: err}
}

// unanswered says why a request that ran out of time has no answer: by how ctx
// ended and by the last try, as far as it tells.
func unanswered(ctx context.Context, op, subject string, last error) error {
	if why := deniedBy(ctx); why != nil {
		return &Error{Op: op, Message: why.Error(), kind: ErrDenied, below: nats.ErrPermissionViolation}
	}
	e := &Error{Op: op, kind: ErrUnavailable, below: errors.Join(ctx.Err(), last)}
	var fleet *Error
	switch {
	case errors.As(last, &fleet):
		e.Code, e.Class, e.Message, e.below = fleet.Code, fleet.Class, fleet.Message, ctx.Err()
	case errors.Is(last, nats.ErrNoResponders):
		e.Message = "no worker answers on " + subject
	case errors.Is(last, context.DeadlineExceeded), errors.Is(last, context.Canceled), errors.Is(last, nats.ErrTimeout):
		e.Message = fmt.Sprintf("no answer on %s: %v; it may have been done", subject, ctx.Err())
	default:
		e.Message = fmt.Sprintf("ask %s: %v", subject, last)
	}
	return e
}
