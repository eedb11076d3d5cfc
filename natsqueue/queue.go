package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/queue"
)

// Options say how a Queue behaves. The zero value is usable.
type Options struct {
	// Prefix begins every subject and, in capitals, every stream. Default "pawl".
	Prefix string
	// Quiet is how long the broker may say nothing at all before the outcome
	// of what was sent is read. Default 3 s.
	Quiet time.Duration
	// Patience is how long what the broker does not take is sent again before
	// it is ErrUnavailable. Default 10 s.
	Patience time.Duration
	// Group says when records of many runs, and messages of many outboxes, go
	// to their stream as one atomic batch.
	Group Group
	// SyncAlways tells that the server syncs every write, which a client
	// cannot see: it decides GroupAuto.
	SyncAlways bool
	// LedgerTTL is how long a business key is kept. Default 400 days.
	LedgerTTL time.Duration
	// LetterTTL is how long letters are kept that are not the only copy of
	// something. Default 0: until they are removed.
	LetterTTL time.Duration
	// Logger is told of what nobody is returned. Default: none.
	Logger *slog.Logger
	// Landed is told of requests that were under way together: how many, how
	// many of them got no answer, and how long they took. It must be quick.
	// Default: nobody.
	Landed func(requests, unanswered int, took time.Duration)
	// Gathered is told how many messages of one or several callers go to a
	// stream (its name without the prefix) together. It must be quick.
	// Default: nobody.
	Gathered func(stream string, messages int)
}

// Group says when messages are stored in atomic batches.
type Group int

// The ways to store many messages. A batch costs the server one
// sync for all of them; it is worth it where every write is synced and there
// is one replica. Three replicas share their syncs anyway.
const (
	GroupAuto   Group = iota // batches if there is one replica and SyncAlways is told
	GroupAlways              // batches
	GroupNever               // one message by one
)

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Quiet <= 0 {
		o.Quiet = 3 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = 10 * time.Second
	}
	if o.LedgerTTL <= 0 {
		o.LedgerTTL = 400 * 24 * time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Landed == nil {
		o.Landed = func(int, int, time.Duration) {}
	}
	if o.Gathered == nil {
		o.Gathered = func(string, int) {}
	}
	return o
}

func (o Options) validate() error {
	if err := checkPrefix(o.Prefix); err != nil {
		return err
	}
	if o.Group < GroupAuto || o.Group > GroupNever {
		return fmt.Errorf("group commit %d: no such way", o.Group)
	}
	return nil
}

// DefaultPrefix begins the subjects of a fleet that names no other.
const DefaultPrefix = "pawl"

// Queue is a fleet's part of JetStream. Its fields share one connection and
// may be used by any number of goroutines.
type Queue struct {
	Log       *Log       // HISTORY
	Publisher *Publisher // EFFECTS, TIMERS, FINISHED and DLQ, from outboxes
	Source    *Source    // the queues
	Letters   *Letters   // DLQ, for reading
	Blobs     *Blobs
	Ledger    *Ledger
	Machines  *Machines
	Flow      *Flow
	Audit     *Audit
	Sender    *Sender // START, SIGNAL and EVENTS, from outside
	Progress  *Progress

	link *link
}

// link is what the parts of a Queue share.
type link struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	mux  *mux
	subj subjects
	opts Options

	group                                  bool // send as atomic batches where that is possible
	history, effects, timers, ends, starts combiner[*nats.Msg, ack]
	parcels                                combiner[*parcel, bool] // true: it is stored
	posting                                chan struct{}           // held by who posts letters one by one

	alone atomic.Bool // HISTORY has one replica, as of the last look at it

	listen sync.Mutex              // held by who finds out:
	heard  atomic.Pointer[hearing] // nil: it is not known yet

	secret atomic.Pointer[[]byte] // of result tokens; nil: it was not read yet

	mu           sync.Mutex
	incarnations map[string]string // by stream
}

// Open binds to the streams of a fleet, which must exist. The connection stays
// the caller's; Close before it is closed.
func Open(ctx context.Context, nc *nats.Conn, opts Options) (*Queue, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if err := connected(ctx, nc); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(opts.Patience))
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	m, err := newMux(nc, opts.Landed)
	if err != nil {
		return nil, err
	}
	l := &link{nc: nc, js: js, mux: m, subj: subjects{opts.Prefix}, opts: opts, posting: make(chan struct{}, 1), incarnations: map[string]string{}}
	l.history.ship, l.effects.ship, l.timers.ship, l.ends.ship = l.grouped(streamHistory), l.grouped(streamEffects), l.grouped(streamTimers), l.grouped(streamFinished)
	l.starts.ship = l.grouped(streamStart)
	l.parcels.ship = l.postTogether
	info, err := l.streamInfo(ctx, streamHistory)
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	q := &Queue{link: l}
	l.alone.Store(info.Config.Replicas == 1)
	l.group = opts.Group == GroupAlways || opts.Group == GroupAuto && opts.SyncAlways && info.Config.Replicas == 1
	q.Log = &Log{l}
	q.Blobs = &Blobs{l}
	q.Source = &Source{link: l, pullers: map[string][]*puller{}, surplus: map[string][]*nats.Msg{}, heard: map[string]time.Time{}}
	q.Publisher = &Publisher{l}
	q.Letters = &Letters{l}
	q.Ledger = &Ledger{l}
	q.Audit = &Audit{l}
	q.Sender = &Sender{l}
	q.Flow = &Flow{link: l}
	q.Progress = newProgress(l)
	q.Machines = &Machines{link: l, known: map[string]struct{}{}}
	return q, nil
}

// connected waits until there is a connection, or ctx ends.
func connected(ctx context.Context, nc *nats.Conn) error {
	states := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(states)
	for !nc.IsConnected() {
		if nc.IsClosed() {
			return unavailable("connect to NATS", nats.ErrConnectionClosed)
		}
		select {
		case <-states:
		case <-ctx.Done():
			return unavailable("connect to NATS", errors.Join(ctx.Err(), nc.LastError()))
		}
	}
	return nil
}

// Close ends what the queue has running. Calls that are under way return
// without an answer.
func (q *Queue) Close() error {
	q.Progress.close()
	return errors.Join(q.Source.close(), q.link.mux.close())
}

// Incarnation is the id that HISTORY was given when it was created. Copies of
// records made under another one are not this fleet's.
func (q *Queue) Incarnation(ctx context.Context) (string, error) {
	return q.link.incarnation(ctx, streamHistory)
}

// Check reports every stream and consumer that is missing for a worker that
// performs the given effect types.
func (q *Queue) Check(ctx context.Context, effects []string) error {
	var errs []error
	for _, s := range streamNames {
		if _, err := q.link.streamInfo(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	names := []string{ConsumerStart, ConsumerSignal, ConsumerResult, ConsumerEvent, ConsumerDue}
	for _, l := range queue.Lines() {
		names = append(names, l.Consumer())
	}
	for _, e := range effects {
		names = append(names, EffectConsumer(e))
	}
	for _, name := range names {
		if err := q.link.checkConsumer(ctx, name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// streamInfo reads a stream's configuration, and says what to do if there is
// no such stream.
func (l *link) streamInfo(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	stream := l.subj.stream(name)
	ctx, cancel := context.WithTimeout(ctx, l.opts.Patience)
	defer cancel()
	s, err := l.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, missing("stream " + stream)
	}
	if err != nil {
		return nil, unavailable("look up stream "+stream, err)
	}
	return s.CachedInfo(), nil
}

// checkConsumer says what to do if there is no such consumer.
func (l *link) checkConsumer(ctx context.Context, name string) error {
	stream, err := streamOf(name)
	if err != nil {
		return err
	}
	stream = l.subj.stream(stream)
	ctx, cancel := context.WithTimeout(ctx, l.opts.Patience)
	defer cancel()
	_, err = l.js.Consumer(ctx, stream, name)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return missing(fmt.Sprintf("consumer %s of stream %s", name, stream))
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return missing("stream " + stream)
	}
	return unavailable(fmt.Sprintf("look up consumer %s of stream %s", name, stream), err)
}

// final marks an error that trying again does not mend.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// retry tries until it works, ctx ends, or Patience is over. What is tried
// must be harmless when done twice.
func (l *link) retry(ctx context.Context, what string, try func() error) error {
	began, pause := time.Now(), firstPause
	for {
		err := try()
		if err == nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if f := (final{}); errors.As(err, &f) {
			return fmt.Errorf("%s: %w", what, f.error)
		}
		if time.Since(began) > l.opts.Patience {
			return unavailable(what, err)
		}
		if err := sleep(ctx, jitter(pause)); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		pause = min(2*pause, mostPause)
	}
}

// ErrMissing is returned when a stream or a consumer does not exist: the
// fleet must be provisioned.
var ErrMissing = errors.New("run `pawl provision`")

func missing(what string) error { return fmt.Errorf("%s is missing: %w", what, ErrMissing) }

// incarnation is the id a stream was given when it was created. It is kept
// until forget.
func (l *link) incarnation(ctx context.Context, name string) (string, error) {
	l.mu.Lock()
	id := l.incarnations[name]
	l.mu.Unlock()
	if id != "" {
		return id, nil
	}
	info, err := l.streamInfo(ctx, name)
	if err != nil {
		return "", err
	}
	if id = info.Config.Metadata[metaIncarnation]; id == "" {
		return "", fmt.Errorf("stream %s has no incarnation id: %w", info.Config.Name, ErrMissing)
	}
	l.mu.Lock()
	l.incarnations[name] = id
	l.mu.Unlock()
	return id, nil
}

// forget drops the incarnation of a stream that may have been made anew.
func (l *link) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.incarnations, name)
}
