package natsqueue

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// benchQueue is a queue on a server of its own, over the loopback.
func benchQueue(b *testing.B, opts Options, change ...func(*server.Options)) *Queue {
	b.Helper()
	nc := natstest.One(b, change...).Conn()
	if _, err := Provision(b.Context(), nc, Topology{Effects: []string{"http.post"}}); err != nil {
		b.Fatal(err)
	}
	q, err := Open(b.Context(), nc, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = q.Close() })
	return q
}

// BenchmarkAppend appends records of about 800 bytes in batches, by as many
// lanes as it says. One operation is one batch by every lane.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []struct {
		name   string
		change []func(*server.Options)
	}{{"always", []func(*server.Options){natstest.Synced}}, {"default", []func(*server.Options){natstest.Inside}}} {
		for _, group := range []struct {
			name string
			how  Group
		}{{"single", GroupNever}, {"group", GroupAlways}} {
			for _, size := range []int{1, 2, 4, 8, 16, 50, 200} {
				for _, lanes := range []int{1, 4} {
					if size == 1 && group.how == GroupAlways || lanes > 1 && size != 200 && size != 50 {
						continue
					}
					name := fmt.Sprintf("sync=%s/%s/batch=%d/lanes=%d", sync.name, group.name, size, lanes)
					b.Run(name, func(b *testing.B) {
						benchAppend(b, benchQueue(b, Options{Group: group.how}, sync.change...), size, lanes)
					})
				}
			}
		}
	}
}

func benchAppend(b *testing.B, q *Queue, size, lanes int) {
	pad := strings.Repeat("x", 400) // 800 bytes with the rest
	type lane struct {
		appends []worker.Append
		last    []*statemachine.Stored
	}
	all := make([]lane, lanes)
	step := func(l *lane, n int) {
		out := q.Log.Append(b.Context(), l.appends[:n])
		for i, o := range out {
			if o.Seq == 0 {
				b.Errorf("append: %+v", o)
				return
			}
			l.last[i] = &statemachine.Stored{Record: l.appends[i].Record, Seq: o.Seq}
		}
	}
	for k := range all {
		for i := range size {
			all[k].appends = append(all[k].appends, next(b, fmt.Sprintf("run-%d-%d", k, i), nil, pad))
		}
		all[k].last = make([]*statemachine.Stored, size)
		step(&all[k], size)
	}
	b.ReportMetric(float64(len(all[0].appends[0].Bytes)), "bytes/record")
	b.ResetTimer()
	var wg sync.WaitGroup
	for k := range all {
		wg.Go(func() {
			l := &all[k]
			for range b.N {
				for i := range size {
					// The same bytes with another place: what a record costs to
					// make is not measured.
					r := *l.last[i].Record
					r.Prev, r.Rev = l.last[i].Seq, r.Rev+1
					l.appends[i] = worker.Append{Record: &r, Bytes: l.appends[i].Bytes}
				}
				step(l, size)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N*size*lanes)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkOfManyRuns reads one run of 200,000, as "run show" and "history" do.
//
//	go test -run '^$' -bench OfManyRuns -benchtime 2000x ./natsqueue
func BenchmarkOfManyRuns(b *testing.B) {
	const runs, revisions = 200_000, 11
	q := benchQueue(b, Options{}, natstest.Inside)
	pad := strings.Repeat("x", 400)
	name := func(i int) string { return fmt.Sprintf("run-%07d", i) }
	last := make([]*statemachine.Stored, 0, 1000)
	for from := 0; from < runs; from += cap(last) {
		// Of every 1,000th run a history, of the others a record.
		last = last[:0]
		for rev := range revisions {
			n := cap(last)
			if rev > 0 {
				n = 1
			}
			appends := make([]worker.Append, n)
			for i := range appends {
				var prev *statemachine.Stored
				if rev > 0 {
					prev = last[i]
				}
				appends[i] = next(b, name(from+i), prev, pad)
			}
			for i, o := range q.Log.Append(b.Context(), appends) {
				if o.Seq == 0 {
					b.Fatalf("append: %+v", o)
				}
				st := &statemachine.Stored{Record: appends[i].Record, Seq: o.Seq}
				if rev == 0 {
					last = append(last, st)
				} else {
					last[i] = st
				}
			}
		}
	}
	slowest := func(b *testing.B, read func(n int)) {
		took := make([]time.Duration, 0, b.N)
		for n := range b.N {
			began := time.Now()
			read(n)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		for name, d := range map[string]time.Duration{"p50": took[len(took)/2], "p99": took[len(took)*99/100], "max": took[len(took)-1]} {
			b.ReportMetric(float64(d.Microseconds())/1000, name+"-ms")
		}
	}
	b.Run("look", func(b *testing.B) {
		slowest(b, func(n int) {
			if r, err := q.Log.Look(b.Context(), name(n*7919%runs)); err != nil || r == nil {
				b.Fatal(r, err)
			}
		})
	})
	b.Run("records", func(b *testing.B) {
		slowest(b, func(n int) {
			if r, err := q.Log.Records(b.Context(), name(n*7919%runs)); err != nil || r == 0 {
				b.Fatal(r, err)
			}
		})
	})
	b.Run("look/none", func(b *testing.B) {
		slowest(b, func(n int) {
			if r, err := q.Log.Look(b.Context(), fmt.Sprint("none-", n)); err != nil || r != nil {
				b.Fatal(r, err)
			}
		})
	})
	b.Run("history", func(b *testing.B) {
		slowest(b, func(n int) {
			records := 0
			for _, err := range q.Log.Read(b.Context(), name(n*1000%runs), 0) {
				if err != nil {
					b.Fatal(err)
				}
				records++
			}
			if records != revisions {
				b.Fatalf("%d records, want %d", records, revisions)
			}
		})
	})
	b.Run("sweep", func(b *testing.B) {
		slowest(b, func(n int) {
			for _, err := range q.Log.Sweep(b.Context(), n%queue.Partitions) {
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkPublish publishes outboxes of 200 effects. One operation is one.
func BenchmarkPublish(b *testing.B) {
	for _, bench := range []struct {
		name   string
		group  Group
		change []func(*server.Options)
	}{
		{"sync=always/single", GroupNever, []func(*server.Options){natstest.Synced}},
		{"sync=always/group", GroupAlways, []func(*server.Options){natstest.Synced}},
		{"sync=default/single", GroupNever, []func(*server.Options){natstest.Inside}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			q := benchQueue(b, Options{Group: bench.group}, bench.change...)
			items := make([]outbox.Item, 200)
			b.ResetTimer()
			for n := range b.N {
				for i := range items {
					items[i] = effectItem(fmt.Sprintf("run-%d-%d", n, i), "EffectIdOf22Characters", 1)
				}
				for _, err := range q.Publisher.Publish(b.Context(), items) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N*len(items))/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkFetch fetches and acks effects in batches of 200. One operation is
// one message.
func BenchmarkFetch(b *testing.B) {
	q := benchQueue(b, Options{}, natstest.Inside)
	items := make([]outbox.Item, 0, 1000)
	for first := 0; first < b.N; first += len(items) {
		items = items[:0]
		for i := range min(1000, b.N-first) {
			items = append(items, effectItem(fmt.Sprint("run-", first+i), "EffectIdOf22Characters", 1))
		}
		for _, err := range q.Publisher.Publish(b.Context(), items) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ResetTimer()
	for got := 0; got < b.N; {
		msgs, err := q.Source.Fetch(b.Context(), EffectConsumer("http.post"), 200, 0)
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range msgs {
			if err := m.Ack(); err != nil {
				b.Fatal(err)
			}
		}
		got += len(msgs)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkLast reads last records in bulk.
func BenchmarkLast(b *testing.B) {
	for _, size := range []int{1, 200} {
		b.Run(fmt.Sprintf("runs=%d", size), func(b *testing.B) {
			q := benchQueue(b, Options{}, natstest.Inside)
			var appends []worker.Append
			var runs []string
			for i := range 10_000 {
				runs = append(runs, fmt.Sprint("run-", i))
				appends = append(appends, next(b, runs[i], nil, strings.Repeat("x", 400)))
			}
			for _, o := range q.Log.Append(b.Context(), appends) {
				if o.Seq == 0 {
					b.Fatalf("append: %+v", o)
				}
			}
			b.ResetTimer()
			for n := range b.N {
				at := n * size % (len(runs) - size)
				if _, err := q.Log.Last(b.Context(), runs[at:at+size]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkSweep sweeps partitions of about 40 runs.
func BenchmarkSweep(b *testing.B) {
	q := benchQueue(b, Options{}, natstest.Inside)
	var appends []worker.Append
	for i := range 10_000 {
		appends = append(appends, next(b, fmt.Sprint("run-", i), nil, strings.Repeat("x", 400)))
	}
	for _, o := range q.Log.Append(b.Context(), appends) {
		if o.Seq == 0 {
			b.Fatalf("append: %+v", o)
		}
	}
	b.ResetTimer()
	n := 0
	for i := 0; b.Loop(); i++ {
		for _, err := range q.Log.Sweep(b.Context(), i%256) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}
