package pawl

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/redisstore"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// TestACopyThatIsLateIsNotCurrent: the copy in Redis is the answer to "run
// show" exactly while it is the run's last record.
func TestACopyThatIsLateIsNotCurrent(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(natstest.One(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := natsqueue.Provision(t.Context(), nc, natsqueue.Topology{}); err != nil {
		t.Fatal(err)
	}
	q, err := natsqueue.Open(t.Context(), nc, natsqueue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		store, err := redisstore.Open(t.Context(), s.Client(t), redisstore.Options{Incarnation: "i"})
		if err != nil {
			t.Fatal(err)
		}
		run, c := t.Name(), copies{store, q.Log}
		if got := c.Current(t.Context(), run); got != nil {
			t.Errorf("of a run that does not exist: %+v", got)
		}
		last := &statemachine.Stored{Record: new(statemachine.Record)}
		for rev := uint64(1); rev <= 3; rev++ {
			now := time.Now().UTC()
			r := &statemachine.Record{
				V: 1, Run: run, Machine: "m", Version: 1, Def: "d", Rev: rev, Prev: last.Seq, PrevTxid: last.Txid, At: now, Started: now, Input: "p", To: "s",
				Status: statemachine.StatusRunning, Frames: []statemachine.Frame{{Kind: statemachine.FrameRoot, State: "s", Visit: 1}},
				Events: []statemachine.Event{{ID: fmt.Sprint("e", rev), Kind: statemachine.EventSignal, Name: "n", At: now}},
			}
			b, err := statemachine.Encode(r)
			if err != nil {
				t.Fatal(err)
			}
			out := q.Log.Append(t.Context(), []worker.Append{{Record: r, Bytes: b}})
			if out[0].Seq == 0 {
				t.Fatalf("append: %+v", out[0])
			}
			last = &statemachine.Stored{Record: r, Seq: out[0].Seq, Bytes: b}
			if got := c.Current(t.Context(), run); got != nil {
				t.Errorf("revision %d is appended, and the copy of revision %d is said to be the last", rev, got.Rev)
			}
			if _, err := store.Save(t.Context(), []worker.Save{{Stored: last}}); err != nil {
				t.Fatal(err)
			}
			if got := c.Current(t.Context(), run); got == nil || got.Rev != rev || got.Txid != r.Txid {
				t.Errorf("revision %d is copied, and the last is said to be %+v", rev, got)
			}
		}
	})
}
