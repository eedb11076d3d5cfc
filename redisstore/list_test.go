package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// put saves records of runs.
func put(t *testing.T, s *Store, stored ...*statemachine.Stored) {
	t.Helper()
	for part := range slices.Chunk(stored, 250) {
		saves := make([]worker.Save, len(part))
		for i := range part {
			saves[i].Stored = part[i]
		}
		if _, err := s.Save(t.Context(), saves); err != nil {
			t.Fatalf("Save: %v", err)
		}
	}
}

// list returns the runs that a query selects, over all its pages.
func list(t *testing.T, s *Store, f api.Filter) []string {
	t.Helper()
	var runs []string
	for range 100 {
		page, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatalf("List(%+v): %v", f, err)
		}
		for _, r := range page.Runs {
			runs = append(runs, r.ID)
		}
		if page.Next == "" {
			return runs
		}
		f.Cursor = page.Next
	}
	t.Fatalf("List(%+v) has no end", f)
	return nil
}

func counts(t *testing.T, s *Store) map[string]int {
	t.Helper()
	all, err := s.Counts(t.Context())
	if err != nil {
		t.Fatalf("Counts: %v", err)
	}
	got := make(map[string]int)
	for _, c := range all {
		got[c.Machine+" "+c.State+" "+string(c.Status)] = c.Runs
	}
	return got
}

func withIndex(pairs ...string) func(*statemachine.Record) {
	return func(r *statemachine.Record) {
		r.Index = make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			r.Index[pairs[i]] = pairs[i+1]
		}
	}
}

func TestIndexesFollowTheRuns(t *testing.T) {
	t.Parallel()
	const (
		running = statemachine.StatusRunning
		parked  = statemachine.StatusParked
		done    = statemachine.StatusSucceeded
	)
	in := storetest.In
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := open(t, server.Client(t), Options{})
		long := strings.Repeat("é", 100) // its token is a hash
		check := func(when string, q api.Filter, want ...string) {
			t.Helper()
			if got := list(t, s, q); !cmp.Equal(got, want) {
				t.Errorf("%s: List(%+v) = %q, want %q", when, q, got, want)
			}
		}
		checkCounts := func(when string, want map[string]int) {
			t.Helper()
			if diff := cmp.Diff(want, counts(t, s)); diff != "" {
				t.Errorf("%s: Counts (-want +got):\n%s", when, diff)
			}
		}
		check("empty", api.Filter{})
		checkCounts("empty", map[string]int{})

		put(t, s, storetest.Stored(t, "a", 1, in("one", running), withIndex("site", "44 12", "region", "eu")),
			storetest.Stored(t, "b", 2, in("one", running), withIndex("site", "7")),
			storetest.Stored(t, long, 3, in("one", running), withIndex("site", "44 12")),
			storetest.Stored(t, "c.d", 4, in("two", parked)))
		check("saved", api.Filter{}, "c.d", long, "b", "a")
		check("saved", api.Filter{Limit: 1}, "c.d", long, "b", "a")
		check("saved", api.Filter{State: "one", Limit: 2}, long, "b", "a")
		check("saved", api.Filter{Machine: "demo", State: "one", Status: running}, long, "b", "a")
		check("saved", api.Filter{Status: parked}, "c.d")
		check("saved", api.Filter{Machine: "other"})
		check("saved", api.Filter{Where: map[string]string{"site": "44 12"}}, long, "a")
		check("saved", api.Filter{Where: map[string]string{"site": "44"}})
		check("saved", api.Filter{Where: map[string]string{"region": "eu"}}, "a")
		checkCounts("saved", map[string]int{"demo one running": 3, "demo two parked": 1})

		put(t, s, storetest.Stored(t, "a", 10, in("two", parked), withIndex("site", "7")),
			storetest.Stored(t, "c.d", 11, in("two", running)),
			storetest.Stored(t, "b", 1, in("old", running), withIndex("site", "old")))
		check("moved", api.Filter{}, "c.d", "a", long, "b")
		check("moved", api.Filter{State: "one"}, long, "b")
		check("moved", api.Filter{State: "two", Status: parked}, "a")
		check("moved", api.Filter{Where: map[string]string{"site": "44 12"}}, long)
		check("moved", api.Filter{Where: map[string]string{"site": "7"}}, "a", "b")
		check("moved", api.Filter{Where: map[string]string{"site": "7"}, Status: parked}, "a")
		check("moved", api.Filter{Where: map[string]string{"region": "eu"}})
		check("an older record moves nothing", api.Filter{Where: map[string]string{"site": "old"}})
		checkCounts("moved", map[string]int{"demo one running": 2, "demo two running": 1, "demo two parked": 1})

		put(t, s, storetest.Stored(t, "a", 20, in("end", done)), storetest.Stored(t, "b", 21, in("end", done)))
		check("ended", api.Filter{Status: done}, "b", "a")
		check("ended", api.Filter{Where: map[string]string{"site": "7"}})
		checkCounts("ended", map[string]int{"demo one running": 1, "demo two running": 1, "demo end succeeded": 2})

		page, err := s.List(t.Context(), api.Filter{State: "one"})
		if err != nil || len(page.Runs) != 1 {
			t.Fatalf("List = %v, %v", page, err)
		}
		st := storetest.Stored(t, long, 3, in("one", running))
		want := api.Row{ID: long, Machine: "demo", Version: 1, State: "one", Status: running, Revision: 3, Started: st.Started, Updated: st.At, Index: map[string]string{"site": "44 12"}}
		if diff := cmp.Diff(want, page.Runs[0]); diff != "" {
			t.Errorf("row (-want +got):\n%s", diff)
		}
	})
}

func TestListOfManyRuns(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := open(t, server.Client(t), Options{})
		const n = 600
		var stored []*statemachine.Stored
		want := make([]string, n)
		for i := range n {
			run := fmt.Sprintf("run-%d", i)
			want[n-1-i] = run
			stored = append(stored, storetest.Stored(t, run, uint64(i+1), storetest.In(fmt.Sprintf("s%d", i%300), statemachine.StatusRunning)))
		}
		put(t, s, stored...)
		if got := list(t, s, api.Filter{Limit: 250}); !cmp.Equal(got, want) {
			t.Errorf("List returned %d runs, or not in order", len(got))
		}
		all := counts(t, s)
		if len(all) != 300 || all["demo s7 running"] != 2 {
			t.Errorf("Counts has %d states, %d runs in s7, want 300 and 2", len(all), all["demo s7 running"])
		}
	})
}

// TestCountsOfManyStates has more states in one partition than a call counts.
func TestCountsOfManyStates(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := open(t, server.Client(t), Options{})
		const n = 300
		var stored []*statemachine.Stored
		for i := 0; len(stored) < n; i++ {
			if run := fmt.Sprintf("run-%d", i); queue.Partition(run) == 0 {
				stored = append(stored, storetest.Stored(t, run, uint64(i+1), storetest.In(fmt.Sprintf("s%d", len(stored)), statemachine.StatusRunning)))
			}
		}
		put(t, s, stored...)
		if all := counts(t, s); len(all) != n {
			t.Errorf("Counts has %d states, want %d", len(all), n)
		}
	})
}
