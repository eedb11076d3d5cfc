package redisstore

import (
	"context"
	"strings"
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

// fixture is a store whose run "a" has a record, a hint, a claim, a log and a
// search field, all in one partition.
type fixture struct {
	*Store
	client     redis.UniversalClient
	last       *statemachine.Stored
	partition  int
	run, list  string // keys
	indexOfRun string // key
}

func newFixture(t *testing.T, server *redistest.Server, incarnation string) *fixture {
	t.Helper()
	client := server.Client(t)
	f := &fixture{Store: open(t, client, Options{Incarnation: incarnation}), client: client, partition: queue.Partition("a")}
	f.run, f.list, f.indexOfRun = f.keys.run(f.partition, "a"), f.keys.log(f.partition, "a", "l"), f.keys.index(f.partition)
	f.last = f.stored(t, 5, 2, "0", "1")
	f.save(t, f.last)
	if err := f.Flushed(t.Context(), []worker.Hint{{Run: "a", Txid: f.last.Txid}}); err != nil {
		t.Fatalf("Flushed: %v", err)
	}
	return f
}

func (f *fixture) stored(t *testing.T, seq uint64, count int, adds ...string) *statemachine.Stored {
	t.Helper()
	return storetest.Stored(t, "a", seq, storetest.Adding("l", count, 0, adds...), withIndex("site", "7"))
}

func (f *fixture) save(t *testing.T, st *statemachine.Stored) worker.Saved {
	t.Helper()
	got, err := f.Save(t.Context(), []worker.Save{{Stored: st, Claim: []string{"e"}, Owner: "w", Lease: time.Minute}})
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	return got[0]
}

func (f *fixture) load(t *testing.T) *worker.Copy {
	t.Helper()
	got, err := f.Load(t.Context(), []string{"a"})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return got[0]
}

func (f *fixture) seq(t *testing.T) uint64 {
	t.Helper()
	if c := f.load(t); c != nil {
		return c.Seq
	}
	return 0
}

// want holds what is known of run "a" in all places.
func (f *fixture) want(t *testing.T, seq uint64, tail bool, listed int) {
	t.Helper()
	if got := f.seq(t); got != seq {
		t.Errorf("copy has %d, want %d", got, seq)
	}
	_, ok, err := f.Tail(t.Context(), "a", "l", 0, 2)
	if err != nil || ok != tail {
		t.Errorf("Tail = %v, %v, want %v", ok, err, tail)
	}
	for _, q := range []api.Filter{{}, {State: "step"}, {Where: map[string]string{"site": "7"}}} {
		if got := list(t, f.Store, q); len(got) != listed {
			t.Errorf("List(%+v) = %q, want %d", q, got, listed)
		}
	}
}

func do(t *testing.T, cmd redis.Cmder) {
	t.Helper()
	if err := cmd.Err(); err != nil {
		t.Fatalf("%s: %v", cmd.FullName(), err)
	}
}

func TestLoss(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, f *fixture){
		"the hash": func(t *testing.T, f *fixture) {
			do(t, f.client.Del(t.Context(), f.run))
			f.want(t, 0, false, 0)
			if got := f.save(t, f.stored(t, 6, 2)); !got.Granted[0] {
				t.Error("the claim was lost with the hash, and is not granted")
			}
			f.want(t, 6, false, 1)
			// The entry of the record before is still there, until the sweep.
			if got := counts(t, f.Store)["demo step running"]; got != 2 {
				t.Errorf("%d runs counted before the sweep, want 2", got)
			}
			if err := pass(t, f.Store, f.partition); err != nil {
				t.Fatalf("SetComplete: %v", err)
			}
			if got := counts(t, f.Store)["demo step running"]; got != 1 {
				t.Errorf("%d runs counted after the sweep, want 1", got)
			}
			f.want(t, 6, false, 1)
		},
		"the log": func(t *testing.T, f *fixture) {
			do(t, f.client.Del(t.Context(), f.list))
			f.want(t, 5, false, 1)
			f.save(t, f.stored(t, 6, 3, "2"))
			f.want(t, 6, false, 1)
			if items, ok, err := f.Tail(t.Context(), "a", "l", 2, 3); !ok || err != nil || string(items[0]) != "2" {
				t.Errorf("Tail = %q, %v, %v, want what was added since", items, ok, err)
			}
		},
		"the index": func(t *testing.T, f *fixture) {
			do(t, f.client.Del(t.Context(), f.indexOfRun))
			f.want(t, 5, true, 0)
			f.save(t, f.last) // as the sweep does
			f.want(t, 5, true, 1)
		},
		"the index of a copy without a time": func(t *testing.T, f *fixture) {
			// Its committer wrote it, who does not know the time that the broker gave it.
			young := *f.stored(t, 6, 3, "2")
			young.Time = time.Time{}
			f.save(t, &young)
			do(t, f.client.Del(t.Context(), f.indexOfRun))
			f.want(t, 6, true, 0)
			f.save(t, f.stored(t, 6, 3, "2")) // as a rebuild does
			f.want(t, 6, true, 1)
		},
		"everything": func(t *testing.T, f *fixture) {
			do(t, f.client.FlushAll(t.Context()))
			f.want(t, 0, false, 0)
			if got := f.save(t, f.last); got.Newer != 0 || !got.Granted[0] {
				t.Errorf("Save = %v", got)
			}
			f.want(t, 5, true, 1)
		},
		"the scripts": func(t *testing.T, f *fixture) {
			do(t, f.client.ScriptFlush(t.Context()))
			f.save(t, f.stored(t, 6, 3, "2"))
			do(t, f.client.ScriptFlush(t.Context()))
			f.want(t, 6, true, 1)
		},
		"a field of the hash": func(t *testing.T, f *fixture) {
			do(t, f.client.HDel(t.Context(), f.run, "record"))
			f.want(t, 0, true, 0)
			if f.Odd() == 0 {
				t.Error("a hash without its record is not counted as odd")
			}
			f.save(t, f.last)
			f.want(t, 5, true, 1)
		},
		"a hash rolled back": func(t *testing.T, f *fixture) {
			old := f.client.HGetAll(t.Context(), f.run).Val()
			f.save(t, f.stored(t, 6, 3, "2"))
			do(t, f.client.Del(t.Context(), f.run))
			do(t, f.client.HSet(t.Context(), f.run, old))
			f.save(t, f.stored(t, 7, 4, "3"))
			f.want(t, 7, true, 1)
			if items, ok, _ := f.Tail(t.Context(), "a", "l", 3, 4); !ok || string(items[0]) != "3" {
				t.Errorf("Tail = %q, %v", items, ok)
			}
		},
	}
	eachFixture(t, tests)
}

// eachFixture runs tests over every kind of server, each on a store of its own.
func eachFixture(t *testing.T, tests map[string]func(t *testing.T, f *fixture)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) { test(t, newFixture(t, server, strings.ReplaceAll(name, " ", "-"))) })
		}
	})
}

func TestOddCopiesAreUnknown(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(t *testing.T, f *fixture))
	for name, fields := range map[string][]any{
		"no number":               {"head", "five live t 1 1 "},
		"no head":                 {"head", ""},
		"a word less":             {"head", "00000000000000000005 live t 1"},
		"before its predecessor":  {"head", "00000000000000000004 live " + storetest.Stored(t, "a", 5).Txid + " 1 1 "},
		"another txid":            {"head", "00000000000000000005 live other 1 1 "},
		"no record":               {"record", "{"},
		"of another run":          {"record", nil},
		"of a newer format":       {"record", `{"v":99}`},
		"sequence of many digits": {"head", "99999999999999999999 live t 1 1 "},
	} {
		tests[name] = func(t *testing.T, f *fixture) {
			if fields[1] == nil {
				fields = []any{"record", storetest.Stored(t, "b", 5).Bytes, "head", headOf(storetest.Stored(t, "b", 5))}
			}
			do(t, f.client.HSet(t.Context(), f.run, fields...))
			if c := f.load(t); c != nil || f.Odd() != 1 {
				t.Fatalf("Load = %v, odd %d, want it unknown and counted", c, f.Odd())
			}
			if name == "sequence of many digits" {
				return // counts as newer; only a loss mends that
			}
			f.save(t, f.last)
			f.want(t, 5, true, 1)
		}
	}
	eachFixture(t, tests)
}

// TestWrongTypesHeal puts keys of other types where the store's belong.
func TestWrongTypesHeal(t *testing.T) {
	t.Parallel()
	all := func(f *fixture) []string { return []string{f.run, f.list, f.indexOfRun} }
	wrong := func(t *testing.T, f *fixture, keys ...string) {
		t.Helper()
		for _, k := range keys {
			do(t, f.client.Set(t.Context(), k, "x", 0))
		}
	}
	eachFixture(t, map[string]func(t *testing.T, f *fixture){
		"reads": func(t *testing.T, f *fixture) {
			wrong(t, f, f.run)
			f.want(t, 0, false, 0)
			wrong(t, f, all(f)...)
			f.want(t, 0, false, 0)
			if share, err := f.Completeness(t.Context()); share != 0 || err != nil {
				t.Errorf("Completeness = %v, %v", share, err)
			}
		},
		"save": func(t *testing.T, f *fixture) {
			wrong(t, f, all(f)...)
			if got := f.save(t, f.last); got.Newer != 0 || !got.Granted[0] {
				t.Errorf("Save = %v", got)
			}
			f.want(t, 5, true, 1)
		},
		"save over one wrong key": func(t *testing.T, f *fixture) {
			for i, k := range all(f) {
				wrong(t, f, k)
				f.save(t, f.stored(t, uint64(10+i), 2))
				if got := f.seq(t); got != uint64(10+i) {
					t.Errorf("wrong key %s: copy has %d", k, got)
				}
			}
		},
		"claims": func(t *testing.T, f *fixture) {
			c := []worker.Claim{{Run: "a", Effect: "e", Owner: "v", Lease: time.Minute}}
			wrong(t, f, f.run)
			if got, err := f.Claim(t.Context(), c); err != nil || !got[0].OK {
				t.Errorf("Claim = %v, %v", got, err)
			}
			wrong(t, f, f.run)
			if err := f.Renew(t.Context(), c); err != nil {
				t.Errorf("Renew: %v", err)
			}
			wrong(t, f, f.run)
			if err := f.Release(t.Context(), c); err != nil {
				t.Errorf("Release: %v", err)
			}
			wrong(t, f, f.run)
			if err := f.Flushed(t.Context(), []worker.Hint{{Run: "a", Txid: "x"}}); err != nil {
				t.Errorf("Flushed: %v", err)
			}
		},
		"sweep": func(t *testing.T, f *fixture) {
			wrong(t, f, all(f)...)
			if err := pass(t, f.Store, f.partition); err != nil {
				t.Errorf("SetComplete: %v", err)
			}
			wrong(t, f, f.run)
			f.save(t, f.last)
			wrong(t, f, f.run)
			if err := pass(t, f.Store, f.partition); err != nil {
				t.Errorf("SetComplete: %v", err)
			}
			if got := counts(t, f.Store); len(got) != 0 {
				t.Errorf("Counts = %v after the hash went", got)
			}
		},
	})
}

func TestEndedRunsExpire(t *testing.T) {
	t.Parallel()
	end := storetest.In("end", statemachine.StatusFailed)
	ttl := func(t *testing.T, f *fixture, key string) time.Duration {
		t.Helper()
		return f.client.PTTL(context.WithoutCancel(t.Context()), key).Val()
	}
	eachFixture(t, map[string]func(t *testing.T, f *fixture){
		"after the time set": func(t *testing.T, f *fixture) {
			for _, k := range []string{f.run, f.list} {
				if got := ttl(t, f, k); got >= 0 {
					t.Errorf("live key %s has %v to live", k, got)
				}
			}
			f.save(t, storetest.Stored(t, "a", 6, end, storetest.Adding("l", 2, 0)))
			for _, k := range []string{f.run, f.list} {
				if got := ttl(t, f, k); got < 23*time.Hour || got > 24*time.Hour {
					t.Errorf("key %s has %v to live, want 24h", k, got)
				}
			}
			do(t, f.client.Del(t.Context(), f.run, f.list)) // as if they had
			if err := pass(t, f.Store, f.partition); err != nil {
				t.Fatalf("SetComplete: %v", err)
			}
			if got := counts(t, f.Store); len(got) != 0 {
				t.Errorf("Counts = %v after the run expired and the sweep passed", got)
			}
		},
		"not if they live again": func(t *testing.T, f *fixture) {
			f.save(t, storetest.Stored(t, "a", 6, end, storetest.Adding("l", 2, 0)))
			f.save(t, f.stored(t, 7, 1, "0"))
			for _, k := range []string{f.run, f.list} {
				if got := ttl(t, f, k); got >= 0 {
					t.Errorf("live key %s has %v to live", k, got)
				}
			}
		},
		"claims without a record go": func(t *testing.T, f *fixture) {
			do(t, f.client.Del(t.Context(), f.run))
			if _, err := f.Claim(t.Context(), []worker.Claim{{Run: "a", Effect: "x", Owner: "w", Lease: time.Minute}}); err != nil {
				t.Fatalf("Claim: %v", err)
			}
			if got := ttl(t, f, f.run); got < unknownTTL || got > unknownTTL+time.Minute {
				t.Errorf("claims without a record have %v to live", got)
			}
			f.save(t, f.last)
			if got := ttl(t, f, f.run); got >= 0 {
				t.Errorf("the live run has %v to live", got)
			}
		},
	})
}
