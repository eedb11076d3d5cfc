package natsqueue

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/queue"
)

const (
	mostLetterBody   = 512 << 10 // beyond it the body is a blob
	mostLetterHeader = 48 << 10  // beyond it the whole letter is; the server's limit is 64 KB
	mostCause        = 1 << 10   // of the cause of such a letter
)

// The headers of a letter.
const (
	dlqID       = "Pawl-Dlq-Id"
	dlqKind     = "Pawl-Dlq-Kind"
	dlqMachine  = "Pawl-Dlq-Machine"
	dlqRun      = "Pawl-Dlq-Run"
	dlqState    = "Pawl-Dlq-State"
	dlqEffect   = "Pawl-Dlq-Effect"
	dlqEffectID = "Pawl-Dlq-Effect-Id"
	dlqKey      = "Pawl-Dlq-Key"
	dlqClass    = "Pawl-Dlq-Class"
	dlqCause    = "Pawl-Dlq-Cause"
	dlqAttempts = "Pawl-Dlq-Attempts"
	dlqPrint    = "Pawl-Dlq-Fingerprint"
	dlqFirst    = "Pawl-Dlq-First-Failure"
	dlqLast     = "Pawl-Dlq-Last-Failure"
	dlqBuild    = "Pawl-Dlq-Build"
	dlqRedrives = "Pawl-Dlq-Redrives"
	dlqSource   = "Pawl-Dlq-Source"
	dlqSrcSeq   = "Pawl-Dlq-Source-Seq"
	dlqHeaders  = "Pawl-Dlq-Headers" // of the original, as JSON
	dlqBody     = "Pawl-Dlq-Body"    // hash of the blob that is the body
	dlqLetter   = "Pawl-Dlq-Letter"  // hash of the blob that is the letter
	dlqHash     = "Pawl-Dlq-Hash"    // of the id: names its blobs and its entry in the index
)

// letter makes the message of a letter; what does not fit is stored as blobs
// of the letter first. It is nil if there are any to be stored and the index
// has the letter: it may have been removed, and its blobs with it.
func (l *link) letter(ctx context.Context, d deadletter.Letter) (*nats.Msg, error) {
	if d.ID == "" {
		return nil, errors.New("a letter without an id")
	}
	d.Seq, d.Headers = 0, outward(d.Headers)
	hash, life := hashToken(d.ID), time.Duration(0)
	// A start's or a signal's letter is the only copy of what somebody asked.
	if d.Kind == deadletter.KindEffect {
		life = l.opts.LetterTTL
	}
	m := &nats.Msg{Subject: l.subj.letter(string(d.Kind), d.Machine), Header: letterHeader(d), Data: d.Body}
	large := size(m.Header) > mostLetterHeader
	if large || len(d.Body) > mostLetterBody {
		known, err := l.lead(ctx, streamDLQ, map[string]any{"last_by_subj": l.subj.letterIndex(hash)})
		if err != nil || known != nil {
			return nil, err
		}
	}
	var err error
	switch {
	case large:
		var whole []byte
		if whole, err = json.Marshal(d); err != nil {
			return nil, fmt.Errorf("encode letter: %w", err)
		}
		m.Header = letterHeader(deadletter.Letter{
			ID: cut(d.ID), Kind: d.Kind, Class: cut(d.Class), Cause: cut(d.Cause), Print: cut(d.Print), First: d.First, Last: d.Last,
		})
		m.Data = nil
		err = l.letterBlob(ctx, hash, m.Header, dlqLetter, whole, life)
	case len(d.Body) > mostLetterBody:
		m.Data = nil
		err = l.letterBlob(ctx, hash, m.Header, dlqBody, d.Body, life)
	}
	if err != nil {
		return nil, err
	}
	m.Header[dlqHash] = []string{hash}
	if life > 0 {
		m.Header[headerTTL] = []string{ttl(life)}
	}
	return m, nil
}

func (l *link) letterBlob(ctx context.Context, letter string, h nats.Header, name string, data []byte, life time.Duration) error {
	sum := sha256.Sum256(data)
	hash := base64.RawURLEncoding.EncodeToString(sum[:])
	h[name] = []string{hash}
	return l.putBlob(ctx, letterPart(letter), hash, data, life)
}

// cut is the beginning of a text.
func cut(s string) string { return s[:min(len(s), mostCause)] }

// size is what a header takes on the wire.
func size(h nats.Header) int {
	n := 0
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return n
}

func letterHeader(d deadletter.Letter) nats.Header {
	h := nats.Header{}
	text := func(name, v string) {
		if v != "" {
			h[name] = []string{headerValue(v)}
		}
	}
	number := func(name string, v uint64) {
		if v != 0 {
			h[name] = []string{strconv.FormatUint(v, 10)}
		}
	}
	moment := func(name string, v time.Time) {
		if !v.IsZero() {
			h[name] = []string{v.UTC().Format(time.RFC3339Nano)}
		}
	}
	text(dlqID, d.ID)
	text(dlqKind, string(d.Kind))
	text(dlqMachine, d.Machine)
	text(dlqRun, d.Run)
	text(dlqState, d.State)
	text(dlqEffect, d.Effect)
	text(dlqEffectID, d.EffectID)
	text(dlqKey, d.Key)
	text(dlqClass, d.Class)
	text(dlqCause, d.Cause)
	number(dlqAttempts, uint64(max(0, d.Attempts)))
	text(dlqPrint, d.Print)
	moment(dlqFirst, d.First)
	moment(dlqLast, d.Last)
	text(dlqBuild, d.Build)
	number(dlqRedrives, uint64(max(0, d.Redrives)))
	text(dlqSource, d.Source)
	number(dlqSrcSeq, d.SrcSeq)
	if len(d.Headers) > 0 {
		originals := make(map[string]string, len(d.Headers))
		for k, v := range d.Headers {
			originals[headerValue(k)] = headerValue(v)
		}
		b, _ := json.Marshal(originals) // strings
		text(dlqHeaders, string(b))
	}
	return h
}

// Letters reads DLQ.
type Letters struct{ *link }

// Get returns the letter with a sequence, and false if there is none.
func (b *Letters) Get(ctx context.Context, seq uint64) (deadletter.Letter, bool, error) {
	m, err := b.get(ctx, seq)
	if err != nil || m == nil {
		return deadletter.Letter{}, false, err
	}
	d, err := b.parse(ctx, m)
	return d, true, err
}

// get reads the message of a letter; nil if there is none, or no letter's.
func (b *Letters) get(ctx context.Context, seq uint64) (*raw, error) {
	m, err := b.lead(ctx, streamDLQ, map[string]any{"seq": seq})
	if err != nil {
		return nil, fmt.Errorf("letter %d: %w", seq, err)
	}
	if m == nil || !strings.HasPrefix(m.subject, b.subj.prefix+".dlq.") {
		return nil, nil
	}
	return m, nil
}

// Count returns how many letters there are, by kind.
func (b *Letters) Count(ctx context.Context) (map[string]int, error) {
	all := map[string]int{}
	return all, b.countLetters(ctx, all)
}

// All yields the letters, oldest first. After an error that is about one
// letter it goes on, if it may.
func (b *Letters) All(ctx context.Context) iter.Seq2[deadletter.Letter, error] {
	return b.Of(ctx, "", "", 0)
}

// Of yields the letters of a kind and a machine with a sequence after the
// given one, oldest first; "" stands for all.
func (b *Letters) Of(ctx context.Context, kind deadletter.Kind, machine string, after uint64) iter.Seq2[deadletter.Letter, error] {
	orAll := func(s string) string {
		if s == "" {
			return "*"
		}
		return s
	}
	subject := b.subj.prefix + ".dlq." + orAll(string(kind)) + "." + orAll(machine)
	return func(yield func(deadletter.Letter, error) bool) {
		if kind != "" && !queue.IsName(string(kind)) || machine != "" && machine != nobody && !queue.IsName(machine) {
			yield(deadletter.Letter{}, fmt.Errorf("no letter is of kind %s and machine %s", quoted(string(kind)), quoted(machine)))
			return
		}
		for {
			msgs, _, err := b.series(ctx, streamDLQ, map[string]any{
				"next_by_subj": subject, "seq": after + 1, "batch": readChunk, "max_bytes": answerBytes,
			})
			if err != nil {
				yield(deadletter.Letter{}, fmt.Errorf("read letters: %w", err))
				return
			}
			for _, m := range msgs {
				after = m.seq
				if !yield(b.parse(ctx, m)) {
					return
				}
			}
			if len(msgs) == 0 {
				return
			}
		}
	}
}

// Remove removes a letter, and the blobs it has. The index still knows it, so
// it does not come again.
func (b *Letters) Remove(ctx context.Context, seq uint64) error {
	m, err := b.get(ctx, seq)
	if err != nil || m == nil {
		return err
	}
	h := m.headers()
	return b.remove(ctx, seq, h.Get(dlqHash), h.Get(dlqBody) != "" || h.Get(dlqLetter) != "")
}

// Drop is Remove of a letter that was read.
func (b *Letters) Drop(ctx context.Context, d deadletter.Letter) error {
	apart := len(d.Body) > mostLetterBody || size(letterHeader(d)) > mostLetterHeader
	return b.remove(ctx, d.Seq, hashToken(d.ID), apart)
}

// remove removes the message of a letter, and its blobs if it has some, as few
// have.
func (b *Letters) remove(ctx context.Context, seq uint64, hash string, apart bool) error {
	if err := b.delete(ctx, streamDLQ, seq); err != nil {
		return fmt.Errorf("remove letter %d: %w", seq, err)
	}
	if !apart || !opaqueRE.MatchString(hash) { // or it is somebody else's
		return nil
	}
	if err := b.purge(ctx, letterPart(hash)); err != nil {
		return fmt.Errorf("remove blobs of letter %d: %w", seq, err)
	}
	return nil
}

// parse turns a message into the letter it was made of.
func (b *Letters) parse(ctx context.Context, m *raw) (deadletter.Letter, error) {
	p := letterParser{header: m.headers()}
	d := deadletter.Letter{
		ID:       p.text(dlqID),
		Seq:      m.seq,
		Kind:     deadletter.Kind(p.text(dlqKind)),
		Machine:  p.text(dlqMachine),
		Run:      p.text(dlqRun),
		State:    p.text(dlqState),
		Effect:   p.text(dlqEffect),
		EffectID: p.text(dlqEffectID),
		Key:      p.text(dlqKey),
		Class:    p.text(dlqClass),
		Cause:    p.text(dlqCause),
		Attempts: int(p.number(dlqAttempts)),
		Print:    p.text(dlqPrint),
		First:    p.moment(dlqFirst),
		Last:     p.moment(dlqLast),
		Build:    p.text(dlqBuild),
		Redrives: int(p.number(dlqRedrives)),
		Source:   p.text(dlqSource),
		SrcSeq:   p.number(dlqSrcSeq),
		Headers:  p.headers(dlqHeaders),
	}
	if len(m.data) > 0 {
		d.Body = m.data
	}
	if len(p.errs) > 0 {
		return d, fmt.Errorf("letter %d: %w", m.seq, errors.Join(p.errs...))
	}
	owner := letterPart(m.headers().Get(dlqHash))
	if hash := m.headers().Get(dlqBody); hash != "" {
		body, err := b.getBlob(ctx, owner, hash)
		if err != nil {
			return d, fmt.Errorf("letter %d: %w", m.seq, err)
		}
		d.Body = body
	}
	if hash := m.headers().Get(dlqLetter); hash != "" {
		whole, err := b.getBlob(ctx, owner, hash)
		if err == nil {
			d = deadletter.Letter{}
			err = json.Unmarshal(whole, &d)
			d.Seq, d.Headers = m.seq, outward(d.Headers)
		}
		if err != nil {
			return d, fmt.Errorf("letter %d: %w", m.seq, err)
		}
	}
	return d, nil
}

// letterParser reads headers and keeps what went wrong.
type letterParser struct {
	header nats.Header
	errs   []error
}

func (p *letterParser) text(name string) string {
	v, err := textOf(p.header.Get(name))
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s: %w", name, err))
	}
	return v
}

func (p *letterParser) number(name string) uint64 {
	v := p.header.Get(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s: %w", name, err))
	}
	return n
}

func (p *letterParser) moment(name string) time.Time {
	v := p.header.Get(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s: %w", name, err))
	}
	return t
}

func (p *letterParser) headers(name string) map[string]string {
	v := p.text(name)
	if v == "" {
		return nil
	}
	var originals map[string]string
	if err := json.Unmarshal([]byte(v), &originals); err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s: %w", name, err))
	}
	out := make(map[string]string, len(originals))
	for k, v := range originals {
		key, err1 := textOf(k)
		value, err2 := textOf(v)
		if err := errors.Join(err1, err2); err != nil {
			p.errs = append(p.errs, fmt.Errorf("%s: %w", name, err))
		}
		out[key] = value
	}
	return outward(out)
}
