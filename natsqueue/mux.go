package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// mux sends requests and collects their answers by one subscription. Requests
// go in flights: all are sent before the first answer is awaited, and a
// flight of a thousand costs one entry in a map and one wake-up.
type mux struct {
	nc    *nats.Conn
	inbox string // what answers are sent to: inbox.<flight>.<request>
	sub   *nats.Subscription
	next  atomic.Uint64
	// landed is told of flights that ended.
	landed func(requests, unanswered int, took time.Duration)

	mu      sync.RWMutex
	flights map[uint64]*flight
	cut     chan struct{} // closed and replaced when the connection breaks

	states chan nats.Status
	wg     sync.WaitGroup
}

func newMux(nc *nats.Conn, landed func(requests, unanswered int, took time.Duration)) (*mux, error) {
	m := &mux{
		nc:      nc,
		inbox:   nc.NewInbox(),
		flights: map[uint64]*flight{},
		landed:  landed,
		cut:     make(chan struct{}),
	}
	sub, err := nc.Subscribe(m.inbox+".*.*", m.receive)
	if err != nil {
		return nil, fmt.Errorf("subscribe to answers: %w", err)
	}
	// Answers are bounded by what was asked, so dropping them is never right.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("subscribe to answers: %w", err)
	}
	m.sub = sub
	m.states = nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	m.wg.Go(m.watch)
	return m, nil
}

// watch tells all flights when the connection breaks: answers that have not
// come by then never will.
func (m *mux) watch() {
	for range m.states {
		m.mu.Lock()
		close(m.cut)
		m.cut = make(chan struct{})
		m.mu.Unlock()
	}
}

// broken is closed when the connection breaks.
func (m *mux) broken() <-chan struct{} {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.cut
}

func (m *mux) close() error {
	m.nc.RemoveStatusListener(m.states)
	m.wg.Wait()
	if err := m.sub.Unsubscribe(); err != nil && !m.nc.IsClosed() {
		return fmt.Errorf("unsubscribe from answers: %w", err)
	}
	return nil
}

// receive runs in the subscription's goroutine.
func (m *mux) receive(msg *nats.Msg) {
	id, i, ok := strings.Cut(msg.Subject[len(m.inbox)+1:], ".")
	if !ok {
		return
	}
	n, err := strconv.ParseUint(id, 36, 64)
	if err != nil {
		return
	}
	k, err := strconv.ParseUint(i, 36, 32)
	if err != nil {
		return
	}
	m.mu.RLock()
	f := m.flights[n]
	m.mu.RUnlock()
	if f != nil {
		f.receive(int(k), msg)
	}
}

// ask sends one request and returns its answer, nil if none came.
func (l *link) ask(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	f := l.mux.fly(1)
	sent := f.send(0, msg)
	answers, err := f.land(ctx, l.opts.Quiet)
	return answers[0], errors.Join(sent, err)
}

// flight is a number of requests under way together.
type flight struct {
	mux   *mux
	reply string // inbox and number of the flight, with a dot
	id    uint64
	cut   <-chan struct{} // closed when the connection it was sent on breaks
	many  bool            // one request, answered by messages and a status
	began time.Time

	mu      sync.Mutex
	answers []*nats.Msg // by request; with many, in the order they came
	left    int
	heard   time.Time // when the last answer came
	done    chan struct{}
}

// fly begins a flight of n requests.
func (m *mux) fly(n int) *flight {
	f := &flight{mux: m, id: m.next.Add(1), answers: make([]*nats.Msg, n), left: n, heard: time.Now(), done: make(chan struct{})}
	m.register(f)
	return f
}

// flyMany begins a flight of one request that is answered by a series of
// messages, ended by one that has a status.
func (m *mux) flyMany() *flight {
	f := &flight{mux: m, id: m.next.Add(1), many: true, left: 1, heard: time.Now(), done: make(chan struct{})}
	m.register(f)
	return f
}

func (m *mux) register(f *flight) {
	f.reply, f.began = m.inbox+"."+strconv.FormatUint(f.id, 36)+".", f.heard
	m.mu.Lock()
	defer m.mu.Unlock()
	f.cut = m.cut
	m.flights[f.id] = f
}

// replyTo is the subject of the answer to the i-th request.
func (f *flight) replyTo(i int) string { return f.reply + strconv.FormatUint(uint64(i), 36) }

// send sends the i-th request. After an error no answer is awaited.
func (f *flight) send(i int, msg *nats.Msg) error {
	msg.Reply = f.replyTo(i)
	err := f.mux.nc.PublishMsg(msg)
	msg.Reply = ""
	if err != nil {
		f.skip()
	}
	return err
}

// skip notes that a request was not sent.
func (f *flight) skip() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
}

func (f *flight) receive(i int, msg *nats.Msg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = time.Now()
	if f.many {
		if f.left == 0 {
			return
		}
		f.answers = append(f.answers, msg)
		if msg.Header.Get(headerState) != "" {
			f.settle()
		}
		return
	}
	if i >= len(f.answers) || f.answers[i] != nil {
		return
	}
	f.answers[i] = msg
	f.settle()
}

// settle notes that one more request needs no further waiting; mu is held.
func (f *flight) settle() {
	if f.left--; f.left == 0 {
		close(f.done)
	}
}

// land waits for the answers and ends the flight. It returns early when ctx
// ends, when the connection breaks, or when no answer at all came for the
// given time: a server that still answers others of the flight is only slow.
// Requests without an answer are nil. The error is ctx's.
func (f *flight) land(ctx context.Context, quiet time.Duration) ([]*nats.Msg, error) {
	defer func() {
		f.mux.mu.Lock()
		delete(f.mux.flights, f.id)
		f.mux.mu.Unlock()
		f.report(ctx)
	}()
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-f.done:
			return f.taken(), nil
		case <-ctx.Done():
			return f.taken(), ctx.Err()
		case <-f.cut:
			return f.taken(), nil
		case <-timer.C:
			left := quiet - time.Since(f.lastHeard())
			if left <= 0 {
				return f.taken(), nil
			}
			timer.Reset(left)
		}
	}
}

// report tells of the flight, unless whoever began it lost interest.
func (f *flight) report(ctx context.Context) {
	if f.many || ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	left := f.left
	f.mu.Unlock()
	f.mux.landed(len(f.answers), left, time.Since(f.began))
}

func (f *flight) lastHeard() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heard
}

// taken is a copy of the answers, since a late one may still come in.
func (f *flight) taken() []*nats.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return f.answers
	}
	return append([]*nats.Msg(nil), f.answers...)
}
