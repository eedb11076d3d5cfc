package bench

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
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/statemachine"
)

// Fleet is the fleet that is measured, by its streams.
type Fleet struct {
	Conn    *nats.Conn
	Prefix  string
	Answers *api.Answers
}

const (
	lookAfter = 2 * time.Second  // without an end, the last records are read
	giveUp    = 60 * time.Second // without an end, there is no fleet
	flushWait = 5 * time.Second
)

// ErrStalled is returned when no run has ended for a minute.
var ErrStalled = errors.New("no run has ended for a minute")

// driver drives one set of runs.
type driver struct {
	fleet Fleet
	load  Load
	name  string // begins the ids of its runs
	js    jetstream.JetStream

	free  chan struct{}  // a place for each run that may be in flight
	sent  []atomic.Int64 // when each run's start was published, in ns since began
	ended []atomic.Int64 // when its end was heard of; 0: not yet
	began time.Time
	done  atomic.Int64 // runs that have ended
	last  atomic.Int64 // when the last of them did

	refused atomic.Int64 // starts that were not taken
	looked  atomic.Int64 // ends that no message told of

	mu    sync.Mutex
	first error // the first thing that went wrong
}

// newDriver makes a driver of n runs.
func newDriver(f Fleet, l Load, n int) (*driver, error) {
	d := &driver{fleet: f, load: l, name: newName(), free: make(chan struct{}, l.InFlight),
		sent: make([]atomic.Int64, n), ended: make([]atomic.Int64, n), began: time.Now()}
	var err error
	// What is refused says so to the handler: nobody waits for each answer.
	d.js, err = jetstream.New(f.Conn, jetstream.WithPublishAsyncMaxPending(4096), jetstream.WithPublishAsyncErrHandler(
		func(_ jetstream.JetStream, m *nats.Msg, err error) { d.notTaken(m, err) }))
	return d, err
}

// drive starts n runs, and returns when all have ended.
func drive(ctx context.Context, f Fleet, l Load, n int, progress func(done int)) (*driver, error) {
	d, err := newDriver(f, l, n)
	if err != nil {
		return nil, err
	}
	sub, err := d.listen()
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, stop := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { d.watch(ctx, stop, progress) })
	defer func() { stop(nil); watch.Wait() }()
	if err := d.publish(ctx, n); err != nil {
		return nil, err
	}
	for range l.InFlight { // all have ended when all places are free
		select {
		case d.free <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return d, nil
}

// publish starts the runs, each as soon as there is a place for it.
func (d *driver) publish(ctx context.Context, n int) error {
	input, subject := d.load.input(), d.fleet.Prefix+".start."+machine
	d.began = time.Now()
	for i := range n {
		select {
		case d.free <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m := nats.NewMsg(subject)
		m.Header["Pawl-Run-Id"] = []string{d.name + strconv.Itoa(i)}
		m.Data = input
		d.sent[i].Store(int64(time.Since(d.began)))
		if _, err := d.js.PublishMsgAsync(m); err != nil {
			d.notTaken(m, err)
		}
	}
	return nil
}

// listen hears of the ends, by completion events. They are proof of nothing:
// what was stored is read when all is over.
func (d *driver) listen() (*nats.Subscription, error) {
	subject := d.fleet.Prefix + ".finished." + machine
	sub, err := d.fleet.Conn.Subscribe(subject, func(m *nats.Msg) {
		if i, ok := d.index(m.Header.Get("Pawl-Run-Id")); ok {
			d.end(i)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen to %s: %w", subject, err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	return sub, d.fleet.Conn.FlushTimeout(flushWait)
}

// index is the number of a run by its id, which is its token; false if it is
// not one of these.
func (d *driver) index(id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, d.name)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	return i, err == nil && i >= 0 && i < len(d.ended)
}

// end notes that a run has ended; only once.
func (d *driver) end(i int) bool {
	now := max(1, int64(time.Since(d.began)))
	if !d.ended[i].CompareAndSwap(0, now) {
		return false
	}
	d.last.Store(now)
	d.done.Add(1)
	<-d.free
	return true
}

// notTaken notes a start that was not stored.
func (d *driver) notTaken(m *nats.Msg, err error) {
	i, ok := d.index(m.Header.Get("Pawl-Run-Id"))
	if ok && d.end(i) {
		d.refused.Add(1)
		d.blame(fmt.Errorf("start run %s%d: %w", d.name, i, err))
	}
}

// blame keeps the first error.
func (d *driver) blame(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first == nil {
		d.first = err
	}
}

// watch tells of the progress. When nothing is heard for a while it reads what
// became of the runs, since a run that is parked ends without a message, and a
// message may be lost.
func (d *driver) watch(ctx context.Context, stop context.CancelCauseFunc, progress func(int)) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	seen, since, looked := int64(0), time.Now(), time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		done := d.done.Load()
		if done != seen {
			seen, since = done, time.Now()
			progress(int(done))
			continue
		}
		if time.Since(since) > giveUp {
			stop(ErrStalled)
			return
		}
		if time.Since(since) > lookAfter && time.Since(looked) > lookAfter {
			if err := d.look(ctx); err != nil {
				stop(err)
				return
			}
			looked = time.Now()
		}
	}
}

// look reads the last record of each run that is under way.
func (d *driver) look(ctx context.Context) error {
	for i := range d.ended {
		if d.sent[i].Load() == 0 || d.ended[i].Load() != 0 {
			continue
		}
		id := d.name + strconv.Itoa(i)
		last, err := d.fleet.Answers.Log.Look(ctx, id)
		if err != nil {
			return err
		}
		switch {
		case last == nil:
		case last.Status == statemachine.StatusParked:
			if d.end(i) {
				d.blame(fmt.Errorf("run %s is parked in state %s", id, last.To))
			}
		case last.Status.Ended():
			if d.end(i) {
				d.looked.Add(1)
			}
		}
	}
	return nil
}
