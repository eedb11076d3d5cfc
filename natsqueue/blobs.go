package natsqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/worker"
)

const (
	blobChunk  = 512 << 10
	blobFlight = 32 // chunks under way at once: 16 MB
	mostBlob   = 64 << 20
	// blobMargin is how much later than what refers to them chunks expire:
	// they are put before it.
	blobMargin = time.Minute
)

// The headers of a chunk. The sum is over the whole blob, whatever its hash in
// the subject is made of: a keyed hash cannot be checked here.
const (
	headerChunks = "Pawl-Blob-Chunks"
	headerSize   = "Pawl-Blob-Size"
	headerSum    = "Pawl-Blob-Sha256"
)

// ErrNoBlob is returned for a blob that is not there.
var ErrNoBlob = errors.New("no such blob")

// Blobs keep large values in chunks, under the hash of their bytes, and belong
// to a run.
type Blobs struct{ *link }

var (
	_ worker.Blobs = (*Blobs)(nil)
	_ api.Blobs    = (*Blobs)(nil)
)

// Put implements worker.Blobs.
func (b *Blobs) Put(ctx context.Context, run string, blobs map[string][]byte) error {
	for _, hash := range slices.Sorted(maps.Keys(blobs)) {
		if err := b.putBlob(ctx, runPart(run), hash, blobs[hash], 0); err != nil {
			return fmt.Errorf("put blob of run %s: %w", quoted(run), err)
		}
	}
	return nil
}

// Get implements worker.Blobs. What it returns was checked to be what was put.
func (b *Blobs) Get(ctx context.Context, run, hash string) ([]byte, error) {
	data, err := b.getBlob(ctx, runPart(run), hash)
	if err != nil {
		return nil, fmt.Errorf("get blob of run %s: %w", quoted(run), err)
	}
	return data, nil
}

// Piece implements api.Blobs. It reads no more of a blob than the piece, and so
// cannot check the whole.
func (b *Blobs) Piece(ctx context.Context, run, hash string, offset int64, most int) ([]byte, int64, error) {
	data, total, err := b.piece(ctx, runPart(run), hash, offset, most)
	if err != nil {
		return nil, 0, fmt.Errorf("get blob of run %s: %w", quoted(run), err)
	}
	return data, total, nil
}

func (l *link) piece(ctx context.Context, owner, hash string, offset int64, most int) ([]byte, int64, error) {
	if !opaqueRE.MatchString(hash) {
		return nil, 0, fmt.Errorf("%s is no hash", quoted(hash))
	}
	if offset < 0 || offset > mostBlob {
		offset = mostBlob // beyond any: there is a size, and no bytes
	}
	at := int(offset) / blobChunk
	c, err := l.chunk(ctx, owner, hash, at)
	if errors.Is(err, ErrNoBlob) && at > 0 {
		at = 0
		c, err = l.chunk(ctx, owner, hash, at)
	}
	if errors.Is(err, ErrNoBlob) {
		return nil, 0, fmt.Errorf("%w: %w", err, api.ErrNotFound)
	}
	if err != nil {
		return nil, 0, err
	}
	total, err := strconv.Atoi(c.headers().Get(headerSize))
	if err != nil || total < 0 || total > mostBlob {
		return nil, 0, fmt.Errorf("blob %s has no size: %w", hash, err)
	}
	data := make([]byte, 0, max(0, min(most, total-int(offset))))
	for from := int(offset) - at*blobChunk; len(data) < cap(data); from = 0 {
		if from >= len(c.data) {
			return nil, 0, fmt.Errorf("blob %s is damaged: chunk %d has %d bytes", hash, at, len(c.data))
		}
		data = append(data, c.data[from:min(len(c.data), from+cap(data)-len(data))]...)
		if at++; len(data) < cap(data) {
			if c, err = l.chunk(ctx, owner, hash, at); err != nil {
				return nil, 0, err
			}
		}
	}
	return data, int64(total), nil
}

// PurgeRun removes all blobs of a run.
func (b *Blobs) PurgeRun(ctx context.Context, run string) error {
	if err := b.purge(ctx, runPart(run)); err != nil {
		return fmt.Errorf("purge blobs of run %s: %w", quoted(run), err)
	}
	return nil
}

func (l *link) purge(ctx context.Context, owner string) error {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Patience)
	defer cancel()
	s, err := l.js.Stream(ctx, l.subj.stream(streamBlobs))
	if err != nil {
		return unavailable("look up stream", err)
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(l.subj.blobs(owner))); err != nil {
		return unavailable("purge", err)
	}
	return nil
}

// putBlob stores each chunk that is not there. Chunks that are there were put
// by somebody who put the same bytes. Those that are to expire are put in any
// case, since what refers to them would outlive the ones before.
func (l *link) putBlob(ctx context.Context, owner, hash string, data []byte, life time.Duration) error {
	if !opaqueRE.MatchString(hash) {
		return fmt.Errorf("%s is no hash", quoted(hash))
	}
	if len(data) > mostBlob {
		return fmt.Errorf("%w: blob %s has %d bytes, over %d", worker.ErrTooLarge, hash, len(data), mostBlob)
	}
	chunks := max(1, (len(data)+blobChunk-1)/blobChunk)
	sum := sha256.Sum256(data)
	guard, value := headerExpected, "0"
	if life > 0 {
		guard, value = headerTTL, ttl(life+blobMargin)
	}
	head := [...]string{strconv.Itoa(chunks), strconv.Itoa(len(data)), hex.EncodeToString(sum[:])}
	for first := 0; first < chunks; first += blobFlight {
		var msgs []*nats.Msg
		for i := first; i < min(first+blobFlight, chunks); i++ {
			msgs = append(msgs, &nats.Msg{
				Subject: l.subj.blob(owner, hash, i),
				Data:    data[i*blobChunk : min((i+1)*blobChunk, len(data))],
				Header: nats.Header{
					guard: {value}, headerChunks: {head[0]}, headerSize: {head[1]}, headerSum: {head[2]},
				},
			})
		}
		for _, a := range l.send(ctx, msgs) {
			if err := a.err(); err != nil && a.verdict != refused {
				return fmt.Errorf("blob %s: %w", hash, err)
			}
		}
	}
	return nil
}

// getBlob reads a blob and checks it. A replica that lacks a chunk is not the
// last to be asked.
func (l *link) getBlob(ctx context.Context, owner, hash string) ([]byte, error) {
	if !opaqueRE.MatchString(hash) {
		return nil, fmt.Errorf("%s is no hash", quoted(hash))
	}
	head, err := l.chunk(ctx, owner, hash, 0)
	if err != nil {
		return nil, err
	}
	chunks, err1 := strconv.Atoi(head.headers().Get(headerChunks))
	size, err2 := strconv.Atoi(head.headers().Get(headerSize))
	if err := errors.Join(err1, err2); err != nil || size < 0 || size > mostBlob {
		return nil, fmt.Errorf("blob %s has no size: %w", hash, err)
	}
	data := make([]byte, 0, size)
	data = append(data, head.data...)
	for i := 1; i < chunks; i++ {
		c, err := l.chunk(ctx, owner, hash, i)
		if err != nil {
			return nil, err
		}
		data = append(data, c.data...)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != head.headers().Get(headerSum) {
		return nil, fmt.Errorf("blob %s is damaged: its %d bytes are not the %d that were put", hash, len(data), size)
	}
	return data, nil
}

// chunk reads one chunk: from any replica, and from the leader if that one has
// none.
func (l *link) chunk(ctx context.Context, owner, hash string, i int) (*raw, error) {
	subject := l.subj.blob(owner, hash, i)
	var m *raw
	err := l.lastOf(ctx, streamBlobs, []string{subject}, func(r *raw) { m = r })
	if err == nil && m == nil {
		m, err = l.lead(ctx, streamBlobs, map[string]any{"last_by_subj": subject})
	}
	if err == nil && m == nil {
		err = fmt.Errorf("chunk %d of %s: %w", i, hash, ErrNoBlob)
	}
	return m, err
}
