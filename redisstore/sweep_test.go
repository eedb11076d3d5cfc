package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

func TestCompleteness(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		s := open(t, client, Options{})
		check := func(when string, want float64) {
			t.Helper()
			if got, err := s.Completeness(t.Context()); err != nil || got != want {
				t.Errorf("%s: Completeness = %v, %v, want %v", when, got, err, want)
			}
		}
		check("empty", 0)
		put(t, s, storetest.Stored(t, "a", 1))
		check("saved", 0)
		for p := range queue.Partitions {
			if err := s.SetComplete(t.Context(), p); err != nil {
				t.Fatalf("SetComplete(%d): %v", p, err)
			}
			if p == queue.Partitions/4-1 {
				check("a quarter swept", 0.25)
			}
		}
		check("swept", 1)
		if got := list(t, s, Query{}); len(got) != 1 {
			t.Errorf("List = %q after the sweep, want the run", got)
		}
		if got := counts(t, s); len(got) != 1 {
			t.Errorf("Counts = %v after the sweep, want one state", got)
		}
		do(t, client.Del(t.Context(), s.keys.index(3)))
		check("one index lost", 255.0/256)
		do(t, client.FlushAll(t.Context()))
		check("all lost", 0)
	})
}

func TestTidyOfManyEntries(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		s := open(t, client, Options{})
		put(t, s, storetest.Stored(t, "a", 1, withIndex("site", "7")))
		p := queue.Partition("a")
		for i := range 3 * tidyPage {
			storetestRun := storetest.Stored(t, "gone-"+string(rune('a'+i%26)), uint64(i+1))
			do(t, client.ZAddNX(t.Context(), s.keys.index(p), redis.Z{Member: stateEntry(storetestRun.Record) + "gone"}))
			do(t, client.ZAddNX(t.Context(), s.keys.index(p), redis.Z{Member: fieldMark + "site 7 " + formatTime(storetestRun.At) + " gone"}))
		}
		if err := s.SetComplete(t.Context(), p); err != nil {
			t.Fatalf("SetComplete: %v", err)
		}
		if got := client.ZCard(t.Context(), s.keys.index(p)).Val(); got != 3 {
			t.Errorf("the index has %d entries, want the run's two and the mark", got)
		}
	})
}

func TestIncarnations(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		one := open(t, client, Options{Incarnation: "one"})
		if got := one.Before(); got != "" {
			t.Errorf("Before = %q on an empty Redis", got)
		}
		put(t, one, storetest.Stored(t, "a", 9, storetest.Adding("l", 1, 0, "1")), storetest.Stored(t, "b", 10))
		if got := open(t, client, Options{Incarnation: "one"}).Before(); got != "one" {
			t.Errorf("Before = %q, want one", got)
		}
		two := open(t, client, Options{Incarnation: "two"})
		if got := two.Before(); got != "one" {
			t.Errorf("Before = %q, want one", got)
		}
		load := func(s *Store) *worker.Copy {
			t.Helper()
			got, err := s.Load(t.Context(), []string{"a"})
			if err != nil {
				t.Fatalf("Load: %v", err)
			}
			return got[0]
		}
		if c := load(two); c != nil {
			t.Errorf("a copy of another incarnation is known: %v", c)
		}
		// The new stream begins at 1: lower than what the old one left.
		put(t, two, storetest.Stored(t, "a", 1))
		if c := load(two); c == nil || c.Seq != 1 {
			t.Errorf("copy = %v, want 1", c)
		}
		if _, err := two.Clear(t.Context(), "two"); err == nil {
			t.Error("Clear took the current incarnation")
		}
		if _, err := two.Clear(t.Context(), "*"); err == nil {
			t.Error("Clear took a pattern")
		}
		if n, err := two.Clear(t.Context(), "one"); err != nil || n < 4 {
			t.Errorf("Clear = %d, %v, want at least two hashes, a list and an index", n, err)
		}
		if load(one) != nil || load(two) == nil {
			t.Error("Clear left the old or took the new")
		}
	})
}
