package pawl_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
)

// embeddedFleet runs a whole fleet in this process.
func embeddedFleet(tb testing.TB, change func(*pawl.Config)) *fleet {
	tb.Helper()
	cfg := pawl.Default()
	cfg.DataDir, cfg.NATS.Listen, cfg.Redis.Listen, cfg.HTTP.Addr = tb.TempDir(), "127.0.0.1:0", "127.0.0.1:0", ""
	cfg.Log.Level = 8
	if change != nil {
		change(&cfg)
	}
	p, err := pawl.Open(tb.Context(), cfg, catalog(tb, tb.TempDir()))
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			tb.Errorf("the fleet ended: %v", err)
		}
	})
	<-p.Up()
	return join(tb, p.NATSURL(), false)
}

// BenchmarkTwentyThousandSteps drives one run through 20,000 steps and
// compares the time per step at the end with that at the beginning.
//
//	go test -run '^$' -bench TwentyThousand -benchtime 1x .
func BenchmarkTwentyThousandSteps(b *testing.B) {
	f := embeddedFleet(b, nil)
	for n := range b.N {
		run := fmt.Sprintf("long-%d", n)
		f.start("kitchensink", run, `{"steps":[{"do":"noop","repeat":20000}]}`)
		var last uint64
		for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
			if r := f.last(run); r != nil && r.Status.Ended() {
				last = r.Rev
				break
			}
		}
		if last != 20001 {
			b.Fatalf("the run has %d records, want 20001", last)
		}
		records := f.history(run)
		per := func(from, to int) time.Duration {
			return records[to].Time.Sub(records[from].Time) / time.Duration(to-from)
		}
		first, end := per(500, 2500), per(18000, 20000)
		var quarters []time.Duration
		for i := 0; i < 20000; i += 2000 {
			quarters = append(quarters, per(i, i+2000))
		}
		slices.Sort(quarters)
		b.ReportMetric(float64(first.Microseconds()), "µs/step-first")
		b.ReportMetric(float64(end.Microseconds()), "µs/step-last")
		b.ReportMetric(float64(end)/float64(first), "last/first")
		b.ReportMetric(float64(quarters[len(quarters)-1])/float64(quarters[0]), "slowest/fastest")
	}
}

// BenchmarkEmbeddedRuns drives runs of ten steps through an embedded fleet.
//
//	go test -run '^$' -bench EmbeddedRuns -benchtime 2000x .
func BenchmarkEmbeddedRuns(b *testing.B) {
	for _, place := range []string{"", "queued"} {
		name := place
		if name == "" {
			name = "inline"
		}
		b.Run(name, func(b *testing.B) {
			f := embeddedFleet(b, nil)
			input := fmt.Sprintf(`{"steps":[{"do":"noop","repeat":10,"input":{"pad":"%0100d"},"place":%q}]}`, 0, place)
			b.ResetTimer()
			for i := range b.N {
				m := nats.NewMsg("pawl.start.kitchensink")
				m.Header.Set("Pawl-Run-Id", fmt.Sprintf("r%d", i))
				m.Data = []byte(input)
				if _, err := f.js.PublishMsgAsync(m); err != nil {
					b.Fatal(err)
				}
			}
			for {
				s, err := f.js.Stream(b.Context(), "PAWL_HISTORY")
				if err != nil {
					b.Fatal(err)
				}
				if s.CachedInfo().State.Msgs >= uint64(11*b.N) {
					break
				}
				<-time.After(5 * time.Millisecond)
			}
			b.ReportMetric(float64(10*b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}
