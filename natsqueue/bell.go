package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

var (
	_ api.Bell    = (*Log)(nil)
	_ api.Letters = (*Letters)(nil)
)

// Bell implements api.Bell. Records are published like any message, so who
// listens to the subject of a run hears of each when it is sent to the stream.
// It costs the broker a subscription, and nothing while the run rests.
func (g *Log) Bell(run string, f func(statemachine.Status)) (silence func(), err error) {
	sub, err := g.nc.Subscribe(g.subj.history(run), func(m *nats.Msg) {
		// What is not plain text there is no status.
		f(statemachine.Status(m.Header.Get(headerStatus)))
	})
	if err != nil {
		return nil, fmt.Errorf("listen to run %s: %w", quoted(run), err)
	}
	if err := g.deaf(); err != nil {
		return nil, errors.Join(fmt.Errorf("listen to run %s: %w", quoted(run), err), sub.Unsubscribe())
	}
	// It ends with the connection, if it cannot end before.
	return func() { _ = sub.Unsubscribe() }, nil
}

// deaf is why nobody here may listen to records. Who may not is told so by the
// connection, after the fact. One answer is enough, since it is so for all
// runs; while none came, as when the connection is down, it is asked for again.
func (g *Log) deaf() error {
	// Who finds somebody at it does not wait: a bell that never rings costs time only.
	if g.heard.Load() == nil && g.listen.TryLock() {
		defer g.listen.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), g.opts.Quiet)
		defer cancel()
		if g.nc.IsConnected() && g.nc.FlushWithContext(ctx) == nil {
			h := &hearing{}
			complaint := g.nc.LastError()
			if errors.Is(complaint, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(complaint.Error()), strings.ToLower(`subscription to "`+g.subj.prefix+".history.")) {
				h.denied = complaint
			}
			g.heard.Store(h)
		}
	}
	if h := g.heard.Load(); h != nil {
		return h.denied
	}
	return nil
}

// hearing says whether records may be listened to.
type hearing struct{ denied error }

// OfStart implements api.Letters. A letter and its entry in the index of all
// letters are stored together, the letter first, so the entry tells where the
// letter is.
func (b *Letters) OfStart(ctx context.Context, machine string, message uint64) (deadletter.Letter, bool, error) {
	none := deadletter.Letter{}
	subject := b.subj.start(machine)
	incarnation, err := b.incarnation(ctx, streamStart)
	if err != nil {
		return none, false, fmt.Errorf("letter of start %d: %w", message, err)
	}
	id := incarnation + "-" + queue.LetterID(queue.Start, message)
	entry, err := b.lead(ctx, streamDLQ, map[string]any{"last_by_subj": b.subj.letterIndex(hashToken(id))})
	if err != nil {
		return none, false, fmt.Errorf("letter of start %d: %w", message, err)
	}
	if entry == nil || entry.seq < 2 {
		return none, false, nil
	}
	l, ok, err := b.Get(ctx, entry.seq-1)
	if !ok || l.Source != subject || l.SrcSeq != message { // removed since
		return none, false, err
	}
	return l, true, err
}
