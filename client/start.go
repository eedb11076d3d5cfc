package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// StartOptions are what a start may say besides machine and input.
type StartOptions struct {
	// ID is that of the run: UTF-8 of at most 256 bytes, one run over all
	// machines. Take one that the caller would find again, such as an order's
	// number: then the same start may be made twice. Default: one is made.
	ID      string
	Version int // of the machine; 0 is the highest
	// Priority is High, Normal (the default) or Low. It counts when not all
	// starts can begin at once.
	Priority Priority
	// Tenant is whose run it is, at most 256 bytes: when not all starts can
	// begin at once, those of a tenant with few do not wait behind those of one
	// with many.
	Tenant string
	// At is when the run is to begin, at most ten years ahead; the zero time, and
	// one that has passed, mean at once. The run exists before: it can be looked
	// at, and cancelled.
	At time.Time
}

// at is when the run is to begin; nil if that is at once.
func (o *StartOptions) at() *time.Time {
	if o.At.IsZero() {
		return nil
	}
	return &o.At
}

// Priority orders starts that cannot all begin at once.
type Priority = queue.Priority

// The priorities.
const (
	High   = queue.High
	Normal = queue.Normal
	Low    = queue.Low
)

// Started is what became of a start. Its ID is that of the run.
type Started = api.Started

// Outcome says what became of a request by the time it was answered.
type Outcome = api.Outcome

// The outcomes.
const (
	Accepted  = api.OutcomeAccepted  // it is stored and will be carried out
	Created   = api.OutcomeCreated   // the run began with this start
	Exists    = api.OutcomeExists    // the run began with the same start; perhaps an earlier try of this one
	Applied   = api.OutcomeApplied   // a record of the run has it
	Duplicate = api.OutcomeDuplicate // a record of the run had it before
)

// Start starts a run and says what came of it. The input is anything that
// encoding/json encodes; json.RawMessage and []byte are JSON already; nil is
// {}. The same start may be made again and is the same run. ErrConflict is
// returned if the id stands for another input or machine, ErrRefused if the
// machine does not take the input. An outcome Accepted says that the start is
// durable and no worker has come to it yet.
//
// The answer needs a worker. Publish needs none.
func (c *Client) Start(ctx context.Context, machine string, input any, o StartOptions) (Started, error) {
	id, body, err := prepare(machine, input, o)
	if err != nil {
		return Started{}, err
	}
	var s Started
	r := api.StartRequest{Machine: machine, ID: id, Version: o.Version, Priority: o.Priority, Tenant: o.Tenant, At: o.at(), Input: body, Timeout: c.patience()}
	return s, c.call(ctx, "start run "+id, api.RunsStart, r, &s)
}

// Publish stores a start and returns the id of the run. From then on the run is
// the fleet's to carry on, whether a worker is alive or not. What the machine
// does not take becomes a dead letter, and the caller does not hear of it.
func (c *Client) Publish(ctx context.Context, machine string, input any, o StartOptions) (id string, err error) {
	id, body, err := prepare(machine, input, o)
	if err != nil {
		return "", err
	}
	op := "publish the start of run " + id
	if err := checkHeader(id); err != nil {
		return "", invalid(op, err)
	}
	m := nats.NewMsg(c.subj.start(machine))
	m.Header.Set(headerRun, id)
	if o.Version > 0 {
		m.Header.Set(headerVersion, strconv.Itoa(o.Version))
	}
	if o.Priority != "" {
		m.Header.Set(headerPriority, string(o.Priority))
	}
	if o.Tenant != "" {
		m.Header.Set(headerTenant, o.Tenant)
	}
	if at := o.at(); at != nil {
		m.Header.Set(headerStartAt, at.Format(time.RFC3339Nano))
	}
	m.Data = body
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = c.again(ctx, op, m.Subject, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, c.once())
		defer cancel()
		return stored(c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0)))(op, m)
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// stored explains what JetStream answered to a publish.
func stored(_ *jetstream.PubAck, err error) func(op string, m *nats.Msg) error {
	return func(op string, m *nats.Msg) error {
		var e *jetstream.APIError
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
			return &Error{Op: op, Message: "no stream takes " + m.Subject, kind: ErrUnavailable, below: err}
		case errors.As(err, &e) && strings.Contains(e.Description, "message size exceeds"):
			return &Error{Op: op, Code: e.Code, Message: fmt.Sprintf("the input has %d bytes: at most 900 KB are taken", len(m.Data)), kind: ErrTooLarge, below: err}
		case errors.As(err, &e): // such as a stream that is full
			return &Error{Op: op, Code: e.Code, Message: e.Description, kind: ErrUnavailable, below: err}
		}
		return err
	}
}

// patience is how long the fleet may wait for what comes of a request, so that
// it answers before the try is over.
func (c *Client) patience() *statemachine.Duration {
	d := statemachine.Duration(min(c.once()*3/4, api.MaxWait))
	return &d
}

// prepare checks a start and gives it an id and a body.
func prepare(machine string, input any, o StartOptions) (id string, body []byte, err error) {
	op := "start a run of " + machine
	if err := checkMachine(machine); err != nil {
		return "", nil, invalid(op, err)
	}
	if id = o.ID; id == "" {
		id = machine + "-" + queue.NewID()
	}
	if err := queue.CheckRun(id); err != nil {
		return "", nil, invalid(op, err)
	}
	if o.Version < 0 {
		return "", nil, invalid(op, fmt.Errorf("version %d: they count from 1", o.Version))
	}
	if o.Priority != "" {
		if _, err := queue.ParsePriority(string(o.Priority)); err != nil {
			return "", nil, invalid(op, err)
		}
	}
	if o.Tenant != "" {
		if err := queue.CheckTenant(o.Tenant); err != nil {
			return "", nil, invalid(op, err)
		}
	}
	if at := o.at(); at != nil {
		if err := queue.CheckStartAt(*at); err != nil {
			return "", nil, invalid(op, fmt.Errorf("at: %w", err))
		}
	}
	if body, err = encode(input); err != nil {
		return "", nil, invalid(op, fmt.Errorf("input: %w", err))
	}
	return id, body, nil
}

// encode is a value as JSON.
func encode(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return json.RawMessage(`{}`), nil
	case []byte:
		return checked(v)
	case json.RawMessage:
		return checked(v)
	}
	return json.Marshal(v)
}

func checked(body []byte) (json.RawMessage, error) {
	if !json.Valid(body) {
		return nil, errors.New("it is not JSON")
	}
	return body, nil
}
