package pawl_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/redisstore"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// append1000 appends the first records of 1,000 runs: half of them wait, half
// have ended. So a fleet of any size is there without running it.
func (f *fleet) append1000(from int) {
	f.t.Helper()
	batch := make([]worker.Append, 1000)
	for i := range batch {
		n, now := from+i, time.Now().UTC()
		r := &statemachine.Record{
			V: statemachine.FormatVersion, Run: fmt.Sprintf("order-%07d", n), Machine: fmt.Sprintf("shop%d", n%5), Version: 1, Def: "def",
			Rev: 1, At: now, Started: now.Add(-time.Minute), Input: "print", Data: []byte(`{"text":"` + strings.Repeat("x", 480) + `"}`),
			Events: []statemachine.Event{{ID: "start", Kind: statemachine.EventStart, At: now}},
			To:     fmt.Sprintf("step%d", n/2%8), Status: statemachine.StatusRunning,
			Index: map[string]string{"region": []string{"eu", "us"}[n%10/9], "site": fmt.Sprint(n / 7 % 500)},
		}
		switch {
		case n%500 == 1:
			r.To, r.Status, r.Cause = "broken", statemachine.StatusFailed, &statemachine.Cause{Class: "boom", Message: "it broke"}
		case n%2 == 1:
			r.To, r.Status = "done", statemachine.StatusSucceeded
		}
		r.Frames = []statemachine.Frame{{Kind: statemachine.FrameRoot, State: r.To, Visit: 1}}
		b, err := statemachine.Encode(r)
		if err != nil {
			f.t.Fatalf("encode: %v", err)
		}
		batch[i] = worker.Append{Record: r, Bytes: b}
	}
	for i, a := range f.queue.Log.Append(f.t.Context(), batch) {
		if a.Err != nil || a.Seq == 0 {
			f.t.Fatalf("append %s: %+v", batch[i].Record.Run, a)
		}
	}
}

// crowdedFleet is a fleet of so many runs on a nats-server and, where there is
// one, a redis-server, and its index as an onlooker sees it.
func crowdedFleet(tb testing.TB, runs int) (*fleet, redis.UniversalClient, *redisstore.Store) {
	tb.Helper()
	url := natstest.One(tb).URL()
	server, addr := redisServer(tb)
	f := join(tb, url, true)
	f.env = map[string]string{"PAWL_NATS_URL": url, "PAWL_REDIS_ADDR": addr, "PAWL_WORKER_SWEEP_EVERY": "10m"}
	for from := 0; from < runs; from += 1000 {
		f.append1000(from)
	}
	incarnation, err := f.queue.CurrentIncarnation(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	client := server.Client(tb)
	store, err := redisstore.Open(tb.Context(), client, redisstore.Options{Incarnation: incarnation, Timeout: time.Minute})
	if err != nil {
		tb.Fatal(err)
	}
	return f, client, store
}

// complete waits until lists are complete, and holds that what they say of it
// only grows meanwhile.
func complete(tb testing.TB, store *redisstore.Store) {
	tb.Helper()
	last := 0.0
	eventually(tb, 2*time.Minute, "complete lists", func() bool {
		l, err := store.List(tb.Context(), api.Filter{Limit: 1})
		if err != nil {
			tb.Fatal(err)
		}
		if l.Rebuilt < last || l.Complete != (l.Rebuilt == 1) {
			tb.Errorf("rebuilt went from %v to %v, complete %v", last, l.Rebuilt, l.Complete)
		}
		last = l.Rebuilt
		return l.Complete
	})
}

// compare holds lists, over all their pages, and counts against HISTORY.
func compare(f *fleet, store *redisstore.Store) {
	f.t.Helper()
	all := f.lastOf(f.t.Context())
	for _, filter := range []api.Filter{
		{}, {Status: statemachine.StatusFailed}, {State: "step3"}, {Machine: "shop2", Status: statemachine.StatusSucceeded},
		{Where: map[string]string{"site": "77"}}, {Where: map[string]string{"region": "us"}, Status: statemachine.StatusRunning},
	} {
		var want, got []string
		for _, r := range all {
			if filter.Matches(r.Record) {
				want = append(want, r.Run)
			}
		}
		filter.Limit = 1000
		for {
			l, err := store.List(f.t.Context(), filter)
			if err != nil {
				f.t.Fatal(err)
			}
			for _, r := range l.Runs {
				got = append(got, r.ID)
				if cause := all[r.ID].Cause; (r.Error == nil) != (cause == nil) {
					f.t.Errorf("the row of %s has error %v, its record %v", r.ID, r.Error, cause)
				}
			}
			if filter.Cursor = l.Next; l.Next == "" {
				break
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			f.t.Errorf("%+v lists %d runs, HISTORY has %d", filter, len(got), len(want))
		}
	}
	counts, err := store.Counts(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	n := 0
	for _, c := range counts {
		n += c.Runs
	}
	if n != len(all) {
		f.t.Errorf("%d runs are counted, HISTORY has %d", n, len(all))
	}
}

var rewrote = regexp.MustCompile(`Redis had lost.*count=(\d+)|"Redis had lost".*"count":(\d+)|Redis had lost.*"count":(\d+)`)

// rebuilt is how many runs a worker said it wrote again.
func (p *process) rebuilt() int {
	sum := 0
	for _, m := range rewrote.FindAllStringSubmatch(p.log.String(), -1) {
		n, _ := strconv.Atoi(cmp.Or(m[1:]...))
		sum += n
	}
	return sum
}

// TestListsAfterTheLossOfRedis empties Redis under two workers: lists say that
// they are incomplete, the workers divide the runs, and lists are then right.
func TestListsAfterTheLossOfRedis(t *testing.T) {
	t.Parallel()
	const runs = 5000
	f, client, store := crowdedFleet(t, runs)
	workers := []*process{startProcess(t, f.env), startProcess(t, f.env)}
	complete(t, store)
	compare(f, store)

	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	complete(t, store)
	compare(f, store)

	// An index that is lost alone, its runs are still there.
	if err := client.Del(t.Context(), client.Keys(t.Context(), "*:index*").Val()[:8]...).Err(); err != nil {
		t.Fatal(err)
	}
	complete(t, store)
	compare(f, store)
	for _, w := range workers {
		w.stop()
	}
	// Three losses, the last of half of the indexes; and what one of the
	// workers did not get done within its lease.
	if a, b := workers[0].rebuilt(), workers[1].rebuilt(); a+b < 2*runs || a+b > 4*runs {
		t.Errorf("the workers wrote %d and %d runs, there are %d", a, b, runs)
	}
}

// BenchmarkRebuild empties Redis under two workers, with 100,000 runs.
//
//	go test -run '^$' -bench Rebuild -benchtime 1x .
func BenchmarkRebuild(b *testing.B) {
	const runs = 100_000
	f, client, store := crowdedFleet(b, runs)
	for _, n := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			var workers []*process
			for range n {
				workers = append(workers, startProcess(b, f.env))
			}
			complete(b, store)
			for b.Loop() {
				if err := client.FlushAll(b.Context()).Err(); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				eventually(b, time.Minute, "the first run", func() bool { c, err := store.Completeness(b.Context()); return err == nil && c > 0 })
				b.ReportMetric(time.Since(began).Seconds(), "s/noticed")
				complete(b, store)
				b.ReportMetric(time.Since(began).Seconds(), "s/complete")
				b.ReportMetric(runs/time.Since(began).Seconds(), "runs/s")
			}
			// All in, with the first time and the start.
			cpu := time.Duration(0)
			for _, w := range workers {
				w.stop()
				cpu += w.cmd.ProcessState.UserTime() + w.cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(cpu.Microseconds())/float64((b.N+1)*runs), "worker-cpu-µs/run")
		})
	}
}
