package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Worker drives the runs of a fleet, together with the others of its kind.
type Worker struct {
	cfg     Config
	ports   Ports
	catalog *statemachine.Catalog
	log     *slog.Logger
	metrics *metrics
	health  *health
	letters *letterbox
	lanes   []*lane

	disarmer *disarmer

	starts  *gate            // starts in hand
	lines   *lines           // of starts
	effects map[string]*gate // effects in hand, by type
	others  *gate            // signals, events and due timers in hand

	permits       permits
	inlineRunning atomic.Int64
	suspects      chan struct{}   // taken by the one handler at which workers may die that is called now
	originals     originals       // of forks
	pass          sweepPass       // of the sweeper's goroutine
	looked        time.Time       // likewise: when it looked whether Redis lost runs
	stop          chan struct{}   // closed when a stop begins
	work          context.Context // ends when what is in hand is given up
	handlers      context.Context // ends when handlers are cancelled
}

// New returns a worker for a catalogue.
func New(cfg Config, catalog *statemachine.Catalog, ports Ports) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.validate(), catalog.Check()); err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, ports: ports, catalog: catalog,
		log:     cfg.Logger.With(logkey.Component, "worker"),
		metrics: newMetrics(cfg.Registry, catalog), health: newHealth(cfg.Ready),
		starts: newGate(cfg.InFlight), lines: newLines(), others: newGate(cfg.InFlight), effects: map[string]*gate{},
		stop: make(chan struct{}), suspects: make(chan struct{}, 1),
	}
	w.letters = newLetterbox(cfg.beat(), w.metrics.letterbox)
	w.permits = permits{wake: make(chan struct{}, 1), count: w.metrics.permits}
	for _, e := range catalog.Effects() {
		n, ok := cfg.QueuedOf[e]
		if !ok {
			n = cfg.QueuedMax
		}
		if l, ok := cfg.Limits[e]; ok {
			n = min(n, inHand(l))
		}
		w.effects[e] = newGate(n)
	}
	w.disarmer = newDisarmer(w)
	for range cfg.Lanes {
		w.lanes = append(w.lanes, newLane(w))
	}
	return w, nil
}

// Run works until ctx ends, then stops in stages: it stops pulling; lets
// handlers finish, recording their results and handing what they ask next to
// the fleet; at StopTimeout cancels them, which is no attempt; gives the rest
// back at once. It returns nil on an orderly end, and only after everything
// it started has, but for handlers that ignore their context.
func (w *Worker) Run(ctx context.Context) error {
	base := context.WithoutCancel(ctx)
	work, giveUp := context.WithCancel(base)
	handlers, interrupt := context.WithCancelCause(base)
	defer giveUp()
	defer interrupt(errStopping)
	w.work, w.handlers = work, handlers

	if err := w.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	w.cfg.Started()
	var lanes, duties sync.WaitGroup
	for _, l := range w.lanes {
		lanes.Go(func() { l.run(work, w.stop) })
	}
	for _, c := range w.consumers() {
		duties.Go(func() { w.puller(ctx, c) })
	}
	duties.Go(func() { w.intake(ctx) })
	duties.Go(func() { w.deal(ctx) })
	for _, l := range w.lines.all {
		duties.Go(func() { w.watch(ctx, l) })
	}
	duties.Go(func() { w.sweeper(ctx) })
	healing, endHeal := context.WithCancel(work)
	healer := sync.WaitGroup{}
	healer.Go(func() { w.heal(healing) })
	healer.Go(func() { w.keepPermits(healing) })
	disarming := sync.WaitGroup{}
	disarming.Go(func() { w.disarmer.run(healing) })
	w.log.Info("worker started", logkey.Worker, w.cfg.ID)

	<-ctx.Done()
	w.log.Info("worker stopping", logkey.Running, w.inlineRunning.Load())
	duties.Wait()
	close(w.stop)
	done := make(chan struct{})
	go func() { lanes.Wait(); close(done) }()
	stages := []struct {
		wait time.Duration
		then func()
	}{
		{w.cfg.StopTimeout, func() { interrupt(errStopping) }},
		{hungAfter + time.Second, giveUp},
		{w.cfg.AckWait, func() {}},
	}
	for _, st := range stages {
		t := time.NewTimer(st.wait)
		select {
		case <-done:
			t.Stop()
		case <-t.C:
			st.then()
			continue
		}
		break
	}
	late := time.AfterFunc(time.Second, endHeal) // what is left then is the sweeper's
	w.disarmer.close()
	disarming.Wait()
	late.Stop()
	endHeal()
	healer.Wait()
	w.log.Info("worker stopped", logkey.Worker, w.cfg.ID)
	return nil
}

// stopping reports whether a stop has begun.
func (w *Worker) stopping() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// register makes the catalogue's definitions known to the fleet, however long
// the registry is away. One name and version stands for one definition:
// another one is refused.
func (w *Worker) register(ctx context.Context) error {
	var errs []error
	for _, d := range w.catalog.Definitions() {
		hash := ""
		err := backoff.Retry(func() (err error) {
			if hash, err = w.ports.Machines.Register(ctx, d.Name, d.Version, d.Hash); err != nil {
				w.trouble(onNATS, fmt.Errorf("register machine %s version %d: %w", d.Name, d.Version, err))
			}
			return err
		}, backoff.WithContext(w.cfg.Retry.series(), ctx))
		if err != nil {
			return err
		}
		if hash != d.Hash {
			errs = append(errs, fmt.Errorf("machine %s version %d differs from the one the fleet runs (%s, registered %s): give it a new version", d.Name, d.Version, d.Hash, hash))
		}
	}
	return errors.Join(errs...)
}

// consumer is a queue to pull from, with what bounds it.
type consumer struct {
	name   string
	gate   *gate
	effect string // its type, if it is one of effects
}

// consumerDue delivers what was scheduled.
const consumerDue = "due"

// consumers are the queues that are pulled from by themselves; starts have turns.
func (w *Worker) consumers() []consumer {
	all := []consumer{{"signal", w.others, ""}, {"result", w.others, ""}, {"event", w.others, ""}, {consumerDue, w.others, ""}}
	for _, e := range w.catalog.Effects() {
		all = append(all, consumer{"effect-" + strings.ReplaceAll(e, ".", "+"), w.effects[e], e})
	}
	return all
}

// puller fetches from one queue and hands the messages to the lanes.
func (w *Worker) puller(ctx context.Context, c consumer) {
	defer w.giveBack(c)
	for w.pulls(ctx, c) {
		n := c.gate.take(ctx, w.cfg.Batch)
		if n == 0 {
			return
		}
		messages := w.fetch(ctx, c.name, n, 2*time.Second)
		c.gate.put(n - len(messages))
		if c.name == consumerDue {
			messages = w.toQueues(c, messages)
		}
		if !w.handAll(ctx, c.gate, messages) {
			return
		}
	}
}

// giveBack ends the pull that is open and returns what it has brought.
func (w *Worker) giveBack(c consumer) {
	over, cancel := context.WithCancel(w.work)
	cancel()
	for {
		messages, _ := w.ports.Source.Fetch(over, c.name, w.cfg.Batch, 0)
		if len(messages) == 0 {
			return
		}
		for _, m := range messages {
			_ = m.Nak(0)
		}
	}
}

// hand gives a message to its lane; false if a stop began.
func (w *Worker) hand(ctx context.Context, g *gate, m queue.Message) bool {
	h, err := admit(m)
	h.gate = g
	if err != nil {
		if w.deadLetter(w.work, m, err) {
			_ = m.Ack()
		} else {
			_ = m.Nak(max(w.cfg.beat(), w.letters.wait()))
		}
		g.put(1)
		return true
	}
	w.metrics.held.Inc()
	select {
	case w.lane(m.Run).in <- item{run: m.Run, held: h}:
		return true
	case <-ctx.Done():
		w.metrics.held.Dec()
		return false
	}
}

// tried reports whether f came back without a panic.
func (w *Worker) tried(f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			w.metrics.panics.Inc()
			w.log.Error("a lane panicked", logkey.Cause, fmt.Sprint(v), logkey.Stack, string(debug.Stack()))
			ok = false
		}
	}()
	f()
	return true
}

// ack acks a message that is done with.
func (w *Worker) ack(h *held) {
	if err := h.m.Ack(); err != nil {
		w.log.Debug("could not ack", logkey.Run, h.m.Run, logkey.Error, err)
	}
}

// settled notes that a message is out of hand.
func (w *Worker) settled(h *held) {
	w.metrics.held.Dec()
	h.gate.put(1)
}

// lane returns the lane that a run belongs to in this worker.
func (w *Worker) lane(run string) *lane {
	h := fnv.New32a()
	_, _ = h.Write([]byte(run))
	return w.lanes[int(h.Sum32()%uint32(len(w.lanes)))]
}

func (w *Worker) claim(run, effect string) Claim {
	return Claim{Run: run, Effect: effect, Owner: w.cfg.ID, Lease: w.cfg.lease()}
}

// messageOf is the text of an error, bounded, for people. Its class is said
// beside it, so it is not said again.
func messageOf(err error) string {
	s := strings.TrimPrefix(err.Error(), statemachine.ClassOf(err)+": ")
	if len(s) > statemachine.MaxMessage {
		s = strings.ToValidUTF8(s[:statemachine.MaxMessage-3], "") + "…"
	}
	return s
}

func names(slots []*slot) []string {
	out := make([]string, len(slots))
	for i, s := range slots {
		out[i] = s.run
	}
	return out
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}
