package gauges

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func index(context.Context) (Index, error) {
	return Index{Complete: 0.5, Runs: []Runs{{Machine: "invoice", State: "read", Status: "running", N: 7}}}, nil
}

func queues(context.Context) (Queues, error) {
	return Queues{
		Streams:   []Stream{{Name: "START", Messages: 3, Bytes: 300, MaxMessages: 10, MaxBytes: 1000}, {Name: "HISTORY", Messages: 4, Bytes: 400}},
		Consumers: []Consumer{{Name: "start", Pending: 2, InFlight: 1, Redelivered: 1, Oldest: 1500 * time.Millisecond}, {Name: "due", Pending: 5}},
		Letters:   map[string]int{"start": 2},
	}, nil
}

func gathered(t *testing.T, g *Gauges) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(g)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			all[strings.Join(append([]string{f.GetName()}, labels...), " ")] = m.GetGauge().GetValue()
		}
	}
	return all
}

func TestGaugesShowSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Index: index, Queues: queues})
		if got := gathered(t, g); len(got) != 0 {
			t.Errorf("before the first snapshot: %v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		got := gathered(t, g)
		for name, want := range map[string]float64{
			"pawl_runs invoice read running": 7, "pawl_runs_complete_ratio": 0.5,
			"pawl_consumer_pending start": 2, "pawl_consumer_ack_pending start": 1, "pawl_consumer_redelivered start": 1, "pawl_consumer_oldest_seconds start": 1.5,
			"pawl_consumer_pending due": 5, "pawl_demand": 8, "pawl_letters start": 2,
			"pawl_stream_messages START": 3, "pawl_stream_bytes START": 300, "pawl_stream_limit_messages START": 10, "pawl_stream_limit_bytes START": 1000,
			"pawl_stream_messages HISTORY": 4,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s = %v, %v, want %v", name, v, ok, want)
			}
		}
		if _, ok := got["pawl_stream_limit_bytes HISTORY"]; ok {
			t.Error("a stream without a limit has one")
		}
		reg := prometheus.NewRegistry()
		reg.MustRegister(g)
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", problems, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// However often somebody scrapes, a snapshot is taken once in a while: more
// seldom, the longer it takes.
func TestSnapshotsCostOnePercentAtMost(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		most  int32 // snapshots in an hour
	}{{0, 270}, {100 * time.Millisecond, 270}, {time.Second, 42}, {5 * time.Second, 12}} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int32
			g := New(Options{Queues: queues, Index: func(context.Context) (Index, error) {
				n.Add(1)
				time.Sleep(tt.takes)
				return Index{Complete: 1}, nil
			}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			go func() {
				for range time.Tick(time.Second) {
					if ctx.Err() != nil {
						return
					}
					gathered(t, g)
				}
			}()
			if err := g.Run(ctx); err != nil {
				t.Errorf("Run = %v", err)
			}
			time.Sleep(2 * time.Second) // the scrapes end
			if got := n.Load(); got > tt.most || got < tt.most/2 {
				t.Errorf("%d snapshots of %s in an hour, want at most %d", got, tt.takes, tt.most)
			}
		})
	}
}

// What cannot be renewed is shown for a while, and then not at all; the other
// snapshot does not suffer.
func TestOldSnapshotsAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		g := New(Options{Queues: queues, Index: func(ctx context.Context) (Index, error) {
			if away.Load() {
				<-ctx.Done() // it hangs
				return Index{}, errors.New("away")
			}
			return index(ctx)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		away.Store(true)
		for _, tt := range []struct {
			wait  time.Duration
			shown bool
		}{{20 * time.Second, true}, {time.Hour, false}} {
			time.Sleep(tt.wait)
			got := gathered(t, g)
			if _, ok := got["pawl_runs_complete_ratio"]; ok != tt.shown {
				t.Errorf("after %s the index is shown: %v", tt.wait, ok)
			}
			if _, ok := got["pawl_demand"]; !ok {
				t.Errorf("after %s the queues are not shown", tt.wait)
			}
		}
		cancel()
		<-done
	})
}
