package natsqueue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	Letter  string            `json:"letter,omitempty"`
	Redrive int               `json:"redrive,omitempty"`
	Tries   int               `json:"tries"`
	Before  int               `json:"before,omitempty"` // deliveries of it that came to nothing
}

// Postpone implements worker.Source. The copy comes by the consumer of due
// timers, as the message it was; only its Tries tell that it was postponed.
func (s *Source) Postpone(ctx context.Context, m queue.Message, at time.Time, tries int) error {
	p := postponed{
		Kind: m.Kind, Subject: m.Subject, Seq: m.Seq, Run: m.Run, Machine: m.Machine,
		Version: m.Version, Name: m.Name, ID: m.ID, Try: m.Try, Asked: m.Asked,
		Letter: m.Letter, Redrive: m.Redrives,
	}
	if headers := outward(m.Headers); len(headers) > 0 {
		p.Headers = make(map[string][]byte, len(headers))
		for k, v := range headers {
			p.Headers[k] = []byte(v)
		}
	}
	fail := func(err error) error {
		return fmt.Errorf("postpone message %d on %s: %w", m.Seq, quoted(m.Subject), err)
	}
	id, err := p.id(m.Body)
	if err != nil {
		return fail(err)
	}
	p.Tries, p.Before = tries, max(m.Delivered-1, 0)
	body, err := json.Marshal(p)
	if err != nil {
		return fail(err)
	}
	body = append(append(body, '\n'), m.Body...)
	msg := &nats.Msg{Subject: s.subj.later(id), Data: body, Header: nats.Header{headerTries: {strconv.Itoa(tries)}}}
	schedule(msg, at, s.subj.dueLater(id))
	if err := s.send(ctx, []*nats.Msg{msg})[0].err(); err != nil {
		return fail(err)
	}
	return nil
}

// Requeue implements worker.Source.
func (s *Source) Requeue(ctx context.Context, messages []queue.Message) []error {
	msgs := make([]*nats.Msg, len(messages))
	for i, m := range messages {
		msgs[i] = &nats.Msg{Subject: m.Subject, Data: m.Body, Header: nats.Header{
			headerTries: {strconv.Itoa(m.Tries)}, headerBefore: {strconv.Itoa(max(m.Delivered-1, 0))},
		}}
		for k, v := range outward(m.Headers) {
			msgs[i].Header[k] = []string{v}
		}
	}
	errs := make([]error, len(messages))
	for i, a := range s.send(ctx, msgs) {
		if err := a.err(); err != nil {
			errs[i] = fmt.Errorf("requeue message on %s: %w", quoted(messages[i].Subject), err)
		}
	}
	return errs
}

// id names a message, however often it is postponed: a copy replaces the one
// before. A wake-up is what it wakes, so that its copies become one. Anything
// else is its place in its stream, and what it says: a stream that was made
// anew has the same places.
func (p postponed) id(body []byte) (string, error) {
	if (p.Kind == queue.Effect || p.Kind == queue.Due) && p.Run != "" && p.ID != "" {
		return wakeID(p.Kind, p.Run, p.ID, p.Try), nil
	}
	line, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	return laterID(append(append(line, '\n'), body...)), nil
}

// wakeID is the id of a postponed wake-up. The wake-up of a queued effect has
// no try.
func wakeID(kind queue.Kind, run, effect string, try int) string {
	what, _ := json.Marshal([]string{string(kind), run, effect, strconv.Itoa(try)}) // strings
	return laterID(what)
}

func laterID(what []byte) string {
	sum := sha256.Sum256(what)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
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
	q.Version, q.Name, q.ID, q.Try, q.Asked, q.Tries = p.Version, p.Name, p.ID, p.Try, p.Asked, p.Tries
	q.Letter, q.Redrives = p.Letter, p.Redrive
	q.Body = body
	q.Delivered += p.Before // whoever was given it before may have died of it
	q.Headers = make(map[string]string, len(p.Headers))
	for k, v := range p.Headers {
		if !internal(k) {
			q.Headers[k] = string(v)
		}
	}
	if len(s.subj.tokens(q.Subject)) == 3 && (q.Kind == queue.Start || q.Kind == queue.Event) {
		var err error
		if q.Parent, err = parentOf(q); err != nil {
			return err
		}
	}
	if q.Kind == queue.Start {
		return fillStanding(q)
	}
	return nil
}
