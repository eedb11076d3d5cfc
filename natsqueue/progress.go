package natsqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/queue"
)

const (
	progressPause = 50 * time.Millisecond // in which what is told gathers
	progressSize  = 128 << 10             // of the items of one message
	progressMost  = 4 << 20               // of the items that wait to be sent; more is lost

	// What PROGRESS keeps.
	progressFor   = time.Hour
	progressBytes = 64 << 20 // of memory, on each server that has the stream
	progressOfRun = 10_000   // messages
)

// Progress is what handlers tell of attempts under way. Its messages are sent
// without asking for an answer, and kept for a while in the server's memory.
//
//	Tell ─▶ gathers, by attempt ─▶ a message each 50 ms ─▶ PROGRESS ─▶ Follow
type Progress struct {
	*link
	begin sync.Once
	over  sync.WaitGroup // the one who sends
	wake  chan struct{}  // size 1: there is something to send
	hurry chan struct{}  // size 1: and it shall not wait
	done  chan struct{}  // closed by close

	mu      sync.Mutex
	waiting []*queue.Progress
	last    map[attemptOf]*queue.Progress // of each attempt in waiting
	size    int                           // of all items in waiting
}

// attemptOf names an attempt.
type attemptOf struct {
	effect  string
	attempt int
}

func newProgress(l *link) *Progress {
	return &Progress{link: l, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), done: make(chan struct{})}
}

// Tell implements worker.Progress.
func (p *Progress) Tell(t queue.Progress) bool {
	size := sizeOf(t.Items)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size+size > progressMost {
		return false
	}
	p.begin.Do(func() { p.over.Go(p.send) })
	p.size += size
	of := attemptOf{t.ID, t.Attempt}
	if have := p.last[of]; have != nil && have.First+len(have.Items) == t.First && sizeOf(have.Items)+size <= progressSize {
		have.Items = append(have.Items, t.Items...)
		return true
	}
	if p.last == nil {
		p.last = map[attemptOf]*queue.Progress{}
	}
	p.last[of] = &t
	p.waiting = append(p.waiting, &t)
	fill(p.wake)
	return true
}

// Flush implements worker.Progress.
func (p *Progress) Flush() { fill(p.hurry) }

// fill fills a channel of size 1.
func fill(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func sizeOf(items []json.RawMessage) int {
	n := 0
	for _, it := range items {
		n += len(it)
	}
	return n
}

// send sends what gathers, until it is closed.
func (p *Progress) send() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-p.wake:
		case <-p.done:
			p.sendAll()
			return
		}
		pause.Reset(progressPause)
		select {
		case <-pause.C:
		case <-p.hurry:
		case <-p.done:
		}
		p.sendAll()
	}
}

// sendAll sends what has gathered. What the connection does not take is lost.
func (p *Progress) sendAll() {
	p.mu.Lock()
	all := p.waiting
	p.waiting, p.last, p.size = nil, nil, 0
	p.mu.Unlock()
	for _, t := range all {
		var body bytes.Buffer
		enc := json.NewEncoder(&body)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(t); err == nil {
			_ = p.nc.Publish(p.subj.progress(t.Run), bytes.TrimSuffix(body.Bytes(), []byte{'\n'}))
		}
	}
}

// close sends what is left.
func (p *Progress) close() {
	close(p.done)
	p.begin.Do(func() {}) // or it begins no more
	p.over.Wait()
}

// Follow yields what was told of a run after a sequence of PROGRESS, and what
// will be, until ctx ends; 0 is all that is still kept. A message that is none
// of progress is passed over.
func (p *Progress) Follow(ctx context.Context, run string, after uint64) iter.Seq2[queue.Progress, error] {
	return func(yield func(queue.Progress, error) bool) {
		messages, err := p.messages(ctx, run, after)
		if err != nil {
			yield(queue.Progress{}, err)
			return
		}
		defer messages.Stop()
		// A consumer that is being made anew, while the server is away, does not
		// look at the context.
		defer context.AfterFunc(ctx, messages.Stop)()
		for {
			m, err := messages.Next(jetstream.NextContext(ctx))
			switch {
			case ctx.Err() != nil:
				yield(queue.Progress{}, ctx.Err())
				return
			case errors.Is(err, jetstream.ErrNoHeartbeat): // the consumer is made anew
				continue
			case err != nil:
				yield(queue.Progress{}, unavailable("follow the progress of run "+quoted(run), err))
				return
			}
			t, ok := readProgress(m, run)
			if ok && !yield(t, nil) {
				return
			}
		}
	}
}

// messages makes the consumer of Follow.
func (p *Progress) messages(ctx context.Context, run string, after uint64) (jetstream.MessagesContext, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Patience)
	defer cancel()
	c, err := p.js.OrderedConsumer(ctx, p.subj.stream(streamProgress), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{p.subj.progress(run)}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
		InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, unavailable("follow the progress of run "+quoted(run), err)
	}
	messages, err := c.Messages()
	if err != nil {
		return nil, unavailable("follow the progress of run "+quoted(run), err)
	}
	return messages, nil
}

// readProgress reads a message of PROGRESS, which anybody may have sent who
// performs an effect.
func readProgress(m jetstream.Msg, run string) (t queue.Progress, ok bool) {
	meta, err := m.Metadata()
	if err != nil || json.Unmarshal(m.Data(), &t) != nil || len(t.Items) == 0 {
		return t, false
	}
	t.Run, t.Seq = run, meta.Sequence.Stream
	if t.At.IsZero() {
		t.At = meta.Timestamp
	}
	return t, true
}

// Last is the sequence of the last that was told of a run, 0 if nothing was.
func (p *Progress) Last(ctx context.Context, run string) (uint64, error) {
	m, err := p.lead(ctx, streamProgress, map[string]any{"last_by_subj": p.subj.progress(run)})
	if err != nil || m == nil {
		return 0, err
	}
	return m.seq, nil
}
