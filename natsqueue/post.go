package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/worker"
)

const (
	// letterFlight is how many letters are under way at once, each as a batch
	// of its own: the broker takes 50 batches of a stream at a time.
	letterFlight = 16
	// mostTogether is how many letters go as one batch.
	mostTogether = mostBatch / 2
)

// parcel is a letter on its way into DLQ, with its entry in the index: the
// letter first, since half a batch must not be the half that says it is there.
type parcel struct {
	at     int         // index in what the caller gave
	msgs   []*nats.Msg // the letter, and its entry
	answer ack
}

// post stores letters, each once for as long as the index remembers: an entry
// is created in the same batch as its letter, so whoever comes second is
// refused, and reads why. The errors are parallel to the letters.
//
// First all go together, with those of other callers: one sync for hundreds.
// One that is there already, or for which there is no room, has the whole batch
// refused; then each goes on its own.
func (l *link) post(ctx context.Context, letters []deadletter.Letter) []error {
	errs := make([]error, len(letters))
	var parcels []*parcel
	for i, d := range letters {
		m, err := l.letter(ctx, d)
		if err != nil || m == nil { // or it is there
			errs[i] = err
			continue
		}
		entry := &nats.Msg{Subject: l.subj.letterIndex(m.Header.Get(dlqHash)), Header: nats.Header{
			headerExpected: {"0"}, headerTTL: {ttl(l.opts.LedgerTTL)},
		}}
		parcels = append(parcels, &parcel{at: i, msgs: []*nats.Msg{m, entry}})
	}
	if len(parcels) == 0 {
		return errs
	}
	var open []*parcel
	for i, there := range l.parcels.send(ctx, parcels) {
		if !there {
			open = append(open, parcels[i])
		}
	}
	var away error
	for part := range slices.Chunk(open, letterFlight) {
		if away == nil {
			away = l.postPart(ctx, part, errs)
			continue
		}
		for _, p := range part {
			errs[p.at] = away
		}
	}
	return errs
}

// postTogether sends letters once, as batches of many, one after the other, and
// reports which are acknowledged. Of the others nothing is known.
func (l *link) postTogether(ctx context.Context, parcels []*parcel) []bool {
	there := make([]bool, 0, len(parcels))
	for len(parcels) > 0 {
		n, size := 0, 0
		for n < min(len(parcels), mostTogether) && size < batchBytes {
			size += len(parcels[n].msgs[0].Data)
			n++
		}
		var part []*nats.Msg
		for _, p := range parcels[:n] {
			part = append(part, p.msgs...)
		}
		l.opts.Gathered(streamDLQ, len(part))
		f := l.mux.fly(1)
		err := l.sendBatch(f, 0, part)
		answers, _ := f.land(ctx, l.opts.Quiet)
		ok := err == nil && readBatchAck(answers[0], len(part)).verdict == stored
		for range n {
			there = append(there, ok)
		}
		parcels = parcels[n:]
		if !ok {
			break
		}
	}
	for range parcels {
		there = append(there, false)
	}
	return there
}

// postPart sends letters until each is known to be stored. The error is that
// of letters that may be stored another time.
func (l *link) postPart(ctx context.Context, open []*parcel, errs []error) (away error) {
	began, pause := time.Now(), firstPause
	for {
		if open = l.postOnce(ctx, open, errs); len(open) == 0 {
			return nil
		}
		err := ctx.Err()
		if err == nil && time.Since(began) <= l.opts.Patience {
			err = sleep(ctx, jitter(pause))
			pause = min(2*pause, mostPause)
			if err == nil {
				continue
			}
		}
		for _, p := range open {
			if away = err; err == nil {
				away = fmt.Errorf("%w: %w", worker.ErrUnavailable, p.answer.why)
			}
			errs[p.at] = away
		}
		return away
	}
}

// postOnce sends letters once, each as a batch of its own, and returns those
// that are not stored yet. What is not plainly acknowledged is read from the
// index. One caller at a time: the broker takes so many batches.
func (l *link) postOnce(ctx context.Context, open []*parcel, errs []error) []*parcel {
	select {
	case l.posting <- struct{}{}:
		defer func() { <-l.posting }()
	case <-ctx.Done():
		return open
	}
	f := l.mux.fly(len(open))
	for i, p := range open {
		p.answer = ack{}
		if err := l.sendBatch(f, i, p.msgs); err != nil {
			p.answer = sendError(err)
		}
	}
	answers, _ := f.land(ctx, l.opts.Quiet)
	var unclear []*parcel
	for i, p := range open {
		if p.answer.why == nil { // it was sent
			p.answer = readAck(answers[i])
		}
		switch {
		case p.answer.verdict == stored && p.answer.count == len(p.msgs):
		case p.answer.verdict == tooLarge:
			errs[p.at] = p.answer.err()
		default:
			if p.answer.verdict == stored {
				p.answer = ack{verdict: unsure, why: errors.New("answer to another batch")}
			}
			unclear = append(unclear, p)
		}
	}
	if len(unclear) == 0 {
		return nil
	}
	f = l.mux.fly(len(unclear))
	for i, p := range unclear {
		if err := f.send(i, l.leaderGet(streamDLQ, map[string]any{"last_by_subj": p.msgs[1].Subject})); err != nil {
			p.answer.why = errors.Join(p.answer.why, err)
		}
	}
	answers, _ = f.land(ctx, l.opts.Quiet)
	again := unclear[:0]
	for i, p := range unclear {
		entry, err := readLeader(answers[i], p.msgs[1].Subject)
		switch {
		case err != nil: // not even read: the outcome stays open
			p.answer.why = errors.Join(p.answer.why, err)
			again = append(again, p)
		case entry != nil: // stored, by this or before
		case p.answer.verdict == noRoom:
			errs[p.at] = p.answer.err()
		default:
			if err := l.deniedBatch(p.msgs); err != nil {
				errs[p.at] = fmt.Errorf("%w: %w", worker.ErrUnavailable, err)
				continue
			}
			again = append(again, p)
		}
	}
	return again
}

// deniedBatch is the broker's complaint about any message of a batch.
func (l *link) deniedBatch(msgs []*nats.Msg) error {
	for _, m := range msgs {
		if err := l.forbidden(m.Subject); err != nil {
			return err
		}
	}
	return nil
}

// DeadLetter implements worker.Source. The id is made unique by the stream
// that the message came from: one that is made anew counts from 1 again.
func (s *Source) DeadLetter(ctx context.Context, d deadletter.Letter) error {
	id, err := s.letterID(ctx, d)
	if err == nil {
		d.ID = id
		err = s.post(ctx, []deadletter.Letter{d})[0]
	}
	if err != nil {
		return fmt.Errorf("dead-letter %s: %w", quoted(d.ID), err)
	}
	return nil
}

// letterID is a letter's id with the incarnation of its message's stream in
// front. What is remembered of that may be of the stream before, so it is
// asked for; a letter is rare.
func (s *Source) letterID(ctx context.Context, d deadletter.Letter) (string, error) {
	name := s.subj.streamOf(d.Source)
	if name == "" || d.ID == "" {
		return d.ID, nil
	}
	s.forget(name)
	incarnation, err := s.incarnation(ctx, name)
	if err != nil {
		return "", err
	}
	return incarnation + "-" + d.ID, nil
}
