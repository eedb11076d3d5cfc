package redisstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

const benchRuns = 200_000

var benchBegan = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// benchRun is one of a fleet of 200,000: half wait and half have ended, over
// time one a second. Of the search fields, region is common, site has 1,000
// values, order is each run's own, batch is only in the first half, and one
// run has a flag.
func benchRun(tb testing.TB, i int) *statemachine.Stored {
	state, status := fmt.Sprintf("step%d", i/2%10), statemachine.StatusRunning
	switch {
	case i == benchRuns/3:
		state, status = "step0", statemachine.StatusParked
	case i%2000 == 1:
		state, status = "broken", statemachine.StatusFailed
	case i%2 == 1:
		state, status = "done", statemachine.StatusSucceeded
	}
	return storetest.Stored(tb, fmt.Sprintf("run-%07d", i), uint64(i+1), storetest.In(state, status), func(r *statemachine.Record) {
		r.Machine = fmt.Sprintf("machine%d", i%7)
		r.Started, r.At = benchBegan.Add(time.Duration(i)*time.Second), benchBegan.Add(time.Duration(i)*time.Second+time.Minute)
		r.Data = []byte(`{"text":"` + strings.Repeat("x", 480) + `"}`)
		r.Index = map[string]string{"region": []string{"eu", "us"}[i%10/9], "site": fmt.Sprint(i / 7 % 1000), "order": fmt.Sprint(i)}
		if i < benchRuns/2 {
			r.Index["batch"] = "old"
		}
		if i == 4711 {
			r.Index["flag"] = "yes"
		}
	})
}

// benchFleet is a store with all of them.
func benchFleet(b *testing.B, kind redistest.Kind) *Store {
	b.Helper()
	opts := redistest.Start(b, kind).Options()
	opts.ReadTimeout, opts.WriteTimeout = time.Minute, time.Minute
	client := redis.NewUniversalClient(opts)
	b.Cleanup(func() { _ = client.Close() })
	s := open(b, client, Options{EndedTTL: 1000 * time.Hour, Timeout: time.Minute})
	for i := 0; i < benchRuns; {
		saves := make([]worker.Save, 0, 500)
		for ; len(saves) < cap(saves); i++ {
			saves = append(saves, worker.Save{Stored: benchRun(b, i)})
		}
		if _, err := s.Save(b.Context(), saves); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// benchFilters is every combination of what a filter has: nothing, common,
// rare, and what no run has.
func benchFilters() []api.Filter {
	at := func(i int) time.Time { return benchBegan.Add(time.Duration(i) * time.Second) }
	var all []api.Filter
	for _, machine := range []string{"", "machine3", "none"} {
		for _, state := range []string{"", "step3", "done", "broken", "none"} {
			for _, status := range []statemachine.Status{"", "running", "succeeded", "failed", "parked", "cancelled"} {
				for _, where := range []string{"", "region=eu", "region=us", "site=77", "order=4711", "batch=old", "flag=yes", "site=none", "region=eu batch=old", "region=us site=77 batch=old"} {
					for _, window := range [][2]int{{}, {benchRuns / 2, 0}, {0, benchRuns / 2}, {100_000, 100_060}, {2 * benchRuns, 0}} {
						f := api.Filter{Machine: machine, State: state, Status: status, Where: make(map[string]string)}
						for _, w := range strings.Fields(where) {
							name, value, _ := strings.Cut(w, "=")
							f.Where[name] = value
						}
						if window[0] > 0 {
							f.Since = at(window[0])
						}
						if window[1] > 0 {
							f.Until = at(window[1])
						}
						all = append(all, f)
					}
				}
			}
		}
	}
	return all
}

// hardFilters are those that there is no short way for: what is common on its
// own and rare or nothing together, or long ago.
func hardFilters() []api.Filter {
	where := func(pairs ...string) map[string]string {
		m := make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	return []api.Filter{
		{},
		{Limit: 1000},
		{Status: statemachine.StatusParked},
		{Status: statemachine.StatusFailed},
		{State: "step3"},
		{Machine: "machine3"},
		{Where: where("region", "eu"), Status: statemachine.StatusFailed},
		{Where: where("region", "eu"), Status: statemachine.StatusCancelled},
		{Where: where("region", "us"), Status: statemachine.StatusRunning},
		{Where: where("batch", "old")},
		{Where: where("batch", "old"), Since: benchBegan.Add(benchRuns / 2 * time.Second)},
		{Where: where("batch", "old", "region", "us")},
		{Where: where("site", "77", "region", "eu")},
		{Where: where("order", "4711")},
		{Where: where("flag", "yes", "region", "eu")},
		{Where: where("site", "none")},
	}
}

// BenchmarkList lists by some of the combinations, and reports what they take,
// the best of three:
// first pages, and for those with more the second and one from the middle; and
// what it takes to count the runs of each state.
//
//	go test -run '^$' -bench List/redis -benchtime 1x ./redisstore
func BenchmarkList(b *testing.B) {
	for _, kind := range redistest.Kinds(b) {
		if kind == redistest.Mini {
			continue // it is not made for this many
		}
		b.Run(string(kind), func(b *testing.B) {
			s := benchFleet(b, kind)
			b.ResetTimer()
			type took struct {
				time.Duration
				f    api.Filter
				rows int
			}
			var first, later []took
			page := func(f api.Filter) (*api.Listing, took) {
				best := took{Duration: time.Hour, f: f}
				var l *api.Listing
				for range 3 { // what else the machine does is not in the best
					began := time.Now()
					var err error
					if l, err = s.List(b.Context(), f); err != nil {
						b.Fatal(err)
					}
					best.Duration, best.rows = min(best.Duration, time.Since(began)), len(l.Runs)
				}
				return l, best
			}
			before := serverTime(b, s)
			filters := benchFilters()
			// A few dozen by chance of the thousands; the seed is fixed.
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(filters), func(i, j int) { filters[i], filters[j] = filters[j], filters[i] })
			for _, f := range append(hardFilters(), filters[:60]...) {
				l, t := page(f)
				first = append(first, t)
				if l.Next == "" {
					continue
				}
				f.Cursor = l.Next
				_, t = page(f)
				later = append(later, t)
				middle := f
				middle.Cursor = cursor(&middle, formatTime(benchBegan.Add(benchRuns/4*time.Second))+" x")
				_, t = page(middle)
				later = append(later, t)
			}
			report(b, s, before, 3*(len(first)+len(later)))
			began := time.Now()
			if _, err := s.Counts(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "counts-ms")
			for name, all := range map[string][]took{"first": first, "later": later} {
				slices.SortFunc(all, func(x, y took) int { return int(y.Duration - x.Duration) })
				b.ReportMetric(float64(all[0].Microseconds())/1000, name+"-max-ms")
				b.ReportMetric(float64(all[len(all)/100].Microseconds())/1000, name+"-p99-ms")
				b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
				for _, t := range all[:min(8, len(all))] {
					b.Logf("%s page %s, %d rows: %s %s %s %v %s %s", name, t.Duration, t.rows, t.f.Machine, t.f.State, t.f.Status, t.f.Where, bound(t.f.Since), bound(t.f.Until))
				}
			}
		})
	}
}
