package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

const (
	mostFetch  = 1000
	fetchBytes = 16 << 20               // of one pull, so that the server never drops a slow reader
	pullPause  = 5 * time.Millisecond   // before a pull that was turned away is made again
	pullGrace  = 100 * time.Millisecond // for the server to end a pull that is over
	drainWait  = 500 * time.Millisecond // for what is on its way when a fetch is given up
)

// Source is the queues. Any number of fetches may run at once, on the same
// consumer as well.
type Source struct {
	*link

	mu      sync.Mutex
	pullers map[string][]*puller   // idle, by consumer
	surplus map[string][]*nats.Msg // delivered, and more than was asked for
	heard   map[string]time.Time   // when a consumer last gave an answer
	closed  bool
}

var _ worker.Source = (*Source)(nil)

// Fetch implements worker.Source. It returns as soon as there is anything, and
// nothing without an error when there is nothing; never more than n. Messages
// come with an error only if ctx ended: they are to be answered all the same.
// What comes between two fetches waits for the next; who makes no more calls
// Fetch with a ctx that has ended until nothing is left.
func (s *Source) Fetch(ctx context.Context, consumer string, n int, wait time.Duration) ([]queue.Message, error) {
	name, err := streamOf(consumer)
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, nil
	}
	deadline := time.Now().Add(wait)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		msgs, err := s.fetch(ctx, consumer, name, min(n, mostFetch), time.Until(deadline))
		if err == nil || ctx.Err() == nil && (len(msgs) > 0 || (errors.Is(err, errSilent) || wait <= 0 && errors.Is(err, errLeader)) && s.recent(consumer)) {
			return msgs, nil // trouble comes again at the next fetch
		}
		gone := errors.Is(err, errGone)
		if gone {
			// The stream may have been made anew. If it is only without a
			// leader, that passes.
			s.forget(name)
			limit, cancel := context.WithTimeout(ctx, s.opts.Quiet)
			missing := s.checkConsumer(limit, consumer)
			cancel()
			if errors.Is(missing, ErrMissing) {
				return nil, fmt.Errorf("fetch from %s: %w", consumer, missing)
			}
			err = errors.Join(err, missing)
		}
		if ctx.Err() == nil && (gone || errors.Is(err, worker.ErrUnavailable)) {
			if pause < time.Until(deadline) && sleep(ctx, pause) == nil {
				continue
			}
			if s.recent(consumer) {
				return nil, sleep(ctx, time.Until(deadline))
			}
		}
		if ctx.Err() != nil || errors.Is(err, worker.ErrUnavailable) || errors.Is(err, ErrMissing) {
			return msgs, fmt.Errorf("fetch from %s: %w", consumer, err)
		}
		return msgs, unavailable("fetch from "+consumer, err)
	}
}

// fetch fetches from a consumer of the named stream.
func (s *Source) fetch(ctx context.Context, consumer, name string, n int, wait time.Duration) ([]queue.Message, error) {
	// Ids made for messages that have none name the stream's incarnation: it
	// must be known before there is a message.
	var incarnation string
	if name == streamStart || name == streamSignal {
		var err error
		if incarnation, err = s.incarnation(ctx, name); err != nil {
			return nil, err
		}
	}
	if consumer == ConsumerResult { // or no token could be told from a forged one
		if _, err := s.secretOf(ctx); err != nil {
			return nil, err
		}
	}
	msgs, err := s.deliveries(ctx, consumer, s.subj.stream(name), n, wait)
	out := make([]queue.Message, 0, len(msgs))
	for _, m := range msgs {
		out = append(out, s.read(m, incarnation))
	}
	return out, err
}

// deliveries are up to n messages of a consumer: what is left over from
// before, or else a pull's. A pull that was made for more and then given up
// may bring more than n.
func (s *Source) deliveries(ctx context.Context, consumer, stream string, n int, wait time.Duration) ([]*nats.Msg, error) {
	p, msgs, err := s.puller(consumer, stream, n)
	if err != nil || len(msgs) > 0 {
		return msgs, err
	}
	if err := ctx.Err(); err != nil && !p.open { // nothing has come that would lie about
		s.release(consumer, p, false)
		return nil, err
	}
	msgs, err = p.fetch(ctx, n, wait)
	s.release(consumer, p, len(msgs) > 0 || err == nil && !p.open)
	if len(msgs) > n {
		s.keep(consumer, msgs[n:])
		msgs = msgs[:n]
	}
	return msgs, err
}

// keep holds messages for the next fetch. Once the queue is closed there is
// none, and they are given back.
func (s *Source) keep(consumer string, msgs []*nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.giveBack(msgs)
		return
	}
	s.surplus[consumer] = append(s.surplus[consumer], msgs...)
}

// giveBack returns messages to the broker; those it does not get back so come
// again when their AckWait is over.
func (s *Source) giveBack(msgs []*nats.Msg) {
	for _, m := range msgs {
		d := delivery{nc: s.nc, reply: m.Reply}
		if err := d.Nak(0); err != nil {
			s.opts.Logger.Debug("message not given back", "subject", m.Subject, "error", err)
		}
	}
}

// puller is a puller for a consumer, or up to n messages that are there
// already.
func (s *Source) puller(consumer, stream string, n int) (*puller, []*nats.Msg, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := slices.DeleteFunc(s.pullers[consumer], func(p *puller) bool {
		if lost := p.open && isClosed(p.cut); lost {
			s.surplus[consumer] = append(s.surplus[consumer], p.taken()...)
			p.close()
			return true
		}
		return false
	})
	s.pullers[consumer] = idle
	if kept := s.surplus[consumer]; len(kept) > 0 {
		n = min(n, len(kept))
		s.surplus[consumer] = slices.Clone(kept[n:])
		return nil, kept[:n:n], nil
	}
	if len(idle) == 0 {
		p, err := newPuller(s.link, stream, consumer)
		return p, nil, err
	}
	// One with an open pull first: it may have messages.
	i := max(0, slices.IndexFunc(idle, func(p *puller) bool { return p.open }))
	p := idle[i]
	s.pullers[consumer] = slices.Delete(idle, i, i+1)
	return p, nil, nil
}

// release keeps a puller for the next fetch, unless its subscription has
// ended.
func (s *Source) release(consumer string, p *puller, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered || s.heard[consumer].IsZero() {
		s.heard[consumer] = time.Now()
	}
	if p.spent || s.closed {
		if p.open && !p.spent {
			s.giveBack(p.abandon())
		}
		p.close()
		return
	}
	s.pullers[consumer] = append(s.pullers[consumer], p)
}

// recent reports whether a consumer gave an answer within Patience. Under a
// burst of writes that are each synced, the server may let consumers wait for
// seconds, and a new leader takes as long to be found.
func (s *Source) recent(consumer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.heard[consumer]) < s.opts.Patience
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (s *Source) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for name, idle := range s.pullers {
		for _, p := range idle {
			if p.open {
				s.giveBack(p.abandon())
				continue
			}
			p.close()
		}
		delete(s.pullers, name)
	}
	for name, msgs := range s.surplus {
		s.giveBack(msgs)
		delete(s.surplus, name)
	}
	return nil
}

// puller makes pulls on one consumer, one at a time, and gets the messages on
// an inbox of its own: a delivered message does not tell which pull it
// answers.
type puller struct {
	*link
	subject string // of pulls
	inbox   string
	sub     *nats.Subscription
	msgs    chan *nats.Msg
	spent   bool // the subscription has ended
	pulls   int  // made so far

	open    bool            // a pull was not ended by the server yet
	brief   bool            // it takes what there is, and does not wait
	reply   string          // where its status comes
	cut     <-chan struct{} // closed when the connection it went by breaks
	left    int             // how many messages it may still bring
	expires time.Time       // when the server ends it
}

func newPuller(l *link, stream, consumer string) (*puller, error) {
	// One pull is open at a time, so no more can come than its messages, its
	// status, and that of the pull before.
	msgs := make(chan *nats.Msg, mostFetch+2)
	inbox := l.nc.NewInbox()
	sub, err := l.nc.ChanSubscribe(inbox+".*", msgs)
	if err != nil {
		return nil, fmt.Errorf("subscribe to messages: %w", err)
	}
	return &puller{link: l, subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer, inbox: inbox, sub: sub, msgs: msgs}, nil
}

// close ends the subscription; on a connection that is closed it has ended.
func (p *puller) close() { _ = p.sub.Unsubscribe() }

var (
	errGone   = errors.New("the consumer does not answer")
	errLeader = errors.New("the consumer changes its leader")
)

// fetch pulls until there is something or the wait is over.
func (p *puller) fetch(ctx context.Context, n int, wait time.Duration) ([]*nats.Msg, error) {
	deadline := time.Now().Add(wait)
	for {
		msgs, err := p.pull(ctx, n, time.Until(deadline))
		if len(msgs) > 0 || err == nil && time.Until(deadline) <= pullPause {
			return msgs, nil
		}
		// A pull that was turned away, because others wait or the leader
		// changes, is made again.
		if err != nil && (p.spent || time.Until(deadline) <= pullPause || !errors.Is(err, errLeader)) {
			return nil, err
		}
		if err := sleep(ctx, pullPause); err != nil {
			return nil, err
		}
	}
}

// pull goes on with the pull that is open, or makes one, and returns as soon as
// there is something, with as much as has come by then. The pull stays open for
// the next fetch, until it has brought what it was made for or is over: so the
// broker deals messages out in turn among all who wait. One that ends with the
// first messages would have the others turned away as long as there are fewer
// messages than it could take.
func (p *puller) pull(ctx context.Context, n int, wait time.Duration) ([]*nats.Msg, error) {
	if err := p.request(n, wait); err != nil {
		return nil, err
	}
	over := time.NewTimer(max(wait, 0) + pullGrace)
	defer over.Stop()
	var got []*nats.Msg
	for p.left > 0 && len(got) < n {
		if len(got) > 0 && len(p.msgs) == 0 && !p.brief {
			return got, nil
		}
		select {
		case m := <-p.msgs:
			// What is delivered has an ack's address; a status has none. A
			// pull that brought all it was to bring has a status as well.
			if m.Reply == "" {
				if m.Subject != p.reply {
					continue
				}
				p.open = false
				return got, pullStatus(m)
			}
			if p.left--; len(got) == 0 {
				over.Reset(pullGrace)
			}
			got = append(got, m)
		case <-ctx.Done():
			return append(got, p.abandon()...), ctx.Err()
		case <-p.cut:
			return append(got, p.abandon()...), nats.ErrDisconnected
		case <-over.C:
			if time.Since(p.expires) > p.opts.Quiet {
				return append(got, p.abandon()...), errSilent
			}
			return got, nil
		}
	}
	p.open = p.left > 0
	return got, nil
}

// request asks the server for messages, unless it was asked already.
func (p *puller) request(n int, wait time.Duration) error {
	if p.open {
		return nil
	}
	request := map[string]any{"batch": n, "max_bytes": fetchBytes}
	if p.brief = wait <= 0; p.brief {
		request["no_wait"] = true
	} else {
		request["expires"] = max(wait, time.Millisecond)
	}
	body, _ := json.Marshal(request) // numbers
	p.cut = p.mux.broken()
	p.pulls++
	p.reply = p.inbox + "." + strconv.Itoa(p.pulls)
	if err := p.nc.PublishMsg(&nats.Msg{Subject: p.subject, Reply: p.reply, Data: body}); err != nil {
		return err
	}
	p.open, p.left, p.expires = true, n, time.Now().Add(wait)
	return nil
}

// abandon ends the subscription, and with it the pull, and takes in what is on
// its way: it would otherwise lie about until its AckWait is over.
func (p *puller) abandon() []*nats.Msg {
	p.spent = true
	if p.sub.Drain() != nil || p.nc.FlushTimeout(drainWait) != nil {
		p.close()
	}
	return p.taken()
}

// taken is what was delivered and not looked at yet.
func (p *puller) taken() []*nats.Msg {
	var got []*nats.Msg
	for {
		select {
		case m := <-p.msgs:
			if m.Reply != "" {
				got = append(got, m)
			}
		default:
			return got
		}
	}
}

// pullStatus reads the status that ended a pull; nil for the ordinary ends.
func pullStatus(m *nats.Msg) error {
	code, text := m.Header.Get(headerState), m.Header.Get("Description")
	switch {
	case code == "404", code == "408": // no messages; time is over, or others wait
		return nil
	case code == "503":
		return errGone
	case code == "409" && (strings.Contains(text, "MaxBytes") || strings.Contains(text, "Batch Completed")):
		return nil
	case code == "409" && strings.Contains(text, "Consumer Deleted"):
		return errGone
	case code == "409": // the leader changes, the server shuts down
		return fmt.Errorf("%w: %s", errLeader, text)
	}
	return fmt.Errorf("the pull was refused: %s %s", code, text)
}

// delivery answers one message. Answers are not awaited: what is lost leads to
// a redelivery.
type delivery struct {
	nc    *nats.Conn
	reply string
}

// Ack implements queue.Delivery.
func (d *delivery) Ack() error { return d.answer("ack", "+ACK") }

// Beat implements queue.Delivery.
func (d *delivery) Beat() error { return d.answer("beat", "+WPI") }

// Nak implements queue.Delivery.
func (d *delivery) Nak(delay time.Duration) error {
	if delay <= 0 {
		return d.answer("nak", "-NAK")
	}
	return d.answer("nak", `-NAK {"delay":`+strconv.FormatInt(int64(delay), 10)+`}`)
}

func (d *delivery) answer(what, text string) error {
	if err := d.nc.Publish(d.reply, []byte(text)); err != nil {
		return fmt.Errorf("%s message: %w: %w", what, worker.ErrUnavailable, err)
	}
	return nil
}
