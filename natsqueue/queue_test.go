package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// brisk are options that give up on silence sooner than in production.
func brisk() Options {
	return Options{Quiet: 2 * time.Second, Patience: 20 * time.Second}
}

// fleet is a provisioned server and a queue on it.
type fleet struct {
	t  *testing.T
	nc *nats.Conn
	q  *Queue
}

// newFleet provisions by nc and opens a queue on it.
func newFleet(t *testing.T, nc *nats.Conn, topology Topology, opts Options) *fleet {
	t.Helper()
	provisioned(t, nc, topology)
	return &fleet{t: t, nc: nc, q: opened(t, nc, opts)}
}

func provisioned(t *testing.T, nc *nats.Conn, topology Topology) {
	t.Helper()
	if topology.Effects == nil {
		topology.Effects = []string{"http.post", "noop"}
	}
	if _, err := Provision(t.Context(), nc, topology); err != nil {
		t.Fatalf("provision: %v", err)
	}
}

func opened(t *testing.T, nc *nats.Conn, opts Options) *Queue {
	t.Helper()
	q, err := Open(t.Context(), nc, opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil && !nc.IsClosed() {
			t.Errorf("close: %v", err)
		}
	})
	return q
}

// one is a fleet on a server of its own.
func one(t *testing.T) *fleet {
	t.Helper()
	return newFleet(t, natstest.One(t).Conn(), Topology{}, brisk())
}

// replicas runs a test on one node and on a cluster of three.
func replicas(t *testing.T, test func(t *testing.T, f *fleet)) {
	t.Run("one replica", func(t *testing.T) {
		t.Parallel()
		test(t, one(t))
	})
	t.Run("three replicas", func(t *testing.T) {
		t.Parallel()
		test(t, newFleet(t, natstest.Three(t).Conn(), Topology{Replicas: 3}, brisk()))
	})
}

// next makes the append that follows a record of the run; prev is nil for the
// first. What tells two candidates for the same place apart is by.
func next(t testing.TB, run string, prev *statemachine.Stored, by string) worker.Append {
	t.Helper()
	r := &statemachine.Record{
		V: statemachine.FormatVersion, Run: run, Machine: "sink", Version: 1, Rev: 1, By: by,
		Events: []statemachine.Event{{ID: "start", Kind: statemachine.EventStart}},
		To:     "work", Status: statemachine.StatusRunning,
		Frames: []statemachine.Frame{{Kind: statemachine.FrameRoot, State: "work", Visit: 1}},
	}
	if prev != nil {
		r.Rev, r.Prev, r.PrevTxid = prev.Rev+1, prev.Seq, prev.Txid
	}
	b, err := statemachine.Encode(r)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return worker.Append{Record: r, Bytes: b}
}

// append1 appends one record that must be committed.
func (f *fleet) append1(a worker.Append) *statemachine.Stored {
	f.t.Helper()
	out := f.q.Log.Append(f.t.Context(), []worker.Append{a})[0]
	if out.Err != nil || out.Seq == 0 {
		f.t.Fatalf("append run %q: %+v, want committed", a.Record.Run, out)
	}
	return &statemachine.Stored{Record: a.Record, Seq: out.Seq, Bytes: a.Bytes}
}

// look reads a run's last record from the leader.
func (f *fleet) look(run string) *statemachine.Stored {
	f.t.Helper()
	s, err := f.q.Log.Look(f.t.Context(), run)
	if err != nil {
		f.t.Fatalf("look at run %q: %v", run, err)
	}
	return s
}

// oddRuns are ids that break what takes them for subjects, headers or JSON.
var oddRuns = []string{
	"*", ">", "a.b", "a b", " a ", "a", "_", "}", `{"a":1}`, "合同-4412", "a\nb", "a\x00b",
	"a\r\nPawl-Txid: forged", "base64:YQ==", "~YQ", "~~", "$JS.API.>", strings.Repeat("x", 128), strings.Repeat("é", 128),
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	nc := natstest.One(t).Conn()
	_, err := Open(t.Context(), nc, brisk())
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "stream PAWL_HISTORY is missing: run `pawl provision`") {
		t.Fatalf("open without streams: %v", err)
	}
	provisioned(t, nc, Topology{Effects: []string{"noop"}})
	q := opened(t, nc, brisk())
	if err := q.Check(t.Context(), []string{"noop"}); err != nil {
		t.Errorf("check of what is there: %v", err)
	}
	err = q.Check(t.Context(), []string{"noop", "http.post"})
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "consumer effect-http+post of stream PAWL_EFFECTS is missing") {
		t.Errorf("check of a consumer that is missing: %v", err)
	}
	if _, err := q.Source.Fetch(t.Context(), "effect-http+post", 1, 0); !errors.Is(err, ErrMissing) {
		t.Errorf("fetch from a consumer that is missing: %v", err)
	}
}

func TestOpenWaitsForAServer(t *testing.T) {
	t.Parallel()
	n := natstest.One(t)
	nc := n.Conn()
	provisioned(t, nc, Topology{})
	n.Stop()
	late, err := Connect(Config{URL: n.URL(), Name: "late"})
	if err != nil {
		t.Fatalf("connect to nobody: %v", err)
	}
	t.Cleanup(late.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, late, brisk()); !errors.Is(err, worker.ErrUnavailable) {
		t.Fatalf("open without a server: %v", err)
	}
	n.Start()
	q := opened(t, late, brisk())
	if id, err := q.Incarnation(t.Context()); err != nil || len(id) != 16 {
		t.Errorf("incarnation = %q, %v", id, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Prefix: "Pawl"}, {Prefix: "a.b"}, {Prefix: "a b"}, {Group: 7}} {
		if _, err := Open(t.Context(), nil, o); err == nil {
			t.Errorf("Open(%+v) took the options", o)
		}
	}
}

func ExampleQueue() {
	work := func(ctx context.Context, q *Queue) error {
		msgs, err := q.Source.Fetch(ctx, ConsumerStart, 100, 5*time.Second)
		if err != nil {
			return err
		}
		for _, m := range msgs {
			fmt.Println("start", m.Machine, "as", m.Run)
			if err := m.Ack(); err != nil {
				return err
			}
		}
		return nil
	}
	_ = work
}
