package natsqueue

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

const (
	lastChunk   = 512     // subjects per bulk read; the server answers 413 beyond 1,024
	lookChunk   = 256     // leader reads under way at once
	answerBytes = 8 << 20 // of one answer, so that the server never drops a slow reader
	readChunk   = 256     // records per read of a history
)

// raw is a stored message as it was read.
type raw struct {
	stream  string // that answered; only of a direct get
	subject string
	seq     uint64
	time    time.Time
	header  nats.Header
	block   []byte // the header as it was sent, in place of header
	data    []byte
}

// headers are those of the message, decoded when they are asked for.
func (m *raw) headers() nats.Header {
	if m.header == nil && len(m.block) > 0 {
		m.header, _ = nats.DecodeHeadersMsg(m.block) // the broker parsed it, or it would not be stored
	}
	return m.header
}

// txid is what the header says, without decoding the record.
func (m *raw) txid() string {
	t, err := textOf(m.headers().Get(headerTxid))
	if err != nil {
		return ""
	}
	return t
}

// record decodes a record of HISTORY.
func (m *raw) record() (*statemachine.Stored, error) {
	r, err := statemachine.Decode(m.data)
	if err != nil {
		return nil, fmt.Errorf("record %d on %s: %w", m.seq, m.subject, err)
	}
	return &statemachine.Stored{Record: r, Seq: m.seq, Time: m.time, Bytes: m.data}, nil
}

// Last implements worker.Log. A record that this build cannot read is nil in
// the answer, and the error then wraps statemachine.ErrFormat; Look tells which
// it was. All other runs are answered.
func (g *Log) Last(ctx context.Context, runs []string) ([]*statemachine.Stored, error) {
	out := make([]*statemachine.Stored, len(runs))
	at := make(map[string][]int, len(runs))
	subjects := make([]string, 0, len(runs))
	for i, run := range runs {
		s := g.subj.history(run)
		if at[s] == nil {
			subjects = append(subjects, s)
		}
		at[s] = append(at[s], i)
	}
	var unreadable []error
	take := func(m *raw) {
		s, err := m.record()
		if err != nil {
			unreadable = append(unreadable, err)
			return
		}
		for _, i := range at[m.subject] {
			out[i] = s
		}
	}
	for len(subjects) > 0 {
		n := min(lastChunk, len(subjects))
		if err := g.lastOf(ctx, streamHistory, subjects[:n], take); err != nil {
			return nil, fmt.Errorf("read last records: %w", err)
		}
		subjects = subjects[n:]
	}
	return out, errors.Join(unreadable...)
}

// lastOf reads the last message of each subject from any replica.
func (l *link) lastOf(ctx context.Context, stream string, subjects []string, take func(*raw)) error {
	for m, err := range l.lasts(ctx, stream, subjects) {
		if err != nil {
			return err
		}
		take(m)
	}
	return nil
}

// lasts yields the last message of each subject, which may be patterns, from
// any replica. An answer that was cut short at its size is asked for again
// from where it ended.
func (l *link) lasts(ctx context.Context, stream string, subjects []string) iter.Seq2[*raw, error] {
	return func(yield func(*raw, error) bool) {
		from, upTo := uint64(0), uint64(0)
		for {
			msgs, end, err := l.series(ctx, stream, map[string]any{
				"multi_last": subjects, "seq": from, "up_to_seq": upTo, "max_bytes": answerBytes,
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range msgs {
				if !yield(m, nil) {
					return
				}
			}
			if len(msgs) == 0 || end.Get(headerPending) == "0" {
				return
			}
			from = msgs[len(msgs)-1].seq + 1
			if upTo, err = strconv.ParseUint(end.Get(headerUpTo), 10, 64); err != nil {
				yield(nil, fmt.Errorf("end of an answer: %w", err))
				return
			}
		}
	}
}

// errTooMany is the broker's answer when a bulk read matches too many
// subjects.
var errTooMany = errors.New("too many subjects for one read")

// series asks any replica for a series of messages. The end is the header of
// the status that ended it, nil if there was nothing.
func (l *link) series(ctx context.Context, stream string, request map[string]any) ([]*raw, nats.Header, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, nil, fmt.Errorf("encode read: %w", err)
	}
	msg := &nats.Msg{Subject: "$JS.API.DIRECT.GET." + l.subj.stream(stream), Data: body}
	var out []*raw
	var end nats.Header
	err = l.retry(ctx, "read stream "+l.subj.stream(stream), func() error {
		f := l.mux.flyMany()
		sent := f.send(0, msg)
		answers, err := f.land(ctx, l.opts.Quiet)
		if err := errors.Join(sent, err); err != nil {
			return err
		}
		out, end, err = readSeries(answers)
		return err
	})
	return out, end, err
}

// readSeries reads the messages of a direct get, up to the status that ends
// them.
func readSeries(answers []*nats.Msg) ([]*raw, nats.Header, error) {
	if len(answers) == 0 {
		return nil, nil, errSilent
	}
	status := answers[len(answers)-1].Header
	switch status.Get(headerState) {
	case "":
		return nil, nil, errSilent
	case "204":
	case "404":
		// "No Results" and, of one subject, "Message Not Found". With
		// messages before it, one was removed while they were read.
		if len(answers) > 1 {
			return nil, nil, errors.New("a message was removed while it was read")
		}
		return nil, nil, nil
	case "413":
		return nil, nil, final{errTooMany}
	case "503":
		return nil, nil, errNoResponse
	default:
		return nil, nil, final{fmt.Errorf("%s %s", status.Get(headerState), status.Get("Description"))}
	}
	out := make([]*raw, 0, len(answers)-1)
	for _, a := range answers[:len(answers)-1] {
		m, err := readDirect(a)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, m)
	}
	return out, status, nil
}

// readDirect reads one message of a direct get.
func readDirect(m *nats.Msg) (*raw, error) {
	seq, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if err != nil {
		return nil, final{fmt.Errorf("sequence of a message read: %w", err)}
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get(headerTime))
	if err != nil {
		return nil, final{fmt.Errorf("time of a message read: %w", err)}
	}
	return &raw{stream: m.Header.Get(headerStream), subject: m.Header.Get(headerSubject), seq: seq, time: at, header: m.Header, data: m.Data}, nil
}

// Look implements worker.Log.
func (g *Log) Look(ctx context.Context, run string) (*statemachine.Stored, error) {
	m, err := g.lead(ctx, streamHistory, map[string]any{"last_by_subj": g.subj.history(run)})
	if err != nil || m == nil {
		return nil, err
	}
	return m.record()
}

// Looks implements worker.Log. All reads are under way at once; what got no
// answer is asked once more by itself, with patience.
func (g *Log) Looks(ctx context.Context, looks []worker.Look) ([]*statemachine.Stored, []error) {
	out := make([]*statemachine.Stored, len(looks))
	subjects := make([]string, len(looks))
	for i, k := range looks {
		subjects[i] = g.subj.history(k.Run)
	}
	read, errs := g.leadsOrAlone(ctx, subjects)
	for i, k := range looks {
		m, err := read[i], errs[i]
		if err != nil {
			m, err = g.lead(ctx, streamHistory, map[string]any{"last_by_subj": subjects[i]})
		}
		switch {
		case err != nil || m == nil:
			errs[i] = err
		case k.Known != nil && k.Known.Seq == m.seq && bytes.Equal(k.Known.Bytes, m.data):
			// The broker's time is news to whoever has the record from its
			// committer, and counts in how long that one is left alone.
			out[i], errs[i] = &statemachine.Stored{Record: k.Known.Record, Seq: m.seq, Time: m.time, Bytes: k.Known.Bytes}, nil
		default:
			out[i], errs[i] = m.record()
		}
	}
	return out, errs
}

// leadsOrAlone reads the last messages of subjects of HISTORY from its leader,
// once. A stream with one replica has nobody else who could answer, so there a
// direct get is the leader's word, at a third of the price; but for a mirror,
// which names itself. What it does not answer, the leader is asked for.
func (g *Log) leadsOrAlone(ctx context.Context, subjects []string) ([]*raw, []error) {
	if len(subjects) == 1 || !g.alone.Load() {
		return g.leads(ctx, subjects)
	}
	out, errs := make([]*raw, len(subjects)), make([]error, len(subjects))
	found := make(map[string]*raw, len(subjects))
	own := g.subj.stream(streamHistory)
	for part := range slices.Chunk(subjects, lastChunk) {
		_ = g.lastOf(ctx, streamHistory, part, func(m *raw) { // the leader is asked for the rest
			if m.stream == own {
				found[m.subject] = m
			}
		})
	}
	var rest []string
	var at []int
	for i, s := range subjects {
		if out[i] = found[s]; out[i] == nil {
			rest, at = append(rest, s), append(at, i)
		}
	}
	if len(rest) > 0 {
		read, failed := g.leads(ctx, rest)
		for k, i := range at {
			out[i], errs[i] = read[k], failed[k]
		}
	}
	return out, errs
}

// leads reads the last messages of subjects of HISTORY from its leader, once.
func (g *Log) leads(ctx context.Context, subjects []string) ([]*raw, []error) {
	out, errs := make([]*raw, len(subjects)), make([]error, len(subjects))
	for first := 0; first < len(subjects); first += lookChunk {
		part := subjects[first:min(first+lookChunk, len(subjects))]
		f := g.mux.fly(len(part))
		for i, s := range part {
			errs[first+i] = f.send(i, g.leaderGet(streamHistory, map[string]any{"last_by_subj": s}))
		}
		answers, _ := f.land(ctx, g.opts.Quiet)
		for i, s := range part {
			if errs[first+i] == nil {
				out[first+i], errs[first+i] = readLeader(answers[i], s)
			}
		}
	}
	return out, errs
}

// lead reads one message from a stream's leader; nil if there is none. The
// client's own "last message for subject" would ask any replica.
func (l *link) lead(ctx context.Context, stream string, request map[string]any) (*raw, error) {
	asked, _ := request["last_by_subj"].(string)
	var out *raw
	err := l.retry(ctx, "read stream "+l.subj.stream(stream), func() error {
		answer, err := l.ask(ctx, l.leaderGet(stream, request))
		if err != nil {
			return err
		}
		out, err = readLeader(answer, asked)
		return err
	})
	return out, err
}

func (l *link) leaderGet(stream string, request map[string]any) *nats.Msg {
	body, _ := json.Marshal(request) // strings and numbers
	return &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + l.subj.stream(stream), Data: body}
}

// readLeader reads the answer to leaderGet. A subject that was asked for must
// be the one that is answered: with a wildcard in it, the broker takes it for
// a pattern.
func readLeader(m *nats.Msg, subject string) (*raw, error) {
	if m == nil {
		return nil, errSilent
	}
	if len(m.Data) == 0 {
		return nil, errNoResponse
	}
	rest, block := cutBase64(m.Data, "hdrs")
	rest, data := cutBase64(rest, "data")
	var a struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(rest, &a); err != nil {
		return nil, final{fmt.Errorf("answer to a read: %w", err)}
	}
	switch {
	case a.Error != nil && a.Error.Code == codeNotFound:
		return nil, nil
	case a.Error != nil && a.Error.Code == codeStreamNotFound:
		return nil, final{fmt.Errorf("%w: %w", a.Error, ErrMissing)}
	case a.Error != nil:
		return nil, a.Error
	case a.Message == nil:
		return nil, final{errors.New("answer to a read without a message")}
	case subject != "" && !strings.ContainsAny(subject, "*>") && a.Message.Subject != subject:
		return nil, final{fmt.Errorf("asked for %s, got %s", quoted(subject), quoted(a.Message.Subject))}
	}
	out := &raw{subject: a.Message.Subject, seq: a.Message.Seq, time: a.Message.Time}
	var err error
	if out.data, err = base64.StdEncoding.AppendDecode(nil, data); err == nil {
		out.block, err = base64.StdEncoding.AppendDecode(nil, block)
	}
	if err != nil {
		return nil, final{fmt.Errorf("answer to a read: %w", err)}
	}
	return out, nil
}

// cutBase64 takes the value of a field out of a JSON text. It is most of the
// text, and a decoder of JSON is slow with it. Within a string the quotes of a
// name would be escaped, and base64 has none.
func cutBase64(text []byte, field string) (rest, value []byte) {
	name := `"` + field + `":"`
	i := bytes.Index(text, []byte(name))
	if i < 0 {
		return text, nil
	}
	i += len(name)
	n := bytes.IndexByte(text[i:], '"')
	if n < 0 {
		return text, nil
	}
	return slices.Concat(text[:i], text[i+n:]), text[i : i+n]
}

// Read implements worker.Log. What the last record is, the leader says; what
// comes before it, any replica, and the leader again what that one lacks.
func (g *Log) Read(ctx context.Context, run string, after uint64) iter.Seq2[*statemachine.Stored, error] {
	subject := g.subj.history(run)
	return func(yield func(*statemachine.Stored, error) bool) {
		last, err := g.lead(ctx, streamHistory, map[string]any{"last_by_subj": subject})
		if err != nil {
			yield(nil, fmt.Errorf("read run %s: %w", quoted(run), err))
			return
		}
		first := true
		for last != nil && after < last.seq {
			msgs, err := g.readOn(ctx, subject, after)
			if err != nil {
				yield(nil, fmt.Errorf("read run %s: %w", quoted(run), err))
				return
			}
			for _, m := range msgs {
				s, err := m.record()
				if err == nil && m.subject != subject {
					err = fmt.Errorf("asked for %s, got %s", quoted(subject), quoted(m.subject))
				}
				if err == nil && !first && s.Prev != after {
					err = errRemoved
				}
				if err != nil {
					yield(nil, fmt.Errorf("read run %s: %w", quoted(run), err))
					return
				}
				first = false
				if after = m.seq; !yield(s, nil) {
					return
				}
			}
			if len(msgs) == 0 { // purged meanwhile
				return
			}
		}
	}
}

// errRemoved is why a reading ends before the last record. Another begins with
// what is left.
var errRemoved = errors.New("records were removed while they were read")

// readOn reads the next records of a subject.
func (g *Log) readOn(ctx context.Context, subject string, after uint64) ([]*raw, error) {
	msgs, _, err := g.series(ctx, streamHistory, map[string]any{
		"next_by_subj": subject, "seq": after + 1, "batch": readChunk, "max_bytes": answerBytes,
	})
	if err != nil || len(msgs) > 0 {
		return msgs, err
	}
	m, err := g.lead(ctx, streamHistory, map[string]any{"next_by_subj": subject, "seq": after + 1})
	if err != nil || m == nil {
		return nil, err
	}
	return []*raw{m}, nil
}
