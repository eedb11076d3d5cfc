package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/transitions"
	"github.com/pawlrun/pawl/worker"
)

// standIn carries out runs as a worker would, one after the other, but for what
// a test wants it to do otherwise.
type standIn struct {
	events bool                           // it publishes completion events
	input  func(nth int, b []byte) []byte // changes the input of the nth start
}

// fleet starts a server with the streams of a fleet, and a stand-in for its
// workers.
func fleet(t *testing.T, w standIn) Fleet {
	t.Helper()
	nc := natstest.One(t).Conn()
	if _, err := natsqueue.Provision(t.Context(), nc, natsqueue.Topology{}); err != nil {
		t.Fatal(err)
	}
	q, err := natsqueue.Open(t.Context(), nc, natsqueue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), "PAWL_START", natsqueue.ConsumerStart)
	if err != nil {
		t.Fatal(err)
	}
	starts, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for nth := 0; ; nth++ {
			m, err := starts.Next()
			if err != nil {
				return
			}
			w.carryOut(t, nc, q, m, nth)
		}
	})
	t.Cleanup(func() {
		starts.Stop()
		work.Wait()
		_ = q.Close()
	})
	return Fleet{Conn: nc, Prefix: "pawl", Answers: &api.Answers{Log: q.Log, Blobs: q.Blobs, Letters: q.Letters}}
}

func (w standIn) carryOut(t *testing.T, nc *nats.Conn, q *natsqueue.Queue, m jetstream.Msg, nth int) {
	catalog, err := transitions.Catalog(transitions.Config{})
	if err != nil {
		t.Error(err)
		return
	}
	d, _ := catalog.Definition(machine, 0)
	id, input := m.Headers().Get("Pawl-Run-Id"), m.Data()
	if w.input != nil {
		input = w.input(nth, input)
	}
	var last *statemachine.Stored
	for last == nil || !last.Status.Ended() {
		e := statemachine.Event{Kind: statemachine.EventStart, Body: input}
		if last != nil {
			e = statemachine.Event{Kind: statemachine.EventResult, Effect: last.Pending[0].ID, Body: json.RawMessage(`{}`)}
		}
		fold := d.Begin(id, last, statemachine.Env{Now: time.Now(), Build: "test"})
		if _, err := fold.Apply(e); err != nil {
			t.Error(err)
			return
		}
		sealed, err := fold.Seal()
		if err != nil {
			t.Error(err)
			return
		}
		done := q.Log.Append(context.WithoutCancel(t.Context()), []worker.Append{{Record: sealed.Record, Bytes: sealed.Bytes}})[0]
		if done.Seq == 0 {
			t.Errorf("append: %v", done.Err)
			return
		}
		last = &sealed.Stored
		last.Seq = done.Seq
	}
	if w.events {
		finished := nats.NewMsg("pawl.finished." + machine)
		finished.Header.Set("Pawl-Run-Id", id)
		if err := nc.PublishMsg(finished); err != nil {
			t.Error(err)
		}
	}
	if err := m.Ack(); err != nil {
		t.Error(err)
	}
}

func quiet(string, int, int) {}

func TestRun(t *testing.T) {
	t.Parallel()
	f := fleet(t, standIn{events: true})
	r, err := Run(t.Context(), f, Load{Runs: 20, Steps: 3, InFlight: 4, Pad: 10, Warmup: 2}, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r.Fault() != nil || r.RecordsPerRun != 4 || r.Errors != 0 || r.Letters != 0 || r.Looked != 0 {
		t.Errorf("report = %+v, %v", r, r.Fault())
	}
	if r.StepsPerSecond <= 0 || r.RunP50 <= 0 || r.RunP99 < r.RunP50 || r.StepP50 <= 0 || r.StepP99 < r.StepP50 {
		t.Errorf("times = %+v", r)
	}
}

// A fleet that makes fewer records than steps, one that loses a run's way, and
// one whose events are lost are all told.
func TestFaultsAreTold(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(int, []byte) []byte
		says   string
	}{
		"too few records": {func(nth int, b []byte) []byte {
			if nth == 5 {
				b = bytes.Replace(b, []byte(`"repeat":3`), []byte(`"repeat":2`), 1)
			}
			return b
		}, "1 of 8 runs have not 4 records: bench-"},
		"a run that fails": {func(nth int, b []byte) []byte {
			if nth == 5 {
				b = []byte(`{"steps":[{"do":"noop","repeat":3},{"fail":"so"}]}`)
			}
			return b
		}, "1 of 8 runs did not succeed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, standIn{events: true, input: tt.change})
			r, err := Run(t.Context(), f, Load{Runs: 8, Steps: 3, InFlight: 8}, nil, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if r.Fault() == nil || !strings.Contains(r.Fault().Error(), tt.says) {
				t.Errorf("fault = %v, want %q", r.Fault(), tt.says)
			}
		})
	}
}

// Workers whose completion events are lost.
func TestEndsThatNobodyTellsOfAreFound(t *testing.T) {
	t.Parallel()
	f := fleet(t, standIn{})
	r, err := Run(t.Context(), f, Load{Runs: 3, Steps: 1, InFlight: 3}, nil, quiet)
	if err != nil || r.Fault() != nil || r.Looked != 3 {
		t.Errorf("report = %+v, %v", r, err)
	}
}

func TestStartsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := fleet(t, standIn{})
	js, err := jetstream.New(f.Conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "PAWL_START")
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxMsgSize = 10
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), f, Load{Runs: 3, Steps: 1, InFlight: 1}, nil, quiet)
	if err != nil || r.Errors != 3 || !strings.Contains(r.Fault().Error(), "message size exceeds maximum allowed") {
		t.Errorf("report = %+v, %v", r, err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := (Load{Runs: 1, Steps: 1, InFlight: 1}).Check(); err != nil {
		t.Error(err)
	}
	err := Load{Warmup: -1, Pad: 1 << 20}.Check()
	if err == nil || strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("check = %v", err)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("CPU times are only read on Linux")
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if pid, err := Listener(l.Addr().String()); err != nil || pid != os.Getpid() {
		t.Errorf("listener = %d, %v, want %d", pid, err, os.Getpid())
	}
	if _, err := Listener("192.0.2.1:4222"); err == nil || !strings.Contains(err.Error(), "is not this machine") {
		t.Errorf("listener elsewhere = %v", err)
	}
	before, err := cpu(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "this process to use some time", func() bool {
		for range 10_000_000 {
			_ = errors.New("busy")
		}
		now, err := cpu(os.Getpid())
		return err == nil && now > before
	})
	if machineCPU() < before {
		t.Error("the machine was less busy than this process")
	}
	if all := merged([]Process{{"a", 1}, {"b", 2}, {"c", 1}, {"a", 1}}); len(all) != 2 || all[0].Name != "a+c" {
		t.Errorf("merged = %v", all)
	}
}
