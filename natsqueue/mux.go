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

// mux sends requests and collects their answers. Requests go in flights: all
// are sent before the first answer is awaited. A flight has a line of its own
// for its answers, so they come straight from the connection to who waits.
type mux struct {
	nc   *nats.Conn
	next atomic.Uint64
	// landed is told of flights that ended.
	landed func(requests, unanswered int, took time.Duration)

	mu     sync.Mutex
	idle   []*line
	closed bool
	cut    chan struct{} // closed and replaced when the connection breaks

	states chan nats.Status
	wg     sync.WaitGroup
}

// line is a subscription that answers come in on, of one flight after another.
type line struct {
	inbox string // what answers are sent to: inbox.<flight>.<request>
	sub   *nats.Subscription
	msgs  chan *nats.Msg
}

// lineRoom is how many answers a line holds that is used again: those of a
// flight, and stray ones of the flight before.
const lineRoom = 4096

func newMux(nc *nats.Conn, landed func(requests, unanswered int, took time.Duration)) (*mux, error) {
	m := &mux{nc: nc, landed: landed, cut: make(chan struct{})}
	l, err := m.line(1)
	if err != nil {
		return nil, err
	}
	m.idle = append(m.idle, l)
	m.states = nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	m.wg.Go(m.watch)
	return m, nil
}

// line is an idle line with room for n answers, or a new one.
func (m *mux) line(n int) (*line, error) {
	m.mu.Lock()
	if k := len(m.idle); k > 0 && n <= lineRoom/2 {
		l := m.idle[k-1]
		m.idle = m.idle[:k-1]
		m.mu.Unlock()
		return l, nil
	}
	m.mu.Unlock()
	// Answers are bounded by what was asked, so a line is never too full.
	l := &line{inbox: m.nc.NewInbox(), msgs: make(chan *nats.Msg, max(lineRoom, n))}
	sub, err := m.nc.ChanSubscribe(l.inbox+".*.*", l.msgs)
	if err != nil {
		return nil, fmt.Errorf("subscribe to answers: %w", err)
	}
	l.sub = sub
	return l, nil
}

// release takes a line back. One that may still get answers of its flight is
// given up: with nobody reading it, it would fill.
func (m *mux) release(l *line, clean bool) {
	m.mu.Lock()
	keep := clean && !m.closed && cap(l.msgs) == lineRoom
	if keep {
		m.idle = append(m.idle, l)
	}
	m.mu.Unlock()
	if !keep {
		_ = l.sub.Unsubscribe() // on a connection that is closed it has ended
	}
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
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cut
}

func (m *mux) close() error {
	m.nc.RemoveStatusListener(m.states)
	m.wg.Wait()
	m.mu.Lock()
	idle := m.idle
	m.idle, m.closed = nil, true
	m.mu.Unlock()
	var errs []error
	for _, l := range idle {
		if err := l.sub.Unsubscribe(); err != nil && !m.nc.IsClosed() {
			errs = append(errs, fmt.Errorf("unsubscribe from answers: %w", err))
		}
	}
	return errors.Join(errs...)
}

// ask sends one request and returns its answer, nil if none came.
func (l *link) ask(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	f := l.mux.fly(1)
	sent := f.send(0, msg)
	answers, err := f.land(ctx, l.opts.Quiet)
	return answers[0], errors.Join(sent, err)
}

// flight is a number of requests under way together. One goroutine has it.
type flight struct {
	mux   *mux
	line  *line           // nil if there is none to be had
	fault error           // why
	reply string          // inbox and number of the flight, with a dot
	cut   <-chan struct{} // closed when the connection it was sent on breaks
	many  bool            // one request, answered by messages and a status
	began time.Time

	answers []*nats.Msg // by request; with many, in the order they came
	left    int
}

// fly begins a flight of n requests.
func (m *mux) fly(n int) *flight {
	return m.register(&flight{answers: make([]*nats.Msg, n), left: n}, n)
}

// flyMany begins a flight of one request that is answered by a series of
// messages, ended by one that has a status.
func (m *mux) flyMany() *flight {
	return m.register(&flight{many: true, left: 1}, mostAnswers)
}

// mostAnswers is how many messages the server answers one request with.
const mostAnswers = 1025

func (m *mux) register(f *flight, n int) *flight {
	f.mux, f.began, f.cut = m, time.Now(), m.broken()
	if f.line, f.fault = m.line(n); f.fault == nil {
		f.reply = f.line.inbox + "." + strconv.FormatUint(m.next.Add(1), 36) + "."
	}
	return f
}

// send sends the i-th request. After an error no answer is awaited.
func (f *flight) send(i int, msg *nats.Msg) error {
	if f.fault != nil {
		f.left--
		return f.fault
	}
	msg.Reply = f.replyTo(i)
	err := f.mux.nc.PublishMsg(msg)
	msg.Reply = ""
	if err != nil {
		f.left--
	}
	return err
}

// replyTo is the subject of the answer to the i-th request.
func (f *flight) replyTo(i int) string { return f.reply + strconv.FormatUint(uint64(i), 36) }

// receive takes an answer in; one to another flight is late, and nobody's.
func (f *flight) receive(msg *nats.Msg) {
	number, ok := strings.CutPrefix(msg.Subject, f.reply)
	if !ok {
		return
	}
	if f.many {
		f.answers = append(f.answers, msg)
		if msg.Header.Get(headerState) != "" {
			f.left--
		}
		return
	}
	i, err := strconv.ParseUint(number, 36, 32)
	if err != nil || int(i) >= len(f.answers) || f.answers[i] != nil {
		return
	}
	f.answers[i] = msg
	f.left--
}

// land waits for the answers and ends the flight. It returns early when ctx
// ends, when the connection breaks, or when no answer at all came for the
// given time: a server that still answers others of the flight is only slow.
// Requests without an answer are nil. The error is ctx's.
func (f *flight) land(ctx context.Context, quiet time.Duration) ([]*nats.Msg, error) {
	if f.fault != nil {
		return f.answers, ctx.Err()
	}
	defer func() {
		f.mux.release(f.line, f.left == 0)
		if !f.many && ctx.Err() == nil { // else whoever began it lost interest
			f.mux.landed(len(f.answers), f.left, time.Since(f.began))
		}
	}()
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for heard := time.Now(); f.left > 0; {
		select {
		case msg := <-f.line.msgs:
			f.receive(msg)
			heard = time.Now()
		case <-ctx.Done():
			return f.answers, ctx.Err()
		case <-f.cut:
			return f.answers, nil
		case <-timer.C:
			left := quiet - time.Since(heard)
			if left <= 0 {
				return f.answers, nil
			}
			timer.Reset(left)
		}
	}
	return f.answers, nil
}
