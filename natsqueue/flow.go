package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/worker"
)

// Flow is the notices of flow control: a stream with one message for each
// subject that is, or was, held up. That of a closed key goes when it is open.
type Flow struct {
	*link
	board flow.Board
}

var (
	_ worker.Flow = (*Flow)(nil)
	_ api.Flow    = (*Flow)(nil)
)

const (
	flowEvery = 30 * time.Second // between two reads of all notices, lest one was not heard
	flowSoon  = time.Second      // after the first, or one in vain: what was on its way then may be in neither
	flowLag   = 10 * time.Second // a notice heard so long ago is in every replica
	flowHeard = 4096             // notices that wait to be taken in; a read makes up for more
)

// Board implements worker.Flow. It is kept while Watch runs.
func (f *Flow) Board() *flow.Board { return &f.board }

// Post implements worker.Flow: it tells all workers, and returns when the
// notice is stored.
func (f *Flow) Post(ctx context.Context, n flow.Notice) error {
	fail := func(err error) error { return fmt.Errorf("tell of %s: %w", n.Subject(), err) }
	if err := n.Check(); err != nil {
		return fail(err)
	}
	body, err := json.Marshal(n)
	if err != nil {
		return fail(err)
	}
	m := &nats.Msg{Subject: f.subj.flow(n.Subject()), Data: body, Header: nats.Header{}}
	if n.Kind == flow.KindKey { // whole seconds, and a little more than it is closed
		m.Header[headerTTL] = []string{ttl(max(time.Until(n.Until), 0) + 2*time.Second)}
	}
	if err := f.send(ctx, []*nats.Msg{m})[0].err(); err != nil {
		return fail(err)
	}
	f.board.Apply(n)
	return nil
}

// Hold implements api.Flow: what nobody has is no more than a slip of the pen.
// The states of a machine are known to its workers alone.
func (f *Flow) Hold(ctx context.Context, n flow.Notice) error {
	if err := n.Check(); err != nil {
		return err
	}
	if n.Kind != flow.KindState {
		err := f.checkConsumer(ctx, EffectConsumer(n.Effect))
		if errors.Is(err, ErrMissing) {
			return fmt.Errorf("effect type %s: %w", n.Effect, api.ErrNotFound)
		}
		if err != nil {
			return err
		}
		return f.Post(ctx, n)
	}
	m, err := f.lead(ctx, streamMachines, map[string]any{"last_by_subj": f.subj.versions(n.Machine)})
	if err != nil {
		return fmt.Errorf("look up machine %s: %w", n.Machine, err)
	}
	if m == nil {
		return fmt.Errorf("machine %s: %w", n.Machine, api.ErrNotFound)
	}
	return f.Post(ctx, n)
}

// List reads all notices: what is held up, and what was until an operator let
// it go on. Those of closed keys are left out if there are too many of them;
// all tells that none are.
func (f *Flow) List(ctx context.Context) (notices []flow.Notice, all bool, err error) {
	all = true
	for _, subjects := range f.subj.flows() {
		for m, err := range f.lasts(ctx, streamFlow, subjects) {
			if errors.Is(err, errTooMany) {
				all = false
				break
			}
			if err != nil {
				return nil, false, fmt.Errorf("read notices of flow control: %w", err)
			}
			n, err := flow.Parse(m.data)
			if err != nil { // of a build to come, or anybody's
				f.opts.Logger.Warn("a notice of flow control is not understood", "subject", m.subject, "error", err)
				continue
			}
			notices = append(notices, n)
		}
	}
	flow.Sort(notices)
	return notices, all, nil
}

// Sync reads all notices into the board.
func (f *Flow) Sync(ctx context.Context) error {
	notices, all, err := f.List(ctx)
	if err != nil {
		return err
	}
	if all {
		f.board.Replace(notices)
		return nil
	}
	for _, n := range notices {
		f.board.Apply(n)
	}
	return nil
}

// Watch keeps the board until ctx ends. Notices are heard as they are sent to
// the stream, and read from it once in a while and after each reconnection.
func (f *Flow) Watch(ctx context.Context) error {
	heard := make(chan *nats.Msg, flowHeard)
	sub, err := f.nc.ChanSubscribe(f.subj.prefix+".flow.>", heard)
	if err != nil {
		return fmt.Errorf("listen to notices of flow control: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // on a connection that is closed it has ended
	states := f.nc.StatusChanged(nats.CONNECTED)
	defer f.nc.RemoveStatusListener(states)
	again := time.NewTimer(flowSoon)
	defer again.Stop()
	next := flowSoon
	var recent []heardNotice // a replica that is behind may not have them
	for {
		if err := f.Sync(ctx); err != nil && ctx.Err() == nil {
			f.opts.Logger.Warn("notices of flow control not read", "error", err)
			next = flowSoon
		}
		again.Reset(next)
		next = flowEvery
		recent = slices.DeleteFunc(recent, func(h heardNotice) bool { return time.Since(h.at) > flowLag })
		for _, h := range recent {
			f.board.Apply(h.notice)
		}
		for read := false; !read; {
			select {
			case m := <-heard:
				if n, err := flow.Parse(m.Data); err == nil {
					f.board.Apply(n)
					recent = append(recent, heardNotice{n, time.Now()})
				}
				if len(recent) > flowHeard {
					recent = recent[len(recent)-flowHeard:]
				}
			case _, ok := <-states:
				if read, next = ok, flowSoon; !ok {
					states = nil // the connection is closed for good
				}
			case <-again.C:
				read = true
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// heardNotice is a notice, and when it was heard.
type heardNotice struct {
	notice flow.Notice
	at     time.Time
}
