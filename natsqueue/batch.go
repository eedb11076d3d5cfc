package natsqueue

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

const (
	// mostBatch is what the server takes as one atomic batch.
	mostBatch = 1000
	// batchBytes bounds what the server stages of one batch.
	batchBytes = 16 << 20
	// leastBatch is from where on a batch is faster than single messages:
	// staging costs the server a file, made, synced and removed.
	leastBatch = 4
)

// sendBatches sends records of many runs as atomic batches, each with its own
// expected sequence, and notes the answers. That a batch is stored whole or
// not at all is not relied on: after anything but an acknowledgement each
// record is settled by its own read.
func (g *Log) sendBatches(ctx context.Context, open []*attempt) {
	parts := split(open)
	f := g.mux.fly(len(parts))
	errs := make([]error, len(parts))
	for i, part := range parts {
		errs[i] = g.sendBatch(f, i, part)
	}
	answers, _ := f.land(ctx, g.opts.Quiet)
	for i, part := range parts {
		answer := ack{}
		if errs[i] != nil {
			answer = batchSendError(errs[i])
		} else {
			answer = readBatchAck(answers[i], len(part))
		}
		for k, a := range part {
			one := answer
			if one.verdict == stored {
				one.seq = answer.seq - uint64(len(part)-1-k)
			}
			a.answer = one
		}
	}
}

// split cuts attempts into batches of bounded length and size.
func split(open []*attempt) [][]*attempt {
	var parts [][]*attempt
	first, size := 0, 0
	for i, a := range open {
		size += len(a.msg.Data)
		if i-first == mostBatch || i > first && size > batchBytes {
			parts = append(parts, open[first:i])
			first, size = i, len(a.msg.Data)
		}
	}
	return append(parts, open[first:])
}

// sendBatch sends one batch as the i-th request of a flight. Only the last
// message asks for an answer: the server counts, and says if one is missing.
func (g *Log) sendBatch(f *flight, i int, part []*attempt) error {
	id := nuid.Next()
	now := time.Now()
	for k, a := range part {
		a.depart(now)
		m := &nats.Msg{Subject: a.msg.Subject, Data: a.msg.Data, Header: make(nats.Header, len(a.msg.Header)+3)}
		for key, v := range a.msg.Header {
			m.Header[key] = v
		}
		m.Header[headerBatchID] = []string{id}
		m.Header[headerBatchSeq] = []string{strconv.Itoa(k + 1)}
		if k == len(part)-1 {
			m.Header[headerBatchCommit] = []string{"1"}
			return f.send(i, m)
		}
		if err := g.nc.PublishMsg(m); err != nil {
			f.skip()
			return err
		}
	}
	return nil
}

// readBatchAck reads the answer to a batch. Whatever is not a clean
// acknowledgement of all of it promises nothing about any one record.
func readBatchAck(m *nats.Msg, n int) ack {
	a := readAck(m)
	switch {
	case a.verdict == stored && a.count == n:
		return a
	case a.verdict == stored:
		return ack{verdict: unsure, why: errors.New("answer to another batch")}
	case a.verdict == noRoom:
		return a
	}
	return ack{verdict: unsure, why: a.why}
}

// batchSendError sorts the error of one message of a batch: it says nothing
// about the others, and the batch is never committed.
func batchSendError(err error) ack {
	return ack{verdict: unsure, why: err}
}
