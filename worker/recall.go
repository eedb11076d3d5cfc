package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/pawlrun/pawl/statemachine"
)

// mostRecalled bounds, in bytes of blobs, what a worker keeps of the answers of
// originals. The largest one fits.
const mostRecalled = 2 * statemachine.MaxAnswers

// originals are the answers of the originals of forks that were asked last.
// They do not change, so whoever has them need not read them again.
type originals struct {
	mu    sync.Mutex
	kept  map[string]original // by run and hash
	bytes int
}

type original struct {
	answers map[[2]string]statemachine.Recalled // by spot and fingerprint
	bytes   int
}

// recall finds out what came of an effect in the run that this one is a fork
// of: then, and where a person is to be asked first, no handler is called.
// Everything around that is as with any handler: the effect is claimed, it was
// looked whether it is pending, and what comes of it is the next record. So
// the protocol has nothing to say of forks, and to be told twice does no harm.
func (a *attempt) recall() *result {
	if a.of == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(a.w.handlers, a.limit)
	defer cancel()
	r := &result{call: a.c}
	body, err := a.recorded(ctx, r)
	switch {
	case a.w.handlers.Err() != nil:
		r.dropped = true
	case err == nil && !r.recorded && a.of.Perform:
		return nil
	case err == nil && !r.recorded:
		err = statemachine.Terminal(statemachine.ClassUnconfirmed, fmt.Errorf("run %s did not ask for it there with this input, or nothing came of it", a.of.Run))
	}
	if r.body, r.err = body, err; err != nil {
		r.class = statemachine.ClassOf(err)
	}
	return r
}

// recorded returns what the original's effect came to, if it is known.
func (a *attempt) recorded(ctx context.Context, r *result) ([]byte, error) {
	if a.of.Answers == "" {
		return nil, nil
	}
	o, err := a.w.original(ctx, a.run, a.of.Answers)
	if err != nil {
		return nil, untried("read what came of it in run %s: %w", a.of.Run, err)
	}
	one, ok := o.answers[[2]string{a.spot, a.c.pending.Print}]
	switch {
	case !ok:
		return nil, nil
	case one.Cause != nil:
		r.recorded = true
		return nil, statemachine.Terminal(one.Cause.Class, errors.New(one.Cause.Message))
	}
	body := []byte(one.Body)
	if ref, is := statemachine.AsBlobRef(body); is {
		if body, err = a.w.ports.Blobs.Get(ctx, a.run, ref.Hash); err != nil {
			return nil, untried("read its result in run %s: %w", a.of.Run, err)
		}
	}
	r.recorded = true
	return orNull(body), nil
}

// original reads the answers of a fork's original.
func (w *Worker) original(ctx context.Context, run, hash string) (original, error) {
	key := run + "\n" + hash
	w.originals.mu.Lock()
	o, ok := w.originals.kept[key]
	w.originals.mu.Unlock()
	if ok {
		return o, nil
	}
	b, err := w.ports.Blobs.Get(ctx, run, hash)
	if err != nil {
		return o, err
	}
	var all statemachine.AnswersOf
	if err := json.Unmarshal(b, &all); err != nil {
		return o, fmt.Errorf("answers %s: %w", hash, err)
	}
	o = original{answers: make(map[[2]string]statemachine.Recalled, len(all.Answers)), bytes: len(b)}
	for _, one := range all.Answers {
		if at := [2]string{one.Spot, one.Print}; o.answers[at].Spot == "" { // the first one counts
			o.answers[at] = one
		}
	}
	w.originals.keep(key, o)
	return o, nil
}

// keep remembers answers, and forgets others until they fit.
func (k *originals) keep(key string, o original) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		k.kept = map[string]original{}
	}
	k.bytes += o.bytes - k.kept[key].bytes
	k.kept[key] = o
	for other, was := range k.kept {
		if k.bytes <= mostRecalled {
			break
		}
		if other != key {
			k.bytes -= was.bytes
			delete(k.kept, other)
		}
	}
}
