package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/worker"
)

// asked are n permits for effects of a type and key, of one owner.
func asked(owner, key string, from, n int, limit flow.Limit) []worker.Permit {
	all := make([]worker.Permit, n)
	for i := range all {
		all[i] = worker.Permit{Effect: "model.chat", Key: key, ID: fmt.Sprintf("e%d", from+i), Owner: owner, Limit: limit, Lease: time.Minute}
	}
	return all
}

// taken takes permits, and returns those that were given and all answers.
func taken(t *testing.T, s *Store, permits []worker.Permit) (given []worker.Permit, all []worker.Taken) {
	t.Helper()
	all, err := s.Take(t.Context(), permits)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	for i, a := range all {
		if a.OK {
			given = append(given, permits[i])
		} else if a.Wait <= 0 || a.By == "" {
			t.Errorf("effect %s is refused with %+v, want a wait and a limit", permits[i].ID, a)
		}
	}
	return given, all
}

func eachFlow(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { test(t, open(t, server.Client(t), Options{})) })
}

func TestConcurrencyIsKeptOverOwners(t *testing.T) {
	eachFlow(t, func(t *testing.T, s *Store) {
		limit := flow.Limit{Concurrency: 5, PerKey: 2}
		a, _ := taken(t, s, asked("w1", "a", 0, 10, limit))
		if len(a) != 2 {
			t.Fatalf("%d permits of key a, want 2", len(a))
		}
		b, _ := taken(t, s, asked("w2", "b", 10, 10, limit))
		c, all := taken(t, s, asked("w3", "c", 20, 10, limit))
		if len(b) != 2 || len(c) != 1 || all[9].By != worker.LimitConcurrency {
			t.Errorf("%d and %d permits, the last met %s, want 2 and 1, and the type's limit", len(b), len(c), all[9].By)
		}
		if u, err := s.Usage(t.Context(), "model.chat", "a"); err != nil || u.InUse != 5 || u.KeyInUse != 2 || u.KeyWaiting != 8 || u.Waiting != 9 {
			t.Errorf("Usage = %+v, %v, want 5 in use, 2 of them of key a, 9 and 8 that wait", u, err)
		}
		again, _ := taken(t, s, a)
		if len(again) != 2 {
			t.Errorf("%d of 2 permits that are held are given again", len(again))
		}
		for i := range b {
			b[i].Took = time.Second
		}
		if err := s.Return(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if d, _ := taken(t, s, asked("w2", "d", 30, 10, limit)); len(d) != 2 {
			t.Errorf("%d permits after 2 were returned, want 2", len(d))
		}
	})
}

// A permit whose owner dies runs out; one that Redis forgets is there again
// when it is renewed.
func TestPermitsRunOutAndComeBack(t *testing.T) {
	eachFlow(t, func(t *testing.T, s *Store) {
		limit := flow.Limit{Concurrency: 1}
		dead := asked("dead", "", 0, 1, limit)
		dead[0].Lease = 100 * time.Millisecond
		if given, _ := taken(t, s, dead); len(given) != 1 {
			t.Fatal("no permit")
		}
		alive := asked("alive", "", 1, 1, limit)
		for deadline := time.Now().Add(10 * time.Second); ; {
			if given, _ := taken(t, s, alive); len(given) == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the permit of a dead worker does not run out")
			}
		}
		do(t, s.client.Del(t.Context(), s.keys.flow("model.chat").permits))
		if err := s.RenewPermits(t.Context(), alive); err != nil {
			t.Fatal(err)
		}
		if given, _ := taken(t, s, asked("other", "", 2, 1, limit)); len(given) != 0 {
			t.Error("a permit that was renewed after a loss does not count")
		}
	})
}

func TestRateIsKept(t *testing.T) {
	eachFlow(t, func(t *testing.T, s *Store) {
		limit := flow.Limit{Rate: flow.Rate{N: 50, Per: time.Second}}
		began := time.Now()
		given, all := taken(t, s, asked("w", "", 0, 100, limit))
		if n := len(given); n < 50 || n > 60 {
			t.Errorf("%d of 100 begin together, want those of a second: 50", n)
		}
		if !slices.IsSortedFunc(all, func(a, b worker.Taken) int { return int(a.Wait - b.Wait) }) {
			t.Errorf("turns are not in order: %+v", all)
		}
		if last := all[99]; last.By != worker.LimitRate || last.Wait < 700*time.Millisecond || last.Wait > 1200*time.Millisecond {
			t.Errorf("the last is told %+v, want its rate and about a second", last)
		}
		waiting := asked("w", "", len(given), 100-len(given), limit)
		total := len(given)
		for len(waiting) > 0 && time.Since(began) < 20*time.Second {
			_, all := taken(t, s, waiting)
			var rest []worker.Permit
			for i, a := range all {
				if !a.OK {
					rest = append(rest, waiting[i])
				}
			}
			total += len(waiting) - len(rest)
			if most := 50 + int(time.Since(began)/(20*time.Millisecond)) + 1; total > most {
				t.Fatalf("%d have begun after %s, over %d", total, time.Since(began), most)
			}
			waiting = rest
		}
		if len(waiting) > 0 {
			t.Errorf("%d never begin", len(waiting))
		}
		perKey := flow.Limit{RatePerKey: flow.Rate{N: 1, Per: time.Hour}}
		for _, key := range []string{"a", "b", ""} {
			given, all := taken(t, s, asked("w", key, 200, 2, perKey))
			if len(given) != 1 || all[1].By != worker.LimitRatePerKey {
				t.Errorf("key %q: %d begin and the second met %q, want 1 and its key's rate", key, len(given), all[1].By)
			}
		}
	})
}

// Who waits for one that takes long is told to come later than who waits for
// one that is quick, and who is next in line comes often.
func TestTurnsFollowWhatPermitsTake(t *testing.T) {
	eachFlow(t, func(t *testing.T, s *Store) {
		for key, took := range map[string]time.Duration{"slow": 30 * time.Second, "quick": 10 * time.Millisecond} {
			limit := flow.Limit{PerKey: 1}
			first, _ := taken(t, s, asked("w", key, 0, 1, limit))
			first[0].Took = took
			if err := s.Return(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			_, all := taken(t, s, asked("w", key, 1, 6, limit))
			if next, last := all[1].Wait, all[5].Wait; next > time.Second || last < 4*took || last > max(4*took, 20*time.Millisecond) {
				t.Errorf("%s: the next is told %s, the fifth %s; one takes %s", key, next, last, took)
			}
		}
	})
}

func TestPermitsAreChecked(t *testing.T) {
	eachFlow(t, func(t *testing.T, s *Store) {
		for _, p := range []worker.Permit{{Effect: "a}b", ID: "e", Lease: time.Second}, {Effect: "noop", Lease: time.Second}, {Effect: "noop", ID: "e"}} {
			if _, err := s.Take(t.Context(), []worker.Permit{p}); err == nil {
				t.Errorf("Take(%+v) is no error", p)
			}
		}
	})
}
