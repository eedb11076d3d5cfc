package redisstore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// TestARunThatStaysInItsStateMovesOnceASecond: its entry in the index may be
// a second behind, and the lists are exact all the same.
func TestARunThatStaysInItsStateMovesOnceASecond(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := open(t, server.Client(t), Options{})
		began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		moved := func(seq uint64, at time.Duration, state string) {
			put(t, s, storetest.Stored(t, "a", seq, storetest.In(state, statemachine.StatusRunning),
				func(r *statemachine.Record) { r.At = began.Add(at) }))
		}
		entries := func() []string {
			all, err := s.client.ZRange(t.Context(), s.keys.index(queue.Partition("a")), 0, -1).Result()
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		const first, later, other = "demo step running 2026-01-02T03:04:05.000Z a", "demo step running 2026-01-02T03:04:06.100Z a", "demo next running 2026-01-02T03:04:06.200Z a"
		moved(1, 0, "step")
		moved(2, 400*time.Millisecond, "step")
		moved(3, 999*time.Millisecond, "step")
		if diff := cmp.Diff([]string{first}, entries()); diff != "" {
			t.Errorf("within a second (-want +got):\n%s", diff)
		}
		for since, want := range map[time.Duration]int{0: 1, 999 * time.Millisecond: 1, time.Second: 0} {
			if got := list(t, s, api.Filter{Since: began.Add(since)}); len(got) != want {
				t.Errorf("since %v: %q, want %d", since, got, want)
			}
		}
		if got := list(t, s, api.Filter{Until: began.Add(999 * time.Millisecond)}); len(got) != 0 {
			t.Errorf("until it moved last: %q, want none", got)
		}
		moved(4, 1100*time.Millisecond, "step")
		if diff := cmp.Diff([]string{later}, entries()); diff != "" {
			t.Errorf("a second later (-want +got):\n%s", diff)
		}
		moved(5, 1200*time.Millisecond, "next")
		if diff := cmp.Diff([]string{other}, entries()); diff != "" {
			t.Errorf("in another state (-want +got):\n%s", diff)
		}
	})
}

// TestSearchFieldsMoveOnceAnHour: their entries say in which hour the run moved
// last, and go when it has moved in another.
func TestSearchFieldsMoveOnceAnHour(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := open(t, server.Client(t), Options{})
		began := time.Date(2026, 1, 2, 3, 59, 0, 0, time.UTC)
		moved := func(seq uint64, at time.Duration, fields ...string) {
			put(t, s, storetest.Stored(t, "a", seq, withIndex(fields...), func(r *statemachine.Record) { r.At = began.Add(at) }))
		}
		check := func(when string, want ...string) {
			t.Helper()
			got, err := s.client.ZRangeByLex(t.Context(), s.keys.index(queue.Partition("a")), &redis.ZRangeBy{Min: "[@", Max: "(A"}).Result()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
			if got := list(t, s, api.Filter{Where: map[string]string{"site": "7"}}); len(got) != 1 {
				t.Errorf("%s: listed %q", when, got)
			}
		}
		moved(1, 0, "site", "7")
		check("at first", "@site 7 2026-01-02T03 a")
		moved(2, 59*time.Second, "site", "7")
		check("in that hour", "@site 7 2026-01-02T03 a")
		moved(3, time.Minute, "site", "7")
		check("in the next", "@site 7 2026-01-02T04 a")
		moved(4, 2*time.Hour, "order", "1", "site", "7")
		check("with another field", "@order 1 2026-01-02T05 a", "@site 7 2026-01-02T05 a")
		moved(5, 3*time.Hour, "site", "7")
		check("and without it", "@site 7 2026-01-02T06 a")
	})
}
