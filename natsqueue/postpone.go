package natsqueue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/queue"
)

// postponed is the first line of the body of a postponed message; what
// follows is the body it had. Everything is kept as it was understood, so an
// id that was made is the same when it comes again.
type postponed struct {
	Kind    queue.Kind        `json:"kind"`
	Subject string            `json:"subject"`
	Headers map[string][]byte `json:"headers,omitempty"` // any bytes
	Seq     uint64            `json:"seq"`
	Run     string            `json:"run,omitempty"`
	Machine string            `json:"machine,omitempty"`
	Version int               `json:"version,omitempty"`
	Name    string            `json:"name,omitempty"`
	ID      string            `json:"id,omitempty"`
	Try     int               `json:"try,omitempty"`
	Asked   uint64            `json:"asked,omitempty"`
	Tries   int               `json:"tries"`
}

// Postpone implements worker.Source. The copy comes by the consumer of due
// timers, as the message it was, with Pawl-Tries among its headers.
func (s *Source) Postpone(ctx context.Context, m queue.Message, at time.Time, tries int) error {
	p := postponed{
		Kind: m.Kind, Subject: m.Subject, Seq: m.Seq, Run: m.Run, Machine: m.Machine,
		Version: m.Version, Name: m.Name, ID: m.ID, Try: m.Try, Asked: m.Asked, Tries: tries,
	}
	if len(m.Headers) > 0 {
		p.Headers = make(map[string][]byte, len(m.Headers))
		for k, v := range m.Headers {
			p.Headers[k] = []byte(v)
		}
	}
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("postpone message %d on %s: %w", m.Seq, quoted(m.Subject), err)
	}
	body = append(append(body, '\n'), m.Body...)
	// The same postponement again has the same subject, so it replaces.
	sum := sha256.Sum256(body)
	id := base64.RawURLEncoding.EncodeToString(sum[:16])
	msg := &nats.Msg{Subject: s.subj.later(id), Data: body, Header: nats.Header{headerTries: {strconv.Itoa(tries)}}}
	schedule(msg, at, s.subj.dueLater(id))
	if err := s.send(ctx, []*nats.Msg{msg})[0].err(); err != nil {
		return fmt.Errorf("postpone message %d on %s: %w", m.Seq, quoted(m.Subject), err)
	}
	return nil
}

// fillLater turns a postponed message into what it was.
func (s *Source) fillLater(q *queue.Message) error {
	line, body, ok := bytes.Cut(q.Body, []byte{'\n'})
	if !ok {
		return errNoMessage
	}
	var p postponed
	if err := json.Unmarshal(line, &p); err != nil {
		return fmt.Errorf("%w: %w", errNoMessage, err)
	}
	q.Kind, q.Subject, q.Seq, q.Run, q.Machine = p.Kind, p.Subject, p.Seq, p.Run, p.Machine
	q.Version, q.Name, q.ID, q.Try, q.Asked = p.Version, p.Name, p.ID, p.Try, p.Asked
	q.Body = body
	q.Headers = make(map[string]string, len(p.Headers)+1)
	for k, v := range p.Headers {
		q.Headers[k] = string(v)
	}
	maps.Copy(q.Headers, map[string]string{headerTries: strconv.Itoa(p.Tries)})
	return nil
}
