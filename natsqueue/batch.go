package natsqueue

import (
	"context"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"
)

const (
	// mostBatch is what the server takes as one atomic batch.
	mostBatch = 1000
	// batchBytes bounds what the server stages of one batch.
	batchBytes = 16 << 20
	// leastBatch is from where on a batch is faster than single messages
	// where every write is synced: one replica stages a batch in files of its
	// own, which it makes, syncs and removes.
	leastBatch = 10
)

// sendBatches sends messages of one stream as atomic batches: one sync for
// each. That a batch is stored whole or not at all is not relied on: anything
// but an acknowledgement leaves each message unsure.
func (l *link) sendBatches(ctx context.Context, msgs []*nats.Msg) []ack {
	out := make([]ack, 0, len(msgs))
	parts := split(msgs)
	f := l.mux.fly(len(parts))
	errs := make([]error, len(parts))
	for i, part := range parts {
		errs[i] = l.sendBatch(f, i, part)
	}
	answers, _ := f.land(ctx, l.opts.Quiet)
	for i, part := range parts {
		answer := ack{verdict: unsure, why: errs[i]}
		if errs[i] == nil {
			answer = readBatchAck(answers[i], len(part))
		}
		for k := range part {
			one := answer
			if one.verdict == stored {
				one.seq = answer.seq - uint64(len(part)-1-k)
			}
			out = append(out, one)
		}
	}
	return out
}

// split cuts messages into batches of bounded length and size.
func split(msgs []*nats.Msg) [][]*nats.Msg {
	var parts [][]*nats.Msg
	first, size := 0, 0
	for i, m := range msgs {
		size += len(m.Data)
		if i-first == mostBatch || i > first && size > batchBytes {
			parts = append(parts, msgs[first:i])
			first, size = i, len(m.Data)
		}
	}
	return append(parts, msgs[first:])
}

// sendBatch sends one batch as the i-th request of a flight. Only the last
// message asks for an answer: the server counts, and says if one is missing.
func (l *link) sendBatch(f *flight, i int, part []*nats.Msg) error {
	id := newID()
	for k, m := range part {
		m = &nats.Msg{Subject: m.Subject, Data: m.Data, Header: withBatch(m.Header, id, k+1)}
		if k == len(part)-1 {
			m.Header[headerBatchCommit] = []string{"1"}
			return f.send(i, m)
		}
		if err := l.nc.PublishMsg(m); err != nil {
			f.left-- // never committed
			return err
		}
	}
	return nil
}

// withBatch copies a header and adds a message's place in a batch.
func withBatch(h nats.Header, id string, seq int) nats.Header {
	out := make(nats.Header, len(h)+3)
	for k, v := range h {
		out[k] = v
	}
	out[headerBatchID] = []string{id}
	out[headerBatchSeq] = []string{strconv.Itoa(seq)}
	return out
}

// readBatchAck reads the answer to a batch. Whatever is not a clean
// acknowledgement of all of it promises nothing about any one message.
func readBatchAck(m *nats.Msg, n int) ack {
	a := readAck(m)
	switch {
	case a.verdict == stored && (a.count == n || n == 1):
		return a
	case a.verdict == stored:
		return ack{verdict: unsure, why: errors.New("answer to another batch")}
	case a.verdict == noRoom:
		return a
	}
	return ack{verdict: unsure, why: a.why}
}
