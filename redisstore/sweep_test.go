package redisstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// pass is what workers do for a partition: have it complete, and tidy it.
func pass(t *testing.T, s *Store, partition int) error {
	t.Helper()
	token, err := s.BeginRebuild(t.Context(), partition, 0)
	if err != nil {
		return err
	}
	if token != "" {
		err = s.SetComplete(t.Context(), partition, token)
	}
	return errors.Join(err, s.Tidy(t.Context(), partition%shards))
}

// TestLossInTheMiddleOfARebuild loses what a pass wrote before it ends: what it
// wrote after that is not all there is.
func TestLossInTheMiddleOfARebuild(t *testing.T) {
	t.Parallel()
	losses := map[string]func(t *testing.T, c redis.UniversalClient, index string){
		"everything": func(t *testing.T, c redis.UniversalClient, index string) { do(t, c.FlushAll(t.Context())) },
		"the index":  func(t *testing.T, c redis.UniversalClient, index string) { do(t, c.Del(t.Context(), index)) },
		"its type": func(t *testing.T, c redis.UniversalClient, index string) {
			do(t, c.Set(t.Context(), index, "x", 0))
		},
		"everything, and the rest is written": func(t *testing.T, c redis.UniversalClient, index string) {
			do(t, c.FlushAll(t.Context()))
			do(t, c.ZAdd(t.Context(), index, redis.Z{Member: "a b c d e"}))
		},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		for name, lose := range losses {
			do(t, client.FlushAll(t.Context()))
			s := open(t, client, Options{})
			const p = 5
			swept := func() bool {
				t.Helper()
				c, err := s.Completeness(t.Context())
				if err != nil {
					t.Fatalf("Completeness: %v", err)
				}
				return c > 0
			}
			token, err := s.BeginRebuild(t.Context(), p, 0)
			if err != nil || token == "" {
				t.Fatalf("%s: BeginRebuild = %q, %v", name, token, err)
			}
			lose(t, client, s.keys.index(p))
			if err := s.SetComplete(t.Context(), p, token); err != nil || swept() {
				t.Errorf("%s: SetComplete after the loss: %v, swept %v", name, err, swept())
			}
			if err := pass(t, s, p); err != nil || !swept() {
				t.Errorf("%s: the next pass: %v, swept %v", name, err, swept())
			}
		}
	})
}

// TestRebuildsMayOverlap has several workers write one partition: not while
// another's lease runs, but one that died does not hinder them for longer, and
// what it noted goes after a day.
func TestRebuildsMayOverlap(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		s := open(t, client, Options{})
		begin := func() string {
			t.Helper()
			token, err := s.BeginRebuild(t.Context(), 3, 0)
			if err != nil {
				t.Fatalf("BeginRebuild: %v", err)
			}
			return token
		}
		one, two := begin(), begin()
		dead := begin()
		do(t, client.ZAdd(t.Context(), s.keys.index(3), redis.Z{Member: "!003 0000000000001 old"}))
		if one == two || one == "" {
			t.Errorf("two passes have the token %q", one)
		}
		if token, err := s.BeginRebuild(t.Context(), 3, time.Hour); err != nil || token != "" {
			t.Errorf("BeginRebuild = %q, %v while others are at it", token, err)
		}
		if got, err := s.Completeness(t.Context()); err != nil || got != 0 {
			t.Errorf("Completeness = %v, %v before any pass ended", got, err)
		}
		for _, token := range []string{one, one, two} {
			if err := s.SetComplete(t.Context(), 3, token); err != nil {
				t.Errorf("SetComplete: %v", err)
			}
			if got, err := s.Completeness(t.Context()); err != nil || got == 0 {
				t.Errorf("Completeness = %v, %v after a pass", got, err)
			}
		}
		if last := begin(); last != "" {
			t.Errorf("BeginRebuild = %q of a complete partition", last)
		}
		left := client.ZRange(t.Context(), s.keys.index(3), 0, -1).Val()
		want := []string{markOf(3), dead}
		slices.Sort(want)
		if !slices.Equal(left, want) {
			t.Errorf("the index holds %q, want %q", left, want)
		}
		if got := counts(t, s); len(got) != 0 {
			t.Errorf("Counts = %v of no run", got)
		}
		for _, bad := range []string{"", sweptMark, markOf(3), "x", "!004 0000000000001 x"} {
			if err := s.SetComplete(t.Context(), 3, bad); err == nil {
				t.Errorf("SetComplete took token %q", bad)
			}
		}
		for _, bad := range []int{-1, queue.Partitions} {
			if _, err := s.BeginRebuild(t.Context(), bad, 0); err == nil {
				t.Errorf("BeginRebuild took partition %d", bad)
			}
			if err := s.Tidy(t.Context(), bad); err == nil {
				t.Errorf("Tidy took partition %d", bad)
			}
			if err := s.SetComplete(t.Context(), bad, dead); err == nil {
				t.Errorf("SetComplete took partition %d", bad)
			}
		}
	})
}

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
			if err := pass(t, s, p); err != nil {
				t.Fatalf("SetComplete(%d): %v", p, err)
			}
			if p == queue.Partitions/4-1 {
				check("a quarter swept", 0.25)
			}
		}
		check("swept", 1)
		if got := list(t, s, api.Filter{}); len(got) != 1 {
			t.Errorf("List = %q after the sweep, want the run", got)
		}
		if got := counts(t, s); len(got) != 1 {
			t.Errorf("Counts = %v after the sweep, want one state", got)
		}
		do(t, client.Del(t.Context(), s.keys.index(3)))
		check("one index lost", 1-1.0/shards)
		if missing, err := s.Incomplete(t.Context()); err != nil || len(missing) != queue.Partitions/shards || missing[1] != 3+shards {
			t.Errorf("Incomplete = %v, %v, want those of shard 3", missing, err)
		}
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
			do(t, client.ZAddNX(t.Context(), s.keys.index(p), redis.Z{Member: placeOf(storetestRun.Record) + " gone"}))
			do(t, client.ZAddNX(t.Context(), s.keys.index(p), redis.Z{Member: fieldMark + "site 7 2026-05-01T00 gone"}))
			do(t, client.ZAddNX(t.Context(), s.keys.index(p), redis.Z{Member: fieldMark + "site 7 1999-12-31T23 a"})) // not its hour
			do(t, client.ZAddNX(t.Context(), s.keys.index(p), redis.Z{Member: fieldMark + "site 7 a"}))
		}
		if err := pass(t, s, p); err != nil {
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

// TestEndedRunsAreKeptForAWhile has those that a rebuild writes, and those that
// have expired.
func TestEndedRunsAreKeptForAWhile(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t, redistest.Mini).Client(t), Options{EndedTTL: time.Hour})
	for name, tt := range map[string]struct {
		status statemachine.Status
		ago    time.Duration
		kept   bool
	}{
		"just ended": {statemachine.StatusSucceeded, time.Minute, true},
		"long ended": {statemachine.StatusFailed, 2 * time.Hour, false},
		"waits":      {statemachine.StatusRunning, 1000 * time.Hour, true},
		"is parked":  {statemachine.StatusParked, 1000 * time.Hour, true},
	} {
		st := storetest.Stored(t, "a", 1, storetest.In("end", tt.status), func(r *statemachine.Record) { r.At = time.Now().Add(-tt.ago) })
		if s.Keeps(st) != tt.kept {
			t.Errorf("a run that %s: Keeps = %v", name, !tt.kept)
		}
		// By the broker's time, if it is known.
		if st.Time = time.Now(); !s.Keeps(st) {
			t.Errorf("a run that %s is not kept just after it was stored", name)
		}
	}
}
