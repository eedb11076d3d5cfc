package natsqueue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

// LineUp implements worker.Source. A start in line says which message it was,
// so that it is still the same one to all who ask: its id, if one was made, its
// letter and its time do not change.
func (s *Source) LineUp(ctx context.Context, messages []queue.Message, lines []queue.Line) []error {
	msgs := make([]*nats.Msg, len(messages))
	for i, m := range messages {
		h := nats.Header{}
		for k, v := range outward(m.Headers) {
			// Those of the broker would steer it: a message id would make the copy
			// a duplicate of its original.
			if !strings.HasPrefix(strings.ToLower(k), "nats-") {
				h[k] = []string{v}
			}
		}
		h[headerRun] = []string{m.Run}
		h[headerPlace] = []string{placeOf(m)}
		if m.Letter != "" {
			h[headerRedrive] = []string{redriveValue(m.Letter, m.Redrives)}
		}
		msgs[i] = &nats.Msg{Subject: s.subj.line(lines[i], m.Machine), Header: h, Data: m.Body}
	}
	errs := make([]error, len(messages))
	for i, a := range s.together(ctx, &s.starts, msgs) {
		err := a.err()
		if err == nil {
			continue
		}
		if a.verdict == noRoom {
			err = fmt.Errorf("%w: %w", worker.ErrFull, a.why)
		}
		errs[i] = fmt.Errorf("put start %d of %s in line: %w", messages[i].Seq, quoted(messages[i].Machine), err)
	}
	return errs
}

// placeOf says what a start was in the queue that it came from: its sequence,
// its time, and the deliveries of it that came to nothing.
func placeOf(m queue.Message) string {
	return strconv.FormatUint(m.Seq, 10) + " " + m.Time.UTC().Format(time.RFC3339Nano) + " " + strconv.Itoa(max(m.Delivered-1, 0))
}

// fillLined turns a start in line into what it was.
func (s *Source) fillLined(q *queue.Message, machine, place string) error {
	part := strings.Split(place, " ")
	if len(part) != 3 {
		return fmt.Errorf("%s is %s: no start that this fleet put in line", headerPlace, quoted(place))
	}
	seq, err := strconv.ParseUint(part[0], 10, 64)
	at, bad := time.Parse(time.RFC3339Nano, part[1])
	before, odd := strconv.Atoi(part[2])
	if err := first(err, bad, odd); err != nil {
		return fmt.Errorf("%s is %s: %w", headerPlace, quoted(place), err)
	}
	q.Subject, q.Seq, q.Time = s.subj.start(machine), seq, at
	q.Delivered += max(before, 0) // whoever was given it before may have died of it
	return fillStart(q, machine, "")
}
