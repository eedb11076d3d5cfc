package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// crowd are runs of few partitions, so many that none of the ways to find
// them is left out, in seven machines and a few states and search fields.
func crowd(t *testing.T, n int) []*statemachine.Stored {
	t.Helper()
	began := time.Date(2026, 5, 1, 0, 0, 0, 999e6, time.UTC)
	var all []*statemachine.Stored
	for i := 0; len(all) < n; i++ {
		run := fmt.Sprintf("run-%d", i)
		if queue.Partition(run)%shards > 1 {
			continue
		}
		k := len(all)
		all = append(all, storetest.Stored(t, run, uint64(k+1), func(r *statemachine.Record) {
			r.Machine, r.To, r.Status = fmt.Sprintf("m%d", k%7), fmt.Sprintf("s%d", k/7%5), statemachine.StatusRunning
			if k%5 == 1 {
				r.To, r.Status = "end", statemachine.StatusSucceeded
			}
			if k%100 == 3 {
				r.Status = statemachine.StatusParked
			}
			// Over some hours; several at one millisecond, and parts of it.
			r.At = began.Add(time.Duration(k/3)*20*time.Second + time.Duration(k%3)*300*time.Microsecond)
			r.Index = map[string]string{"region": []string{"eu", "us"}[k%10/9], "site": fmt.Sprint(k / 7 % 40), "order": run}
			if k < n/2 {
				r.Index["batch"] = "old one"
			}
		}))
	}
	return all
}

// TestListAnswersEveryFilter holds lists by all kinds of filters, with pages
// of all sizes, against what the records themselves say.
func TestListAnswersEveryFilter(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := open(t, server.Client(t), Options{})
		all := crowd(t, 600)
		put(t, s, all...)
		at := func(i int) time.Time { return all[i].At }
		rng := rand.New(rand.NewPCG(1, 2))
		pick := func(of ...string) string { return of[rng.IntN(len(of))] }
		for range 80 {
			f := api.Filter{
				Machine: pick("", "", "m3", "m6", "none"), State: pick("", "", "s3", "end", "s", "none"),
				Status: statemachine.Status(pick("", "", "running", "succeeded", "parked", "failed")),
				Limit:  rng.IntN(500), Where: make(map[string]string),
			}
			for range rng.IntN(3) {
				name := pick("region", "site", "order", "batch", "none")
				f.Where[name] = map[string]string{"region": pick("eu", "us", "e"), "site": pick("7", "39"), "order": all[rng.IntN(600)].Run, "batch": "old one", "none": pick("", "x")}[name]
			}
			switch rng.IntN(4) {
			case 0:
				f.Since = at(rng.IntN(600))
			case 1:
				f.Until = at(rng.IntN(600))
			case 2:
				f.Since, f.Until = at(rng.IntN(300)), at(300+rng.IntN(300))
			}
			var want []string
			for _, st := range slices.SortedFunc(slices.Values(all), func(a, b *statemachine.Stored) int {
				return cmp.Or(cmp.Compare(formatTime(b.At), formatTime(a.At)), cmp.Compare(b.Run, a.Run))
			}) {
				if f.Matches(st.Record) {
					want = append(want, st.Run)
				}
			}
			if got := list(t, s, f); !slices.Equal(got, want) {
				t.Errorf("List(%+v) is %d runs, want %d:\n%s", f, len(got), len(want), gocmp.Diff(want, got))
			}
		}
	})
}

// TestListFindsAStateInSeveralMachines had no end: having found the state in
// one machine, the script went back to where it begins.
func TestListFindsAStateInSeveralMachines(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := open(t, server.Client(t), Options{})
		all := crowd(t, 70)
		put(t, s, all...)
		n := 0
		for _, st := range all {
			if st.To == "s3" {
				n++
			}
		}
		if got := list(t, s, api.Filter{State: "s3"}); len(got) != n || n < 7 {
			t.Errorf("List = %q, want %d runs", got, n)
		}
	})
}

// TestCursorsAreOfTheirFilter has cursors of other filters, and what is none.
func TestCursorsAreOfTheirFilter(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := open(t, server.Client(t), Options{})
		put(t, s, crowd(t, 30)...)
		f := api.Filter{Status: statemachine.StatusRunning, Where: map[string]string{"region": "eu"}, Limit: 3}
		page, err := s.List(t.Context(), f)
		if err != nil || page.Next == "" || len(page.Runs) != 3 {
			t.Fatalf("List = %+v, %v", page, err)
		}
		f.Cursor, f.Limit = page.Next, 5 // another limit is no other filter
		if next, err := s.List(t.Context(), f); err != nil || len(next.Runs) != 5 {
			t.Errorf("the next page = %+v, %v", next, err)
		}
		for name, change := range map[string]func(*api.Filter){
			"other machine":  func(f *api.Filter) { f.Machine = "m1" },
			"other state":    func(f *api.Filter) { f.State = "s1" },
			"other status":   func(f *api.Filter) { f.Status = "" },
			"other value":    func(f *api.Filter) { f.Where = map[string]string{"region": "us"} },
			"no field":       func(f *api.Filter) { f.Where = nil },
			"a beginning":    func(f *api.Filter) { f.Since = time.Unix(1, 0) },
			"an end":         func(f *api.Filter) { f.Until = time.Unix(1, 0) },
			"cut off":        func(f *api.Filter) { f.Cursor = f.Cursor[:20] },
			"only the print": func(f *api.Filter) { f.Cursor = f.Cursor[:12] },
			"no base64":      func(f *api.Filter) { f.Cursor = "!" },
			"a word":         func(f *api.Filter) { f.Cursor = "run-1" },
		} {
			other := f
			change(&other)
			if _, err := s.List(t.Context(), other); !errors.Is(err, api.ErrCursor) {
				t.Errorf("%s: List = %v, want ErrCursor", name, err)
			}
		}
	})
}
