package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// Log is HISTORY.
type Log struct{ *link }

var _ worker.Log = (*Log)(nil)

// attempt is one record on its way into HISTORY.
type attempt struct {
	at     int // index in what the caller gave
	record *statemachine.Record
	msg    *nats.Msg
	first  time.Time // when it was first sent
	sent   time.Time // when it was last sent
	answer ack
}

const (
	firstPause = 20 * time.Millisecond
	mostPause  = time.Second
)

// Append implements worker.Log. All records of a call are under way at once;
// those whose outcome is not plain are settled by reading, and sent again,
// while the same bytes would still be the run's next record.
func (g *Log) Append(ctx context.Context, appends []worker.Append) []worker.Appended {
	out := make([]worker.Appended, len(appends))
	g.settleAll(ctx, g.attempts(appends), out)
	return out
}

// settleAll sends attempts until the outcome of each is settled.
func (g *Log) settleAll(ctx context.Context, open []*attempt, out []worker.Appended) {
	began, pause := time.Now(), firstPause
	for round := 0; ; round++ {
		g.sendAll(ctx, open, round)
		open = g.settle(ctx, open, out)
		if len(open) == 0 {
			return
		}
		// Outcomes that are still open were read to be not there yet.
		if time.Since(began) > g.opts.Patience {
			for _, a := range open {
				out[a.at].Err = unavailable("append run "+quoted(a.record.Run), a.answer.why)
			}
			return
		}
		if err := sleep(ctx, jitter(pause)); err != nil {
			for _, a := range open {
				out[a.at].Err = fmt.Errorf("append run %s: %w", quoted(a.record.Run), err)
			}
			return
		}
		pause = min(2*pause, mostPause)
	}
}

// attempts makes the messages. Their headers share one array of values.
func (g *Log) attempts(appends []worker.Append) []*attempt {
	const headers = 6
	values := make([]string, 0, headers*len(appends))
	value := func(s string) []string {
		values = append(values, s)
		return values[len(values)-1 : len(values) : len(values)]
	}
	all := make([]attempt, len(appends))
	msgs := make([]nats.Msg, len(appends))
	open := make([]*attempt, len(appends))
	for i, a := range appends {
		r := a.Record
		// No Nats-Msg-Id: the expected sequence is the guard, and an id would
		// only make the answers harder to read.
		msgs[i] = nats.Msg{
			Subject: g.subj.history(r.Run),
			Data:    a.Bytes,
			Header: nats.Header{
				headerExpected: value(strconv.FormatUint(r.Prev, 10)),
				headerTxid:     value(headerValue(r.Txid)),
				headerRev:      value(strconv.FormatUint(r.Rev, 10)),
				headerMachine:  value(headerValue(r.Machine)),
				headerStatus:   value(headerValue(string(r.Status))),
				headerRun:      value(headerValue(r.Run)),
			},
		}
		all[i] = attempt{at: i, record: r, msg: &msgs[i]}
		open[i] = &all[i]
	}
	return open
}

// sendAll sends what is open and notes the answers. The first two rounds may
// use batches: a second one without those that spoilt the first.
func (g *Log) sendAll(ctx context.Context, open []*attempt, round int) {
	msgs := make([]*nats.Msg, len(open))
	now := time.Now()
	for i, a := range open {
		a.depart(now)
		msgs[i] = a.msg
	}
	var answers []ack
	if g.group && round < 2 {
		answers = g.history.send(ctx, msgs)
	} else {
		answers = g.sendEach(ctx, msgs)
	}
	for i, answer := range answers {
		open[i].answer = answer
	}
}

// depart notes that the record is about to be sent.
func (a *attempt) depart(now time.Time) {
	if a.first.IsZero() {
		a.first = now
	}
	a.sent, a.answer = now, ack{}
}

// settle decides every attempt it can, reading where the answer does not tell,
// and returns those to be sent again.
func (g *Log) settle(ctx context.Context, open []*attempt, out []worker.Appended) []*attempt {
	var unclear []*attempt
	for _, a := range open {
		switch a.answer.verdict {
		case stored:
			out[a.at] = worker.Appended{Seq: a.answer.seq, Sent: a.sent}
		case tooLarge:
			out[a.at].Err = fmt.Errorf("append run %s: %w: %w", quoted(a.record.Run), worker.ErrTooLarge, a.answer.why)
		default:
			unclear = append(unclear, a)
		}
	}
	if len(unclear) == 0 {
		return nil
	}
	subjects := make([]string, len(unclear))
	for i, a := range unclear {
		subjects[i] = a.msg.Subject
	}
	last, errs := g.leads(ctx, subjects)
	again := unclear[:0]
	for i, a := range unclear {
		if errs[i] != nil {
			// Not even read: the outcome stays open.
			if err := ctx.Err(); err != nil {
				out[a.at].Err = fmt.Errorf("append run %s: %w", quoted(a.record.Run), err)
				continue
			}
			a.answer.why = errors.Join(a.answer.why, errs[i])
			again = append(again, a)
			continue
		}
		if outcome, ok := g.compare(a, last[i]); ok {
			out[a.at] = outcome
			continue
		}
		again = append(again, a)
	}
	return again
}

// compare decides an attempt by the run's last record; false if the record is
// to be sent again.
func (g *Log) compare(a *attempt, last *raw) (worker.Appended, bool) {
	run := quoted(a.record.Run)
	if last != nil && last.txid() == a.record.Txid {
		return worker.Appended{Seq: last.seq, Sent: a.first}, true
	}
	if last != nil && last.seq > a.record.Prev {
		s, err := last.record()
		if err != nil {
			return worker.Appended{Err: fmt.Errorf("append run %s: %w", run, err)}, true
		}
		return worker.Appended{Last: s}, true
	}
	if a.record.Prev > 0 && (last == nil || last.seq < a.record.Prev) {
		// The record before this one was read by somebody, and no last record
		// is ever removed: whoever answered is behind.
		a.answer.why = errors.Join(a.answer.why, errBehind)
		return worker.Appended{}, false
	}
	stream := "stream " + g.subj.stream(streamHistory)
	if a.answer.verdict == noRoom || a.answer.verdict == impossible {
		return worker.Appended{Err: fmt.Errorf("append run %s: %w", run, unavailable(stream, a.answer.why))}, true
	}
	if err := g.forbidden(a.msg.Subject); err != nil && errors.Is(a.answer.why, errSilent) {
		return worker.Appended{Err: fmt.Errorf("append run %s: %w", run, unavailable(stream, err))}, true
	}
	return worker.Appended{}, false
}

var errBehind = errors.New("the server that answered is behind")

// forbidden is the broker's complaint about publishing on a subject, if the
// last complaint was that. It is the only answer such a publish gets.
func (l *link) forbidden(subject string) error {
	err := l.nc.LastError()
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(subject)) {
		return err
	}
	return nil
}

// sleep waits, or returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// jitter is d, give or take a quarter.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
