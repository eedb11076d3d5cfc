// Package storetest is what every shadow of runs must do, as a suite to run
// over each.
package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// Store is what the suite is about.
type Store interface {
	worker.Shadow
	worker.Claims
}

// lease of claims that must not end in a test, and of those that must.
const (
	long  = time.Minute
	brief = 30 * time.Millisecond
)

// Run runs the suite; open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Store){
		"unknown runs are nil":                  unknownRuns,
		"a copy is what was saved":              roundTrip,
		"only newer records are written":        onlyNewer,
		"large sequences are exact":             largeSequences,
		"records of one run in one batch":       oneRunTwice,
		"a batch larger than a call":            largeBatch,
		"odd run ids":                           oddRuns,
		"what is no run id is refused":          refusedRuns,
		"a hint is noted for its record only":   hints,
		"save claims and releases":              saveClaims,
		"a newer copy grants nothing":           newerGrantsNothing,
		"a save can be repeated":                repeatedSave,
		"claims end by their lease":             leases,
		"claims are their owner's":              owners,
		"one of many gets a claim":              race,
		"logs are appended to":                  logs,
		"a log with a gap begins again":         logGap,
		"a save brings items of records before": logEarlier,
		"sealed items go":                       logSeal,
		"a repeated save appends nothing":       logRepeat,
		"many items of a log":                   logMany,
		"a claim of an unknown run is no copy":  claimOfUnknown,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func save(t *testing.T, s Store, saves ...worker.Save) []worker.Saved {
	t.Helper()
	got, err := s.Save(t.Context(), saves)
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	return got
}

func load(t *testing.T, s Store, run string) *worker.Copy {
	t.Helper()
	got, err := s.Load(t.Context(), []string{run})
	if err != nil {
		t.Fatalf("Load(%q): %v", run, err)
	}
	return got[0]
}

func seqOf(c *worker.Copy) uint64 {
	if c == nil {
		return 0
	}
	return c.Seq
}

func unknownRuns(t *testing.T, s Store) {
	got, err := s.Load(t.Context(), []string{"a", "b"})
	if err != nil || len(got) != 2 || got[0] != nil || got[1] != nil {
		t.Fatalf("Load of unknown runs = %v, %v, want two nils", got, err)
	}
	if err := s.Flushed(t.Context(), []worker.Hint{{Run: "a", Txid: "x"}}); err != nil {
		t.Fatalf("Flushed of an unknown run: %v", err)
	}
	if c := load(t, s, "a"); c != nil {
		t.Fatalf("a hint made a copy: %v", c)
	}
}

func roundTrip(t *testing.T, s Store) {
	with := Stored(t, "a", 7)
	with.Time = began.Add(time.Second)
	without := Stored(t, "b", 8)
	save(t, s, worker.Save{Stored: with}, worker.Save{Stored: without})
	got, err := s.Load(t.Context(), []string{"b", "none", "a"})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if got[1] != nil {
		t.Errorf("copy of no run = %v", got[1])
	}
	if diff := cmp.Diff(&worker.Copy{Stored: *without}, got[0]); diff != "" {
		t.Errorf("copy without a time (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&worker.Copy{Stored: *with}, got[2]); diff != "" {
		t.Errorf("copy with a time (-want +got):\n%s", diff)
	}
	save(t, s, worker.Save{Stored: Stored(t, "a", 9)})
	if c := load(t, s, "a"); !c.Time.IsZero() {
		t.Errorf("the time of the record before stayed: %v", c.Time)
	}
}

func onlyNewer(t *testing.T, s Store) {
	save(t, s, worker.Save{Stored: Stored(t, "a", 5)})
	for _, step := range []struct{ seq, newer, now uint64 }{{4, 5, 5}, {5, 0, 5}, {6, 0, 6}, {1, 6, 6}, {10, 0, 10}, {9, 10, 10}} {
		got := save(t, s, worker.Save{Stored: Stored(t, "a", step.seq)})
		if got[0].Newer != step.newer {
			t.Errorf("saving %d: Newer = %d, want %d", step.seq, got[0].Newer, step.newer)
		}
		if c := load(t, s, "a"); seqOf(c) != step.now {
			t.Errorf("after saving %d the copy has %d, want %d", step.seq, seqOf(c), step.now)
		}
	}
}

// largeSequences are beyond what a floating-point number tells apart.
func largeSequences(t *testing.T, s Store) {
	const big = 1<<63 + 1
	save(t, s, worker.Save{Stored: Stored(t, "a", big)})
	if got := save(t, s, worker.Save{Stored: Stored(t, "a", big-1)}); got[0].Newer != big {
		t.Fatalf("Newer = %d, want %d", got[0].Newer, uint64(big))
	}
	if got := save(t, s, worker.Save{Stored: Stored(t, "a", big+1)}); got[0].Newer != 0 || seqOf(load(t, s, "a")) != big+1 {
		t.Fatalf("Newer = %d, copy %d, want %d written", got[0].Newer, seqOf(load(t, s, "a")), uint64(big+1))
	}
}

func oneRunTwice(t *testing.T, s Store) {
	got := save(t, s, worker.Save{Stored: Stored(t, "a", 2)}, worker.Save{Stored: Stored(t, "b", 3)}, worker.Save{Stored: Stored(t, "a", 4)}, worker.Save{Stored: Stored(t, "a", 1)})
	if got[0].Newer != 0 || got[2].Newer != 0 || got[3].Newer != 4 || seqOf(load(t, s, "a")) != 4 {
		t.Fatalf("Save = %v, copy %d, want 4 written", got, seqOf(load(t, s, "a")))
	}
}

func largeBatch(t *testing.T, s Store) {
	const n = 700
	saves, runs := make([]worker.Save, n), make([]string, n)
	for i := range saves {
		runs[i] = fmt.Sprintf("run-%d", i)
		saves[i] = worker.Save{Stored: Stored(t, runs[i], uint64(1000+i)), Owner: "w", Lease: long}
		if i%3 == 0 {
			saves[i].Claim = []string{"e"}
		}
	}
	for i, got := range save(t, s, saves...) {
		if want := len(saves[i].Claim); len(got.Granted) != want || want == 1 && !got.Granted[0] {
			t.Fatalf("save %d granted %v", i, got.Granted)
		}
	}
	copies, err := s.Load(t.Context(), runs)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	for i, c := range copies {
		if c == nil || c.Run != runs[i] || c.Seq != uint64(1000+i) {
			t.Fatalf("copy %d = %v", i, c)
		}
	}
}

func oddRuns(t *testing.T, s Store) {
	runs := []string{"*", ">", "}", "{x}", "\x00", "a b", "a\nb", "订单", "_", "~", "a:b", strings.Repeat("x", 200), strings.Repeat("ü", 128)}
	for i, run := range runs {
		seq := uint64(i + 1)
		got := save(t, s, worker.Save{Stored: Stored(t, run, seq, Adding("l", 1, 0, "1")), Claim: []string{"a b\x00"}, Owner: "w {}\n", Lease: long})
		if !got[0].Granted[0] {
			t.Errorf("run %q: claim not granted", run)
		}
	}
	for i, run := range runs {
		if c := load(t, s, run); seqOf(c) != uint64(i+1) || c.Run != run {
			t.Errorf("copy of run %q = %v", run, c)
		}
		if items, ok, err := s.Tail(t.Context(), run, "l", 0, 1); err != nil || !ok || string(items[0]) != "1" {
			t.Errorf("log of run %q = %q, %v, %v", run, items, ok, err)
		}
	}
}

func refusedRuns(t *testing.T, s Store) {
	for _, run := range []string{"", strings.Repeat("x", 5000), "\xff"} {
		if _, err := s.Load(t.Context(), []string{run}); err == nil {
			t.Errorf("Load took run id %.20q", run)
		}
		if _, err := s.Claim(t.Context(), []worker.Claim{{Run: run, Effect: "e", Owner: "w", Lease: long}}); err == nil {
			t.Errorf("Claim took run id %.20q", run)
		}
		st := &statemachine.Stored{Record: &statemachine.Record{Run: run}, Seq: 1, Bytes: []byte("{}")}
		if _, err := s.Save(t.Context(), []worker.Save{{Stored: st}}); err == nil {
			t.Errorf("Save took run id %.20q", run)
		}
	}
}

func hints(t *testing.T, s Store) {
	first, second := Stored(t, "a", 1), Stored(t, "a", 2)
	save(t, s, worker.Save{Stored: second})
	flushed := func(txid string) string {
		if err := s.Flushed(t.Context(), []worker.Hint{{Run: "a", Txid: txid}}); err != nil {
			t.Fatalf("Flushed: %v", err)
		}
		return load(t, s, "a").Flushed
	}
	if got := flushed(first.Txid); got != "" {
		t.Errorf("a hint of the record before was noted: %q", got)
	}
	if got := flushed(second.Txid); got != second.Txid {
		t.Errorf("Flushed = %q, want %q", got, second.Txid)
	}
	save(t, s, worker.Save{Stored: Stored(t, "a", 3)})
	if c := load(t, s, "a"); c.Flushed == c.Txid {
		t.Error("the next record counts as flushed")
	}
}

// race lets many owners want one effect at a time.
func race(t *testing.T, s Store) {
	for round := range 5 {
		var wg sync.WaitGroup
		granted := make([]bool, 16)
		for i := range granted {
			wg.Go(func() {
				got, err := s.Claim(context.WithoutCancel(t.Context()), []worker.Claim{{Run: "a", Effect: fmt.Sprint(round), Owner: fmt.Sprint(i), Lease: long}})
				if err != nil {
					t.Errorf("Claim: %v", err)
					return
				}
				granted[i] = got[0].OK
			})
		}
		wg.Wait()
		n := 0
		for _, g := range granted {
			if g {
				n++
			}
		}
		if n != 1 {
			t.Errorf("round %d: %d of %d owners got the claim, want 1", round, n, len(granted))
		}
	}
}
