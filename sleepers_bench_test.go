package pawl_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/statemachine"
)

// BenchmarkSleepers has runs sleep until the same moment, some minutes later, and
// measures what they cost while they do, and how late they go on: 100,000 of them
// with
//
//	go test -run '^$' -bench Sleepers -benchtime 100000x .
//
// It fails if one wakes before its time by the broker's clock, or never.
func BenchmarkSleepers(b *testing.B) {
	const (
		aSecond = 1000 // starts, so that a worker begins each at once
		look    = 30 * time.Second
	)
	f := realServers(b)
	f.env["PAWL_WORKER_ACK_WAIT"], f.env["PAWL_WORKER_EFFECT_ACK_WAIT"], f.env["PAWL_WORKER_SWEEP_EVERY"] = "10s", "30s", "10m" // as usual
	p := startProcess(b, f.env)
	f.pulls(1)
	db := redis.NewClient(&redis.Options{Addr: f.redis})
	defer func() { _ = db.Close() }()
	memory := used(b, db)

	wake := time.Now().Add(time.Duration(b.N)*time.Second/aSecond + look + 15*time.Second + time.Duration(b.N)*time.Millisecond/2)
	for pace, i := time.NewTicker(10*time.Millisecond), 0; i < b.N; i++ {
		if i%(aSecond/100) == 0 {
			<-pace.C
		}
		m := nats.NewMsg("pawl.start.kitchensink")
		m.Header.Set("Pawl-Run-Id", fmt.Sprint("s", i))
		m.Data = fmt.Appendf(nil, `{"steps":[{"sleep":%q}]}`, time.Until(wake))
		if _, err := f.js.PublishMsgAsync(m); err != nil {
			b.Fatal(err)
		}
	}
	eventually(b, 2*time.Minute, "runs that sleep", func() bool {
		return f.holds("PAWL_TIMERS") == uint64(b.N) && f.holds("PAWL_START") == 0
	})
	idle := time.Until(wake)
	if idle < look {
		b.Fatalf("the runs were asleep %s before they had to wake: the machine is too slow, or too busy", idle)
	}
	before := processorTime(b, p.cmd.Process.Pid)
	<-time.After(look)
	b.ReportMetric((processorTime(b, p.cmd.Process.Pid)-before)/look.Seconds()*100, "%cpu-worker")
	b.ReportMetric(float64(used(b, db)-memory)/float64(b.N), "redis-B/run")
	stored := uint64(0)
	for _, name := range []string{"PAWL_HISTORY", "PAWL_TIMERS"} {
		s, err := f.js.Stream(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		stored += s.CachedInfo().State.Bytes
	}
	b.ReportMetric(float64(stored)/float64(b.N), "nats-B/run")

	eventually(b, time.Until(wake)+5*time.Minute, "runs that are awake", func() bool { return f.holds("PAWL_FINISHED") == uint64(b.N) })
	fired, awake, within := f.wakes()
	if len(awake) != b.N {
		b.Errorf("%d of %d runs went on, once each", len(awake), b.N)
	}
	if fired[0] < 0 {
		b.Errorf("one was woken %s before its time", -fired[0])
	}
	b.ReportMetric(within.Seconds(), "s-all-due")
	for q, share := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
		at := min(len(awake)-1, int(share*float64(len(awake))))
		b.ReportMetric(fired[at].Seconds(), "s-fired-"+q)
		b.ReportMetric(awake[at].Seconds(), "s-late-"+q)
	}
}

// wakes tells how long after they were due runs of one sleep were woken, and went
// on, by the broker's clock, sorted; and within which time all were due.
func (f *fleet) wakes() (fired, awake []time.Duration, within time.Duration) {
	f.t.Helper()
	consumer, err := f.js.OrderedConsumer(f.t.Context(), "PAWL_HISTORY", jetstream.OrderedConsumerConfig{})
	if err != nil {
		f.t.Fatal(err)
	}
	records, err := consumer.Messages()
	if err != nil {
		f.t.Fatal(err)
	}
	defer records.Stop()
	due := map[string]time.Time{}
	var first, last time.Time
	for range f.holds("PAWL_HISTORY") {
		m, err := records.Next()
		if err != nil {
			f.t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			f.t.Fatal(err)
		}
		r, err := statemachine.Decode(m.Data())
		if err != nil {
			f.t.Fatal(err)
		}
		if r.Rev == 1 {
			at := *r.Waits[0].Due
			due[r.Run] = at
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
			continue
		}
		if r.Rev != 2 || r.Status != statemachine.StatusSucceeded {
			f.t.Errorf("%s: %s", r.Run, describe(&statemachine.Stored{Record: r}))
		}
		fired = append(fired, r.Events[0].At.Sub(due[r.Run]))
		awake = append(awake, meta.Timestamp.Sub(due[r.Run]))
	}
	slices.Sort(fired)
	slices.Sort(awake)
	return fired, awake, last.Sub(first)
}

// used is how many bytes Redis uses.
func used(b *testing.B, db *redis.Client) int64 {
	b.Helper()
	info, err := db.Info(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	n, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
	if err != nil {
		b.Fatalf("what Redis says of its memory: %v", err)
	}
	return n
}

// processorTime is how many seconds of processor time a process has used.
func processorTime(b *testing.B, pid int) float64 {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	return (user + system) / 100 // Linux counts in hundredths
}
