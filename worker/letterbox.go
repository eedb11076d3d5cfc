package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/statemachine"
)

// letterbox is whether DLQ takes letters. A full one takes none: what is given
// up on stays where it is, a message in its queue and a letter in its record's
// outbox, and everything else goes on. Meanwhile one letter at a time is tried,
// ever more rarely; once one is stored, all are.
type letterbox struct {
	mu     sync.Mutex
	why    error // why DLQ took none of late; nil: it takes letters
	waits  *backoff.ExponentialBackOff
	next   time.Time // when one is tried again
	heard  time.Time // when the last one was sent of which is known what became of it
	notice func(full bool)
}

// errBoxed is why a letter is not even sent.
var errBoxed = errors.New("DLQ takes no letters at the moment")

// mostBeats is after how many beats at most one is tried again.
const mostBeats = 8

func newLetterbox(beat time.Duration, notice func(full bool)) *letterbox {
	return &letterbox{
		waits:  Retry{Initial: beat, Factor: 2, Jitter: 0.25, Max: mostBeats * beat}.series(),
		notice: notice,
	}
}

// open reports whether a letter may be sent. While DLQ takes none, whoever is
// told so is the one that tries.
func (b *letterbox) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why == nil {
		return true
	}
	if time.Now().Before(b.next) {
		return false
	}
	b.later()
	return true
}

// later sets the next trial. The caller holds mu.
func (b *letterbox) later() { b.next = time.Now().Add(b.waits.NextBackOff()) }

// wait is for how long what has a letter to store is left alone.
func (b *letterbox) wait() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(time.Until(b.next), 0)
}

// refused notes that a letter sent at a time was not stored, though nothing is
// wrong with it; news says whether letters were taken before. Answers come in
// any order: what was sent before another that was heard of says nothing new.
func (b *letterbox) refused(err error, sent time.Time) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !sent.After(b.heard) {
		return false
	}
	news, b.heard = b.why == nil, sent
	b.why = err
	if news {
		b.waits.Reset()
		b.later()
		b.notice(true)
	}
	return news
}

// took notes that a letter sent at a time was stored; news says whether none was
// before.
func (b *letterbox) took(sent time.Time) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !sent.After(b.heard) {
		return false
	}
	b.heard = sent
	if news = b.why != nil; news {
		b.why, b.next = nil, time.Time{}
		b.notice(false)
	}
	return news
}

// posted notes what became of a letter that was sent at a time.
func (w *Worker) posted(sent time.Time, err error, attrs ...any) {
	switch {
	case err == nil:
		if w.letters.took(sent) {
			w.log.Info("DLQ takes letters again")
		}
	case w.work.Err() != nil || errors.Is(err, context.Canceled):
	case !errors.Is(err, ErrUnavailable): // this one's own fault
		w.log.Error("could not store a letter", append(attrs, logkey.Error, err)...)
	case w.letters.refused(err, sent):
		w.log.Error("DLQ takes no letters: what is given up on stays where it is, and is looked at again", append(attrs, logkey.Error, err)...)
	}
}

// publish publishes entries of outboxes. A run with a letter waits with all it
// has to say while DLQ takes none: its outbox is published again as a whole.
func (w *Worker) publish(ctx context.Context, items []outbox.Item) []error {
	boxed := map[string]bool{} // runs with a letter; true: that is not sent
	for _, it := range items {
		if _, known := boxed[it.Run]; !known && it.Entry.Kind == statemachine.EntryLetter {
			boxed[it.Run] = !w.letters.open()
		}
	}
	if len(boxed) == 0 {
		return w.ports.Mail.Publish(ctx, items)
	}
	errs := make([]error, len(items))
	var sent []outbox.Item
	var at []int
	for i, it := range items {
		if boxed[it.Run] {
			errs[i] = errBoxed
			continue
		}
		sent, at = append(sent, it), append(at, i)
	}
	if len(sent) == 0 {
		return errs
	}
	began := time.Now()
	for k, err := range w.ports.Mail.Publish(ctx, sent) {
		errs[at[k]] = err
		if sent[k].Entry.Kind == statemachine.EntryLetter {
			w.posted(began, err, logkey.Run, sent[k].Run)
		}
	}
	return errs
}
