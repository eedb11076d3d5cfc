package storetest

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// tail reads items of the log "l" of run "a" as one string, or "?" if the
// store does not hold them all.
func tail(t *testing.T, s Store, from, to int) string {
	t.Helper()
	items, ok, err := s.Tail(t.Context(), "a", "l", from, to)
	if err != nil {
		t.Fatalf("Tail(%d, %d): %v", from, to, err)
	}
	if !ok {
		return "?"
	}
	var b strings.Builder
	for _, i := range items {
		b.Write(i)
	}
	return b.String()
}

type tails []struct {
	from, to int
	want     string
}

func (ts tails) check(t *testing.T, s Store, when string) {
	t.Helper()
	for _, tt := range ts {
		if got := tail(t, s, tt.from, tt.to); got != tt.want {
			t.Errorf("%s: Tail(%d, %d) = %s, want %s", when, tt.from, tt.to, got, tt.want)
		}
	}
}

func saveLog(t *testing.T, s Store, seq uint64, count, sealed int, items ...string) {
	t.Helper()
	save(t, s, worker.Save{Stored: Stored(t, "a", seq, Adding("l", count, sealed, items...))})
}

func logs(t *testing.T, s Store) {
	tails{{0, 1, "?"}, {0, 0, ""}}.check(t, s, "before")
	saveLog(t, s, 1, 2, 0, "0", "1")
	saveLog(t, s, 2, 2, 0)
	saveLog(t, s, 3, 3, 0, "2")
	tails{{0, 3, "012"}, {1, 2, "1"}, {2, 3, "2"}, {2, 4, "?"}, {3, 4, "?"}, {1, 1, ""}}.check(t, s, "after")
	if _, _, err := s.Tail(t.Context(), "a", "l", 2, 1); err == nil {
		t.Error("Tail took [2, 1)")
	}
	if items, ok, err := s.Tail(t.Context(), "a", "other log", 0, 1); ok || err != nil {
		t.Errorf("Tail of another log = %q, %v, %v", items, ok, err)
	}
	// The run begins again with a log of its own.
	saveLog(t, s, 9, 1, 0, "9")
	tails{{0, 1, "9"}, {0, 3, "?"}}.check(t, s, "begun again")
}

func logGap(t *testing.T, s Store) {
	saveLog(t, s, 1, 2, 0, "0", "1")
	saveLog(t, s, 3, 6, 0, "4", "5") // 2 and 3 were in a record that never came here
	tails{{0, 6, "?"}, {0, 2, "?"}, {3, 5, "?"}, {4, 6, "45"}, {5, 6, "5"}}.check(t, s, "after a gap")
	saveLog(t, s, 4, 7, 5, "6")
	tails{{5, 7, "56"}, {4, 7, "?"}}.check(t, s, "sealed behind the gap")
}

func logEarlier(t *testing.T, s Store) {
	saveWith := func(earlier string, stored *statemachine.Stored) {
		t.Helper()
		v := worker.Save{Stored: stored, Earlier: map[string][]json.RawMessage{}}
		for i := range earlier {
			v.Earlier["l"] = append(v.Earlier["l"], json.RawMessage(earlier[i:i+1]))
		}
		save(t, s, v)
	}
	saveLog(t, s, 1, 1, 0, "0")
	saveWith("12", Stored(t, "a", 4, Adding("l", 4, 0, "3")))
	tails{{0, 4, "0123"}}.check(t, s, "with items of its own")
	saveWith("4", Stored(t, "a", 6, Adding("l", 5, 0)))
	tails{{0, 5, "01234"}}.check(t, s, "without")
	saveWith("56", Stored(t, "a", 9, Adding("l", 8, 6, "7")))
	tails{{6, 8, "67"}, {5, 8, "?"}}.check(t, s, "with some that are sealed by now")
	saveWith("9", Stored(t, "a", 12, Adding("l", 11, 0, "1")))
	tails{{9, 11, "91"}, {7, 11, "?"}}.check(t, s, "after a gap")
}

func logSeal(t *testing.T, s Store) {
	saveLog(t, s, 1, 4, 0, "0", "1", "2", "3")
	saveLog(t, s, 2, 5, 3, "4")
	tails{{3, 5, "34"}, {2, 5, "?"}, {0, 5, "?"}}.check(t, s, "sealed and added")
	saveLog(t, s, 3, 5, 5)
	tails{{4, 5, "?"}}.check(t, s, "all sealed")
	saveLog(t, s, 4, 6, 5, "5")
	tails{{5, 6, "5"}, {4, 6, "?"}}.check(t, s, "added to nothing")
}

func logRepeat(t *testing.T, s Store) {
	saveLog(t, s, 1, 1, 0, "0")
	saveLog(t, s, 2, 2, 0, "1")
	saveLog(t, s, 2, 2, 0, "1")
	saveLog(t, s, 1, 1, 0, "0")
	tails{{0, 2, "01"}, {1, 3, "?"}}.check(t, s, "repeated")
}

func logMany(t *testing.T, s Store) {
	const n = 20_000
	items := make([]string, n)
	for i := range items {
		items[i] = strconv.Itoa(i % 10)
	}
	saveLog(t, s, 1, n, 0, items...)
	tails{{0, n, strings.Join(items, "")}}.check(t, s, "many")
	save(t, s, worker.Save{Stored: Stored(t, "a", 2, In("done", statemachine.StatusSucceeded), Adding("l", n+1, 0, "7"))})
	tails{{n - 1, n + 1, "97"}}.check(t, s, "ended")
}
