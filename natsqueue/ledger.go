package natsqueue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
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
// here too. A result is one of three.
type page struct {
	Key    string          `json:"key"`
	Run    string          `json:"run"`
	Effect string          `json:"effect"`
	Print  string          `json:"print"`
	State  string          `json:"state"`
	Result json.RawMessage `json:"result,omitempty"` // as it is, if JSON keeps it byte for byte
	Bytes  []byte          `json:"bytes,omitempty"`  // otherwise
	Blob   string          `json:"blob,omitempty"`   // its hash, if it is too large for an entry

	Try     int       `json:"try,omitempty"`
	By      string    `json:"by,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Crashes int       `json:"crashes,omitempty"`
	Doubt   bool      `json:"doubt,omitempty"`
}

const (
	mostEntryResult = 512 << 10 // beyond it a result is a blob of the key
	mostResult      = 32 << 20
)

// Claim implements worker.Ledger.
func (g *Ledger) Claim(ctx context.Context, key string, e worker.LedgerEntry) (worker.LedgerEntry, uint64, error) {
	fail := func(err error) (worker.LedgerEntry, uint64, error) {
		return worker.LedgerEntry{}, 0, fmt.Errorf("claim key %s: %w", quoted(key), err)
	}
	p, err := g.page(ctx, key, e)
	if err != nil {
		return fail(err)
	}
	msg, err := g.message(p, 0)
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
		if seq == 0 {
			continue
		}
		there, err := g.entry(ctx, found)
		if err != nil {
			return fail(err)
		}
		return there, seq, nil
	}
	return fail(fmt.Errorf("%w: the entry is and is not there", worker.ErrUnavailable))
}

// Settle implements worker.Ledger.
func (g *Ledger) Settle(ctx context.Context, key string, seq uint64, e worker.LedgerEntry) (uint64, error) {
	fail := func(err error) (uint64, error) {
		return 0, fmt.Errorf("settle key %s: %w", quoted(key), err)
	}
	p, err := g.page(ctx, key, e)
	if err != nil {
		return fail(err)
	}
	msg, err := g.message(p, seq)
	if err != nil {
		return fail(err)
	}
	a := g.send(ctx, []*nats.Msg{msg})[0]
	if a.verdict == stored {
		return a.seq, nil
	}
	if a.verdict != refused {
		return fail(a.err())
	}
	// Another's, or what was sent before and not answered.
	found, at, err := g.look(ctx, key)
	if err != nil {
		return fail(err)
	}
	if at > seq && found.same(p) {
		return at, nil
	}
	return 0, nil
}

// clearedFor is how long an entry that is cleared still says so, to whoever is
// late.
const clearedFor = time.Minute

// Clear implements worker.Ledger. The entry is not purged: that is the right of
// few.
func (g *Ledger) Clear(ctx context.Context, key string) error {
	msg, err := g.message(page{Key: key, State: string(worker.LedgerCleared)}, 0)
	if err == nil {
		delete(msg.Header, headerExpected)
		msg.Header[headerTTL] = []string{ttl(clearedFor)}
		if a := g.send(ctx, []*nats.Msg{msg})[0]; a.verdict != stored {
			err = a.err()
		}
	}
	if err != nil {
		return fmt.Errorf("clear key %s: %w", quoted(key), err)
	}
	return nil
}

func (p page) same(q page) bool {
	return p.Run == q.Run && p.Effect == q.Effect && p.Print == q.Print && p.State == q.State &&
		bytes.Equal(p.Result, q.Result) && bytes.Equal(p.Bytes, q.Bytes) && p.Blob == q.Blob &&
		p.Try == q.Try && p.By == q.By && p.Until.Equal(q.Until) && p.Crashes == q.Crashes && p.Doubt == q.Doubt
}

// page makes the page of an entry. A result that is too large for it is stored
// first.
func (g *Ledger) page(ctx context.Context, key string, e worker.LedgerEntry) (page, error) {
	p := page{Key: key, Run: e.Run, Effect: e.Effect, Print: e.Print, State: string(e.State), Try: e.Try, By: e.By, Until: e.Until, Crashes: e.Crashes, Doubt: e.Doubt}
	switch {
	case key == "":
		return p, errors.New("the key is empty")
	case len(e.Result) > mostResult:
		return p, fmt.Errorf("%w: a result of %d bytes, over %d", worker.ErrTooLarge, len(e.Result), mostResult)
	case len(e.Result) > mostEntryResult:
		p.Blob = resultHash(e.Result)
		return p, g.putBlob(ctx, ledgerPart(key), p.Blob, e.Result, g.opts.LedgerTTL)
	case verbatim(e.Result):
		p.Result = e.Result
	default:
		p.Bytes = e.Result
	}
	return p, nil
}

// verbatim reports whether JSON carries a value byte for byte.
func verbatim(b []byte) bool {
	var out bytes.Buffer
	return json.Compact(&out, b) == nil && bytes.Equal(out.Bytes(), b)
}

func resultHash(result []byte) string {
	sum := sha256.Sum256(result)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// entry is what a page says.
func (g *Ledger) entry(ctx context.Context, p page) (worker.LedgerEntry, error) {
	e := worker.LedgerEntry{Run: p.Run, Effect: p.Effect, Print: p.Print, State: worker.LedgerState(p.State), Try: p.Try, By: p.By, Until: p.Until, Crashes: p.Crashes, Doubt: p.Doubt}
	switch {
	case p.Blob != "":
		data, err := g.getBlob(ctx, ledgerPart(p.Key), p.Blob)
		if err == nil && resultHash(data) != p.Blob {
			err = fmt.Errorf("blob %s is another's", p.Blob)
		}
		if err != nil {
			return e, fmt.Errorf("the result: %w", err)
		}
		e.Result = data
	case len(p.Bytes) > 0:
		e.Result = p.Bytes
	case len(p.Result) > 0:
		e.Result = p.Result
	}
	return e, nil
}

func (g *Ledger) message(p page, expected uint64) (*nats.Msg, error) {
	// What escapes less than the default carries results as they are.
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	return &nats.Msg{Subject: g.subj.ledger(p.Key), Data: bytes.TrimSuffix(body.Bytes(), []byte{'\n'}), Header: nats.Header{
		headerExpected: {strconv.FormatUint(expected, 10)},
		headerTTL:      {ttl(g.opts.LedgerTTL)},
	}}, nil
}

// look reads the page of a key from the leader; sequence 0 if it has none.
func (g *Ledger) look(ctx context.Context, key string) (page, uint64, error) {
	m, err := g.lead(ctx, streamLedger, map[string]any{"last_by_subj": g.subj.ledger(key)})
	if err != nil || m == nil {
		return page{}, 0, err
	}
	var p page
	if err := json.Unmarshal(m.data, &p); err != nil {
		return page{}, 0, fmt.Errorf("entry %d: %w", m.seq, err)
	}
	if p.Key != key {
		return page{}, 0, fmt.Errorf("entry %d is of key %s", m.seq, quoted(p.Key))
	}
	return p, m.seq, nil
}
