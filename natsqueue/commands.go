package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Sender tells the fleet something from outside: starts, signals and commands.
// What it sends has the sender's own id, so it may be sent again. Errors wrap
// api.ErrTooLarge, ErrMissing or worker.ErrUnavailable (a full stream, no
// permission, no answer); others are about what was to be sent.
type Sender struct{ *link }

var _ api.Sender = (*Sender)(nil)

// Start publishes a start as any producer does.
func (s *Sender) Start(ctx context.Context, a api.Start) (uint64, error) {
	what := "start run " + quoted(a.Run)
	h := nats.Header{headerRun: {a.Run}}
	if a.Version > 0 {
		h[headerVersion] = []string{strconv.Itoa(a.Version)}
	}
	if a.Priority != "" {
		h[headerPriority] = []string{string(a.Priority)}
	}
	if a.Tenant != "" {
		h[headerTenant] = []string{a.Tenant}
	}
	if a.At != nil {
		h[headerStartAt] = []string{a.At.Format(time.RFC3339Nano)}
	}
	err := first(checkName("machine", a.Machine), queue.CheckRun(a.Run), inHeader("run id", a.Run), inHeader("tenant", a.Tenant))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return s.tell(ctx, what, streamStart, &nats.Msg{Subject: s.subj.start(a.Machine), Header: h, Data: a.Input})
}

// Signal publishes a signal to a run.
func (s *Sender) Signal(ctx context.Context, a api.SignalTo) error {
	what := fmt.Sprintf("signal %s to run %s", quoted(a.Name), quoted(a.Run))
	h := nats.Header{headerSignal: {a.ID}}
	err := first(checkName("signal", a.Name), queue.CheckRun(a.Run), checkID("signal id", a.ID, mostID), inHeader("signal id", a.ID),
		runHeader(h, a.Run))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(a.Body) > statemachine.MaxSignal { // a worker would only have a letter of it
		return fmt.Errorf("%s: the body is %w: %d bytes, over %d", what, api.ErrTooLarge, len(a.Body), statemachine.MaxSignal)
	}
	_, err = s.tell(ctx, what, streamSignal, &nats.Msg{Subject: s.subj.signal(a.Run, a.Name), Header: h, Data: a.Body})
	return err
}

// Command publishes a command to a run.
func (s *Sender) Command(ctx context.Context, c api.Command) error {
	what := fmt.Sprintf("%s run %s", c.Kind, quoted(c.Run))
	h := nats.Header{headerEvent: {c.ID}, headerName: {string(c.Kind)}}
	err := first(c.Check(c.Kind), queue.CheckRun(c.Run), checkID("request id", c.ID, mostID), inHeader("request id", c.ID), runHeader(h, c.Run))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	body, err := json.Marshal(c.Command)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	_, err = s.tell(ctx, what, streamEvents, &nats.Msg{Subject: s.subj.event(c.Run), Header: h, Data: body})
	return err
}

// tell publishes a message and returns its sequence when it is stored.
func (s *Sender) tell(ctx context.Context, what, stream string, m *nats.Msg) (uint64, error) {
	a := s.sendEach(ctx, []*nats.Msg{m})[0]
	if errors.Is(a.why, errNoResponse) { // no leader for now, or no such stream: that does not mend itself
		if _, err := s.streamInfo(ctx, stream); errors.Is(err, ErrMissing) {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
	}
	if a.verdict == unsure && ctx.Err() == nil {
		a = s.send(ctx, []*nats.Msg{m})[0]
	}
	name := "stream " + s.subj.stream(stream)
	switch err := a.err(); {
	case err == nil:
		return a.seq, nil
	case a.verdict == tooLarge:
		return 0, fmt.Errorf("%s: %w: %d bytes: %w", what, api.ErrTooLarge, len(m.Data), a.why)
	case a.verdict == noRoom:
		return 0, fmt.Errorf("%s: %s is %w, nothing was stored: %w", what, name, api.ErrFull, err)
	default:
		return 0, fmt.Errorf("%s: %s: %w", what, name, err)
	}
}

// runHeader names the run in a header where its token does not.
func runHeader(h nats.Header, run string) error {
	if back, ok := queue.Untoken(queue.Token(run)); ok && back == run {
		return nil
	}
	h[headerRun] = []string{run}
	return inHeader("run id", run)
}

// inHeader refuses what a header would not carry as it is.
func inHeader(what, text string) error {
	if !queue.FitsHeader(text) {
		return fmt.Errorf("%s %s has control characters, or blanks at its ends", what, quoted(text))
	}
	return nil
}
