package natsqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/worker"
)

// Ledger is the business keys. Each has one message, replaced when it is
// settled.
type Ledger struct{ *link }

var _ worker.Ledger = (*Ledger)(nil)

// page is the body of a key's message. The subject is a hash, so the key is
// here too.
type page struct {
	Key string `json:"key"`
	worker.LedgerEntry
}

// Claim implements worker.Ledger.
func (g *Ledger) Claim(ctx context.Context, key string, e worker.LedgerEntry) (worker.LedgerEntry, uint64, error) {
	fail := func(err error) (worker.LedgerEntry, uint64, error) {
		return worker.LedgerEntry{}, 0, fmt.Errorf("claim key %s: %w", quoted(key), err)
	}
	msg, err := g.message(key, 0, e)
	if err != nil {
		return fail(err)
	}
	// An entry that was there may expire between the refusal and the read.
	for range 3 {
		a := g.send(ctx, []*nats.Msg{msg})[0]
		if a.verdict == stored {
			return e, a.seq, nil
		}
		if a.verdict != refused {
			return fail(a.err())
		}
		found, seq, err := g.look(ctx, key)
		if err != nil {
			return fail(err)
		}
		if seq > 0 {
			return found, seq, nil
		}
	}
	return fail(fmt.Errorf("%w: the entry is and is not there", worker.ErrUnavailable))
}

// Settle implements worker.Ledger.
func (g *Ledger) Settle(ctx context.Context, key string, seq uint64, e worker.LedgerEntry) (bool, error) {
	msg, err := g.message(key, seq, e)
	if err != nil {
		return false, fmt.Errorf("settle key %s: %w", quoted(key), err)
	}
	a := g.send(ctx, []*nats.Msg{msg})[0]
	if a.verdict == stored {
		return true, nil
	}
	if a.verdict != refused {
		return false, fmt.Errorf("settle key %s: %w", quoted(key), a.err())
	}
	// Another's, or what was sent before and not answered.
	found, at, err := g.look(ctx, key)
	if err != nil {
		return false, fmt.Errorf("settle key %s: %w", quoted(key), err)
	}
	return at > seq && same(found, e), nil
}

func same(a, b worker.LedgerEntry) bool {
	return a.Run == b.Run && a.Effect == b.Effect && a.Print == b.Print && a.State == b.State && bytes.Equal(a.Result, b.Result)
}

func (g *Ledger) message(key string, expected uint64, e worker.LedgerEntry) (*nats.Msg, error) {
	if key == "" {
		return nil, errors.New("the key is empty")
	}
	body, err := json.Marshal(page{key, e})
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	return &nats.Msg{Subject: g.subj.ledger(key), Data: body, Header: nats.Header{
		headerExpected: {strconv.FormatUint(expected, 10)},
		headerTTL:      {ttl(g.opts.LedgerTTL)},
	}}, nil
}

// ttl is a duration as Nats-TTL has it: whole seconds, at least one.
func ttl(d time.Duration) string {
	return strconv.FormatInt(max(1, int64(d/time.Second)), 10) + "s"
}

// look reads the entry of a key from the leader; sequence 0 if it has none.
func (g *Ledger) look(ctx context.Context, key string) (worker.LedgerEntry, uint64, error) {
	m, err := g.lead(ctx, streamLedger, map[string]any{"last_by_subj": g.subj.ledger(key)})
	if err != nil || m == nil {
		return worker.LedgerEntry{}, 0, err
	}
	var p page
	if err := json.Unmarshal(m.data, &p); err != nil {
		return worker.LedgerEntry{}, 0, fmt.Errorf("entry %d: %w", m.seq, err)
	}
	if p.Key != key {
		return worker.LedgerEntry{}, 0, fmt.Errorf("entry %d is of key %s", m.seq, quoted(p.Key))
	}
	return p.LedgerEntry, m.seq, nil
}
