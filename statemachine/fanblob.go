package statemachine

import (
	"encoding/json"
	"errors"
	"fmt"
)

// minInline is what values of a state of many may have without being stored as
// blobs, however many there are.
const minInline = 128

// fullSize is what the events of a record in such a state may add to it before
// the next ones get a record of their own, and eventFrame what surrounds an event.
const (
	fullSize   = 1 << 10
	eventFrame = 192
)

// Full reports whether further events are better left to another record: it
// stays small while much is under way, and has every answer that it gives.
func (f *Fold) Full() bool {
	if f.answersAll() {
		return true
	}
	if len(f.rec.Frames) == 0 || f.rec.Frames[0].Fan == nil {
		return false
	}
	n := len(f.rec.Outbox) * (entryFrame / 4)
	for i := range f.rec.Events {
		n += eventFrame + len(f.rec.Events[i].Body)
	}
	for _, items := range f.rec.Adds {
		for _, item := range items {
			n += len(item)
		}
	}
	return n >= fullSize
}

// inline is the size from which values are stored as blobs while the run is in
// the state: the more at once, the less each may weigh in the record.
func (n *node) inline(fan *Fan) int {
	if n == nil || n.action == nil || n.action.many == nil {
		return MaxInline
	}
	return max(minInline, MaxInline/n.action.many.atOnce(fan))
}

// BlobsError is returned by [Fold.Apply] if the event can be applied only when
// some blobs are at hand, which an earlier record refers to: see [Fold.Lend].
type BlobsError struct{ Hashes []string }

func (e *BlobsError) Error() string { return fmt.Sprintf("%d blobs are needed", len(e.Hashes)) }

func isMissing(err error) bool {
	var missing *BlobsError
	return errors.As(err, &missing)
}

// Lend gives the fold a blob that Apply asked for.
func (f *Fold) Lend(hash string, b []byte) {
	if f.lent == nil {
		f.lent = map[string][]byte{}
	}
	f.lent[hash] = b
}

// ApplyWith is [Fold.Apply] with blobs read as they are needed. An error of read
// is returned as it is, and nothing is applied.
func (f *Fold) ApplyWith(e Event, read func(hash string) ([]byte, error)) (Outcome, error) {
	for {
		o, err := f.Apply(e)
		var missing *BlobsError
		if !errors.As(err, &missing) || read == nil {
			return o, err
		}
		for _, hash := range missing.Hashes {
			b, err := read(hash)
			if err != nil {
				return Stale, err
			}
			f.Lend(hash, b)
		}
	}
}

// whole replaces references by what they refer to.
func (f *Fold) whole(items []FanItem) error {
	var need BlobsError
	for i := range items {
		ref, ok := AsBlobRef(items[i].Body)
		if !ok {
			continue
		}
		if b, ok := f.blob(ref.Hash); ok {
			items[i].Body = b
			continue
		}
		need.Hashes = append(need.Hashes, ref.Hash)
	}
	if len(need.Hashes) > 0 {
		return &need
	}
	return nil
}

// blob returns a blob that is at hand.
func (f *Fold) blob(hash string) (json.RawMessage, bool) {
	for _, b := range f.blobs {
		if b.hash == hash {
			return b.bytes, true
		}
	}
	b, ok := f.lent[hash]
	return b, ok
}
