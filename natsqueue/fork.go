package natsqueue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Forker begins forks.
type Forker struct{ queue *Queue }

var _ api.Forker = Forker{}

// Forker is where forks begin.
func (q *Queue) Forker() Forker { return Forker{q} }

// Put implements api.Forker.
func (f Forker) Put(ctx context.Context, run string, blobs map[string][]byte) error {
	return f.queue.Blobs.Put(ctx, run, blobs)
}

// Fork publishes what begins a fork: on EVENTS, like a command, so nobody who
// may only start runs can begin one in any state.
func (f Forker) Fork(ctx context.Context, run, id string, k *statemachine.Fork) error {
	s, what := f.queue.Sender, "fork run "+quoted(run)
	h := nats.Header{headerEvent: {id}, headerName: {string(statemachine.EventFork)}}
	err := first(queue.CheckRun(run), checkID("request id", id, mostID), inHeader("request id", id), runHeader(h, run))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	body, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	_, err = s.tell(ctx, what, streamEvents, &nats.Msg{Subject: s.subj.event(run), Header: h, Data: body})
	return err
}
