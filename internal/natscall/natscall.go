// Package natscall performs effects by a request over NATS, answered by
// whoever listens on a subject, in any language: as micro services do.
//
// The request is the effect's input, with its ids, its idempotency key and the
// attempt in headers. The answer is the result as JSON (other text becomes
// {"text": …}), or an error as micro services have it, in the headers
// Nats-Service-Error-Code and Nats-Service-Error, with Retry-After in seconds.
// What a code means is in statemachine.Answered, the same as over HTTP. An answer
// with Pawl-Outcome: accepted says that the result comes later, by a callback with
// the request's Pawl-Result-Token. That nobody listens is no attempt.
package natscall

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// The headers of a request.
const (
	HeaderRun     = "Pawl-Run-Id"
	HeaderEffect  = "Pawl-Effect-Id"
	HeaderType    = "Pawl-Effect"
	HeaderKey     = "Pawl-Idempotency-Key"
	HeaderAttempt = "Pawl-Attempt"
	HeaderToken   = "Pawl-Result-Token" // what brings the result if the answer is that the effect was accepted

	headerRetryAfter = "Retry-After" // of an answer
)

const (
	maxAnswer     = 32 << 20 // bytes
	maxRetryAfter = time.Hour
	excerpt       = 200 // bytes of an error that go into the cause
)

// connKey is the key of a connection in a context.
type connKey struct{}

// With returns the context of handlers that reach services over a connection.
func With(ctx context.Context, nc *nats.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, nc)
}

// Handler returns the handler of an effect that is performed by whoever listens
// on a subject.
func Handler(subject string) func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
		nc, ok := ctx.Value(connKey{}).(*nats.Conn)
		if !ok {
			return nil, errors.New("a handler over NATS works in a fleet only: there is no connection")
		}
		m, err := nc.RequestMsgWithContext(ctx, request(ctx, subject, key, input))
		if err != nil {
			return nil, unanswered(ctx, nc, subject, len(input), err)
		}
		return read(subject, m)
	}
}

func request(ctx context.Context, subject, key string, input json.RawMessage) *nats.Msg {
	h := nats.Header{HeaderKey: {value(key)}}
	if a, ok := statemachine.AttemptOf(ctx); ok {
		h[HeaderRun], h[HeaderEffect], h[HeaderType] = []string{value(a.Run)}, []string{a.Effect}, []string{a.Type}
		h[HeaderAttempt], h[HeaderToken] = []string{strconv.Itoa(a.N)}, []string{a.Token()}
	}
	return &nats.Msg{Subject: subject, Header: h, Data: input}
}

// value is a text as a header carries it.
func value(text string) string {
	if queue.FitsHeader(text) && !strings.HasPrefix(text, "base64:") {
		return text
	}
	return "base64:" + base64.StdEncoding.EncodeToString([]byte(text))
}

// unanswered is what a request without an answer means.
func unanswered(ctx context.Context, nc *nats.Conn, subject string, size int, err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return statemachine.Untried("no_responders", fmt.Errorf("nobody listens on %s", subject))
	case errors.Is(err, nats.ErrMaxPayload):
		return statemachine.Terminal(statemachine.ClassTooLarge, fmt.Errorf("%s: the input has %d bytes, and the server takes %d", subject, size, nc.MaxPayload()))
	case !nc.IsConnected():
		return statemachine.Untried("nats_away", fmt.Errorf("%s: NATS is away: %w", subject, err))
	case forbidden(nc, subject):
		return statemachine.Untried("forbidden", fmt.Errorf("%s: %w", subject, nc.LastError()))
	case ctx.Err() != nil:
		return statemachine.Classed(statemachine.ClassTimeout, fmt.Errorf("%s: %w", subject, context.Cause(ctx)))
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// forbidden reports whether the broker complained of a publish on a subject:
// that is the only answer such a request gets.
func forbidden(nc *nats.Conn, subject string) bool {
	err := nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), `"`+strings.ToLower(subject)+`"`)
}

// read makes a result or an error of an answer.
func read(subject string, m *nats.Msg) (json.RawMessage, error) {
	if text := m.Header.Get(api.HeaderCode); text != "" {
		code, err := strconv.Atoi(text)
		said := fmt.Errorf("%s: %s", subject, saying(text, m.Header.Get(api.HeaderError)))
		if err != nil || code < 300 || code > 599 { // an error, whatever its code says
			return nil, said
		}
		return nil, statemachine.Answered(code, "nats", retryAfter(m.Header), said)
	}
	if m.Header.Get(queue.HeaderOutcome) == queue.OutcomeAccepted {
		return nil, statemachine.Accepted()
	}
	if len(m.Data) > maxAnswer {
		return nil, statemachine.Terminal("response_too_large", fmt.Errorf("%s: the answer has %d bytes, over %d", subject, len(m.Data), maxAnswer))
	}
	if name := streamOf(m.Data); name != "" {
		return nil, statemachine.Terminal("subject_of_a_stream",
			fmt.Errorf("%s: stream %q stores what is sent there, and answered in place of a service: take a subject that no stream has", subject, name))
	}
	return statemachine.AsResult(m.Data), nil
}

// streamOf is the stream whose acknowledgement an answer is; "" if it is none.
func streamOf(data []byte) string {
	if len(data) > 512 {
		return ""
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return ""
	}
	var ack struct {
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
	}
	for name := range all {
		switch name {
		case "stream", "seq", "domain", "duplicate":
		default:
			return ""
		}
	}
	if json.Unmarshal(data, &ack) != nil || ack.Seq == 0 {
		return ""
	}
	return ack.Stream
}

// retryAfter reads the wait that an answer asks for; 0 if none.
func retryAfter(h nats.Header) time.Duration {
	s, err := strconv.ParseUint(h.Get(headerRetryAfter), 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(s)*time.Second, maxRetryAfter)
}

// saying is an error of a service, on one line of bounded length.
func saying(code, text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > excerpt {
		text = strings.ToValidUTF8(text[:excerpt], "") + "…"
	}
	if text == "" {
		return code
	}
	return code + ": " + text
}
