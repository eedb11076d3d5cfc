package natsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/queue"
)

// Redrive puts the message that a dead letter is about back on its stream,
// with the letter's body. It is the start or the signal that it was, under the
// id that it had, and may be sent again: what becomes of it is that of one.
// The letter stays where it is.
func (s *Sender) Redrive(ctx context.Context, d deadletter.Letter) error {
	m, err := s.original(d)
	if err != nil {
		return fmt.Errorf("re-drive letter %d: %w", d.Seq, err)
	}
	stream := streamStart
	if d.Kind == deadletter.KindSignal {
		stream = streamSignal
	}
	_, err = s.tell(ctx, fmt.Sprintf("re-drive letter %d", d.Seq), stream, m)
	return err
}

// original makes the message that a letter is about.
func (s *Sender) original(d deadletter.Letter) (*nats.Msg, error) {
	h := nats.Header{headerRedrive: {redriveValue(d.ID, d.Redrives+1)}}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		value := d.Headers[name]
		// Those of the broker would steer it: an id is written as ours.
		if !strings.HasPrefix(strings.ToLower(name), "nats-") && queue.FitsHeader(name) && queue.FitsHeader(value) {
			h[name] = []string{value}
		}
	}
	err := queue.CheckRun(d.Run)
	switch d.Kind {
	case deadletter.KindStart:
		h[headerRun] = []string{d.Run}
		err = first(checkName("machine", d.Machine), err, inHeader("run id", d.Run))
		return &nats.Msg{Subject: s.subj.start(d.Machine), Header: h, Data: d.Body}, err
	case deadletter.KindSignal:
		t := s.subj.tokens(d.Source)
		if len(t) != 3 || t[0] != "signal" {
			return nil, fmt.Errorf("its message came by %s, which is no subject of a signal", quoted(d.Source))
		}
		id := d.SignalID()
		h[headerSignal] = []string{id}
		err = first(checkName("signal", t[2]), err, checkID("signal id", id, mostID), inHeader("signal id", id), runHeader(h, d.Run))
		return &nats.Msg{Subject: s.subj.signal(d.Run, t[2]), Header: h, Data: d.Body}, err
	}
	return nil, fmt.Errorf("a letter of kind %s has no message to go back", quoted(string(d.Kind)))
}

// Next is the id of the letter that a start or a signal becomes if it is
// re-driven from this letter, and is given up again.
func (b *Letters) Next(ctx context.Context, d deadletter.Letter) (string, error) {
	stream, m := streamStart, queue.Message{Kind: queue.Start, Letter: d.ID, Machine: d.Machine, Run: d.Run, Body: d.Body}
	if d.Kind == deadletter.KindSignal {
		stream, m.Kind, m.Machine = streamSignal, queue.Signal, ""
	}
	incarnation, err := b.incarnation(ctx, stream)
	if err != nil {
		return "", err
	}
	return incarnation + "-" + m.LetterID(), nil
}

// Known reports whether a letter with an id was ever stored, whatever became
// of it.
func (b *Letters) Known(ctx context.Context, id string) (bool, error) {
	entry, err := b.lead(ctx, streamDLQ, map[string]any{"last_by_subj": b.subj.letterIndex(hashToken(id))})
	return entry != nil, err
}

// Last is the sequence of the last letter there is; what comes later is after
// it.
func (b *Letters) Last(ctx context.Context) (uint64, error) {
	info, err := b.streamInfo(ctx, streamDLQ)
	if err != nil {
		return 0, err
	}
	return info.State.LastSeq, nil
}

// delete removes a message of a stream. What is not plainly answered is read:
// one that is gone is no error.
func (l *link) delete(ctx context.Context, stream string, seq uint64) error {
	what := fmt.Sprintf("remove message %d of stream %s", seq, l.subj.stream(stream))
	body, _ := json.Marshal(map[string]any{"seq": seq, "no_erase": true}) // numbers
	m := &nats.Msg{Subject: "$JS.API.STREAM.MSG.DELETE." + l.subj.stream(stream), Data: body}
	return l.retry(ctx, what, func() error {
		var a struct {
			Error   *apiError `json:"error"`
			Success bool      `json:"success"`
		}
		answer, err := l.ask(ctx, m)
		switch {
		case err != nil:
		case answer == nil:
			err = errSilent
		case len(answer.Data) == 0:
			err = errNoResponse
		default:
			err = json.Unmarshal(answer.Data, &a)
		}
		if err == nil && a.Success {
			return nil
		}
		if denied := l.forbidden(m.Subject); denied != nil {
			return final{denied}
		}
		if left, e := l.lead(ctx, stream, map[string]any{"seq": seq}); e == nil && left == nil {
			return nil
		}
		if err == nil && a.Error != nil {
			err = a.Error
		}
		return err
	})
}
