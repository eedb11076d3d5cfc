package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// ForkRequest asks for a new run that begins where another was. The same fork
// may be asked for again: a run with its id that began so is that fork.
type ForkRequest struct {
	ID       string          `json:"id"`                // of the run that it begins with
	Revision uint64          `json:"revision"`          // of that run
	Fork     string          `json:"fork,omitempty"`    // id of the new run, at most 256 bytes; one is made if it is absent
	Set      json.RawMessage `json:"set,omitempty"`     // an object that is merged into the data
	Version  int             `json:"version,omitempty"` // of the machine; default: that of the run
	Perform  bool            `json:"perform,omitempty"` // what the run did not ask is performed, and does not wait to be confirmed
	By       string          `json:"by,omitempty"`      // as in CommandRequest
	Reason   string          `json:"reason,omitempty"`  // likewise
	// Timeout is as in StartRequest.
	Timeout *statemachine.Duration `json:"timeout,omitempty"`
}

// Forked answers a ForkRequest.
type Forked struct {
	ID       string              `json:"id"` // of the new run
	Origin   Origin              `json:"origin"`
	Outcome  Outcome             `json:"outcome"`          // created, exists or accepted
	Status   statemachine.Status `json:"status,omitempty"` // of the new run, unless accepted
	Revision uint64              `json:"revision,omitempty"`
}

// Origin is the run, and the revision of it, that a fork began with.
type Origin struct {
	Run      string `json:"run"`
	Revision uint64 `json:"revision"`
	Perform  bool   `json:"perform,omitempty"`
}

func originOf(o *statemachine.Origin) *Origin {
	if o == nil {
		return nil
	}
	return &Origin{Run: o.Run, Revision: o.Rev, Perform: o.Perform}
}

// Forker begins forks.
type Forker interface {
	// Put stores blobs of a run that are not there yet.
	Put(ctx context.Context, run string, blobs map[string][]byte) error
	// Fork stores what begins a fork; id is that of the request.
	Fork(ctx context.Context, run, id string, k *statemachine.Fork) error
}

const (
	forkTime  = 25 * time.Second // for reading the run and copying what the fork needs
	mostFork  = 256 << 20        // bytes that are copied
	chunkSize = 64 << 10         // bytes of a chunk of a log
	chunkMost = 256              // … and items
)

// fork begins a new run where another was.
func (s *Server) fork(ctx context.Context, c Caller, q *ForkRequest) (*Forked, error) {
	timeout, err := q.check(c)
	if err != nil {
		return nil, err
	}
	if s.answers.Forker == nil {
		return nil, errReadOnly()
	}
	reading, cancel := context.WithTimeout(ctx, forkTime)
	defer cancel()
	there, err := s.answers.Log.Look(reading, q.Fork)
	if err != nil {
		return nil, err
	}
	if there != nil { // whatever has become of the run since
		return q.began(there, OutcomeExists)
	}
	b := &branch{answers: s.answers, q: q, blobs: map[string][]byte{}}
	if err := b.read(reading); err != nil {
		return nil, err
	}
	if err := b.prepare(reading); err != nil {
		return nil, err
	}
	if err := s.answers.Forker.Put(reading, q.Fork, b.blobs); err != nil {
		return nil, err
	}
	if err := s.answers.Forker.Fork(reading, q.Fork, queue.NewID(), b.fork); err != nil {
		return nil, err
	}
	out := &Forked{ID: q.Fork, Origin: *originOf(&b.fork.Origin), Outcome: OutcomeAccepted}
	if timeout == 0 {
		return out, nil
	}
	waiting, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	r, err := s.until(waiting, timeout, q.Fork, true, func(r *statemachine.Stored) (bool, error) { return r != nil, nil })
	switch {
	case r != nil:
		return q.began(r, OutcomeCreated)
	case err != nil && !over(err):
		return nil, err
	}
	return out, nil
}

// check says all that is wrong with a request, and sets its defaults.
func (q *ForkRequest) check(c Caller) (time.Duration, error) {
	var f faults
	f.run(q.ID)
	if q.Fork == "" {
		q.Fork = "fork-" + queue.NewID()
	}
	if err := queue.CheckRun(q.Fork); err != nil {
		f.addf("fork: %s", err)
	}
	f.header("fork", q.Fork)
	if q.Revision == 0 {
		f.addf("revision is missing: they count from 1")
	}
	if q.Version < 0 {
		f.addf("version %d is not 1 or more", q.Version)
	}
	q.By = c.recorded(q.By)
	f.text("by", q.By, maxID)
	f.text("reason", q.Reason, maxReason)
	timeout := f.timeout(q.Timeout, usualWait)
	return timeout, f.err()
}

// branch is a fork that is being prepared.
type branch struct {
	answers  *Answers
	q        *ForkRequest
	at       *statemachine.Stored // the checkpoint
	last     *statemachine.Stored
	fork     *statemachine.Fork
	gathered statemachine.Answering
	blobs    map[string][]byte // of the fork, by hash
	bytes    int               // of them
}

// read reads the run, and says why there can be no fork of it there.
func (b *branch) read(ctx context.Context) error {
	q := b.q
	first := uint64(0)
	for r, err := range b.answers.Log.Read(ctx, q.ID, 0) {
		if err != nil {
			return err
		}
		if first == 0 {
			first = r.Rev
		}
		if r.Rev == q.Revision {
			b.at = r
		}
		if b.at != nil {
			whole, err := b.resolved(ctx, r.Record)
			if err != nil {
				return err
			}
			b.gathered.Add(whole)
		}
		b.last = r
	}
	switch {
	case b.last == nil:
		return notFound(q.ID)
	case b.at == nil && b.last.Tomb != nil:
		return badf("run %s: its records were removed, only the last is left", quoted(q.ID))
	case b.at == nil && q.Revision < first:
		return badf("run %s: revision %d is not there any more, the oldest is %d", quoted(q.ID), q.Revision, first)
	case b.at == nil:
		return badf("run %s has no revision %d: the last is %d", quoted(q.ID), q.Revision, b.last.Rev)
	}
	k, err := b.at.Fork()
	if err != nil {
		return badf("%s", err)
	}
	for i := range b.at.Pending {
		p := &b.at.Pending[i]
		if now := pendingOf(b.last.Record, p.ID); now != nil && (now.Place == statemachine.Inline || now.Place == statemachine.Queued || now.Place == statemachine.Retry) {
			return errorf(ClassInFlight, "run %s, revision %d: its effect %s is still under way in it: wait for what comes of it, or take a revision before it was asked", quoted(q.ID), q.Revision, p.Effect)
		}
	}
	k.Set, k.By, k.Reason, k.Origin.Perform = q.Set, q.By, q.Reason, q.Perform
	if q.Version > 0 {
		k.Version = q.Version
	}
	b.fork = k
	return nil
}

// resolved returns a record with what a person said of effects in full: that
// lies in the command, and a large command in a blob.
func (b *branch) resolved(ctx context.Context, r *statemachine.Record) (*statemachine.Record, error) {
	whole := *r
	whole.Events = slices.Clone(r.Events)
	for i := range whole.Events {
		e := &whole.Events[i]
		ref, ok := statemachine.AsBlobRef(e.Body)
		if !ok || e.Kind != statemachine.EventResolve {
			continue
		}
		body, err := b.answers.Blobs.Get(ctx, b.q.ID, ref.Hash)
		if err != nil {
			return nil, fmt.Errorf("copy from run %q: %w", b.q.ID, err)
		}
		e.Body = body
	}
	return &whole, nil
}

func pendingOf(r *statemachine.Record, id string) *statemachine.Pending {
	i := slices.IndexFunc(r.Pending, func(p statemachine.Pending) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &r.Pending[i]
}

// began is what the fork that is asked for is to a run that exists.
func (q *ForkRequest) began(r *statemachine.Stored, o Outcome) (*Forked, error) {
	k := statemachine.Fork{Machine: r.Machine, Version: cmp.Or(q.Version, r.Version), Set: q.Set, Origin: statemachine.Origin{Run: q.ID, Rev: q.Revision, Perform: q.Perform}}
	if print, err := k.Print(); err != nil || print != r.Input {
		return nil, errorf(ClassConflict, "run %s exists, and is another", quoted(q.Fork))
	}
	return &Forked{ID: q.Fork, Origin: *originOf(&k.Origin), Outcome: o, Status: r.Status, Revision: r.Rev}, nil
}

// prepare gathers what the fork needs of the run, so that it needs nothing of it
// later, and tries whether the machine can go on with it.
func (b *branch) prepare(ctx context.Context) error {
	if err := b.logs(ctx); err != nil {
		return err
	}
	if err := b.outcomes(ctx); err != nil {
		return err
	}
	at := *b.at.Record
	def, err := b.answers.definition(&at, b.fork.Version)
	if err != nil {
		return err
	}
	body, err := json.Marshal(b.fork)
	if err != nil {
		return badf("set: %s", err)
	}
	f := def.Begin(b.q.Fork, nil, statemachine.Env{Now: time.Now()})
	_, err = f.Apply(statemachine.Event{Kind: statemachine.EventFork, Body: body})
	if err == nil {
		_, err = f.Seal()
	}
	if err != nil {
		return errorf(statemachine.ClassOf(err), "the fork is refused: %s", err)
	}
	return nil
}

// logs copies the logs as they were, in chunks of the fork.
func (b *branch) logs(ctx context.Context) error {
	all, cut, err := b.answers.logs(ctx, b.at, -1, mostFork)
	if err != nil {
		return err
	}
	if cut {
		return tooMuch()
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		ref := statemachine.LogRef{}
		for items := all[name]; len(items) > 0; {
			n, bytes := 0, 0
			for n < min(len(items), chunkMost) && bytes < chunkSize {
				bytes += len(items[n])
				n++
			}
			for _, item := range items[:n] {
				if err := b.copy(ctx, item); err != nil {
					return err
				}
			}
			chunk, err := json.Marshal(statemachine.Chunk{Prev: ref.Head, First: ref.Count, Items: items[:n]})
			if err != nil {
				return err
			}
			ref.Head = statemachine.BlobHash(chunk)
			ref.Count += n
			ref.Sealed = ref.Count
			if err := b.put(ref.Head, chunk); err != nil {
				return err
			}
			items = items[n:]
		}
		if b.fork.Logs == nil {
			b.fork.Logs = map[string]statemachine.LogRef{}
		}
		b.fork.Logs[name] = ref
	}
	return nil
}

// outcomes copies what effects came to.
func (b *branch) outcomes(ctx context.Context) error {
	if len(b.gathered.Answers) == 0 {
		return nil
	}
	for i := range b.gathered.Answers {
		one := &b.gathered.Answers[i]
		if err := b.refer(one); err != nil {
			return err
		}
		if err := b.copy(ctx, one.Body); err != nil {
			return err
		}
	}
	all, err := json.Marshal(b.gathered.AnswersOf)
	if err != nil {
		return err
	}
	if len(all) > statemachine.MaxAnswers {
		return errorf(ClassTooLarge, "what %d effects came to after revision %d has %d bytes, over %d", len(b.gathered.Answers), b.q.Revision, len(all), statemachine.MaxAnswers)
	}
	b.fork.Origin.Answers = statemachine.BlobHash(all)
	return b.put(b.fork.Origin.Answers, all)
}

// refer stores a large result as a blob: one that a person said stood in the
// command.
func (b *branch) refer(one *statemachine.Recalled) (err error) {
	if len(one.Body) <= statemachine.MaxInline {
		return nil
	}
	ref := statemachine.BlobRef{Hash: statemachine.BlobHash(one.Body), Size: len(one.Body)}
	if err := b.put(ref.Hash, one.Body); err != nil {
		return err
	}
	one.Body, err = json.Marshal(ref)
	return err
}

// copy copies the blob that a value refers to, if it does.
func (b *branch) copy(ctx context.Context, v json.RawMessage) error {
	ref, ok := statemachine.AsBlobRef(v)
	if !ok || b.blobs[ref.Hash] != nil {
		return nil
	}
	data, err := b.answers.Blobs.Get(ctx, b.q.ID, ref.Hash)
	if err != nil {
		return fmt.Errorf("copy from run %q: %w", b.q.ID, err)
	}
	return b.put(ref.Hash, data)
}

func (b *branch) put(hash string, data []byte) error {
	if b.bytes += len(data); b.bytes > mostFork {
		return tooMuch()
	}
	b.blobs[hash] = data
	return nil
}

func tooMuch() error {
	return errorf(ClassTooLarge, "the fork would need copies of over %d bytes", mostFork)
}
