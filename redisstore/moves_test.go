package redisstore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
