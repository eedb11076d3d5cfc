package model

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	flagAll   = flag.Bool("model.all", false, "search the large settings as well")
	flagLimit = flag.Int("model.limit", 34_000_000, "states at which a large search is cut")
	flagOnly  = flag.String("model.only", "", "search only the settings with these comma-separated first words")
	flagTrace = flag.Bool("model.trace", false, "print the shortest trace of every flaw")
)

// smallSearch is the size up to which a setting is searched under -short and
// under the race detector.
const smallSearch = 100_000

// selected reports whether a setting is searched: if it was asked for, or,
// where nothing was, if it is not too large for now.
func selected(name string, least int) bool {
	if *flagOnly != "" {
		return slices.Contains(strings.Split(*flagOnly, ","), firstWord(name))
	}
	return least <= smallSearch || !underRace && !testing.Short()
}

func firstWord(name string) string {
	word, _, _ := strings.Cut(name, " ")
	return word
}

// report collects results of parallel searches.
type report struct {
	mu      sync.Mutex
	results []Result
}

func (r *report) add(x Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, x)
}

func (r *report) String() string {
	var b strings.Builder
	slices.SortFunc(r.results, func(x, y Result) int { return strings.Compare(x.Name, y.Name) })
	total := 0
	for _, x := range r.results {
		fmt.Fprintf(&b, "\n%-78s %9d states %6.1fs  %s", x.Name, x.States, x.Elapsed.Seconds(), x.Verdict())
		total += x.States
	}
	fmt.Fprintf(&b, "\n%d searches, %d states", len(r.results), total)
	return b.String()
}

// TestProtocol searches the protocol as it should be: nothing may break.
func TestProtocol(t *testing.T) {
	var rep report
	t.Run("whole", func(t *testing.T) {
		for _, set := range Settings() {
			if !selected(set.Name, set.Least) {
				continue
			}
			t.Run(firstWord(set.Name), func(t *testing.T) {
				t.Parallel()
				r := Check(set, Options{Completion: true})
				rep.add(r)
				mustHold(t, r)
				if !r.Whole || r.Ends == 0 || r.States < set.Least {
					t.Errorf("searched %d states, %d ends, whole %v; want at least %d states, all of them", r.States, r.Ends, r.Whole, set.Least)
				}
			})
		}
	})
	t.Run("large", func(t *testing.T) {
		if !*flagAll && *flagOnly == "" {
			return // only when asked for
		}
		for _, set := range LargeSettings() {
			if !selected(set.Name, 0) {
				continue
			}
			t.Run(firstWord(set.Name), func(t *testing.T) {
				r := Check(set, Options{Completion: true, Limit: *flagLimit})
				rep.add(r)
				t.Logf("%s: %d states, %.1fs, %s", r.Name, r.States, r.Elapsed.Seconds(), r.Verdict())
				mustHold(t, r)
			})
		}
	})
	t.Log(rep.String())
}

func mustHold(t *testing.T, r Result) {
	t.Helper()
	if r.Found != None {
		t.Errorf("%s: %v is violated after %d states:\n%s", r.Name, r.Found, r.States, strings.Join(r.Trace, "\n"))
	}
}

// TestFlaws removes one safeguard after the other: each search must find the
// property it guards violated.
func TestFlaws(t *testing.T) {
	var rep report
	t.Run("each", func(t *testing.T) {
		for _, set := range FlawSettings() {
			if !selected(set.Name, set.Least) {
				continue
			}
			t.Run(firstWord(set.Name), func(t *testing.T) {
				t.Parallel()
				r := Check(set, Options{Until: set.Breaks, Completion: set.Breaks == Stuck})
				rep.add(r)
				mustBreak(t, r, set.Breaks)
			})
		}
	})
	t.Log(rep.String())
	if len(rep.results) == 0 {
		return
	}
	short := slices.MinFunc(rep.results, func(x, y Result) int { return len(x.Trace) - len(y.Trace) })
	t.Logf("the shortest trace, %s:\n%s", short.Name, strings.Join(short.Trace, "\n"))
}

func mustBreak(t *testing.T, r Result, want Property) {
	t.Helper()
	if r.Found != want || len(r.Trace) == 0 {
		t.Errorf("%s: found %v in %d states, want %v", r.Name, r.Found, r.States, want)
	}
	if *flagTrace {
		t.Logf("%s breaks %v:\n%s", r.Name, r.Found, strings.Join(r.Trace, "\n"))
	}
}

// TestFlawsAreCovered finds a flaw without a setting.
func TestFlawsAreCovered(t *testing.T) {
	covered := map[Flaw]bool{Sound: true}
	for _, set := range FlawSettings() {
		if set.Breaks == None {
			t.Errorf("%s breaks nothing", set.Name)
		}
		covered[set.Flaw] = true
	}
	for f := range flaws {
		if !covered[f] {
			t.Errorf("no setting shows what flaw %d breaks", f)
		}
	}
}

// TestGroupCommit searches the second model, sound and flawed.
func TestGroupCommit(t *testing.T) {
	var rep report
	t.Run("each", func(t *testing.T) {
		for _, set := range BatchSettings() {
			if !selected(set.Name, set.Least) {
				continue
			}
			t.Run(firstWord(set.Name), func(t *testing.T) {
				t.Parallel()
				r := CheckBatch(set, Options{Until: set.Breaks, Completion: true})
				rep.add(r)
				if set.Breaks != None {
					mustBreak(t, r, set.Breaks)
					return
				}
				mustHold(t, r)
				if !r.Whole || r.Ends == 0 || r.States < set.Least {
					t.Errorf("searched %d states, %d ends; want at least %d states", r.States, r.Ends, set.Least)
				}
			})
		}
	})
	t.Log(rep.String())
}

// TestLimit checks that a search which was cut says so and claims nothing.
func TestLimit(t *testing.T) {
	r := Check(Settings()[0], Options{Limit: 1000, Completion: true})
	if got, want := r.Verdict(), "holds as far as searched (limit)"; got != want || r.Whole || r.Ends != 0 {
		t.Errorf("cut search: %q, whole %v, %d ends; want %q", got, r.Whole, r.Ends, want)
	}
}

// TestMerging searches without merging anything and merges afterwards: the
// merged states must be just those the merged search meets.
func TestMerging(t *testing.T) {
	for _, set := range []Setting{
		{Name: "two steps; 1 crash", Steps: 2, Budget: Budget{Crash: 1}},
		{Name: "stale reads, late append; 1 loss", Steps: 1, StaleReads: true, Budget: Budget{Late: 1, Loss: 1}},
		{Name: "neutral signal", Steps: 1, Signal: NeutralSignal, Fold: true, Budget: Budget{Late: 1}, Least: smallSearch + 1},
	} {
		if !selected(set.Name, set.Least) {
			continue
		}
		t.Run(set.Name, func(t *testing.T) {
			t.Parallel()
			want := Check(set, Options{})
			apart := newModel(set)
			apart.plain = true
			x := &explorer[State]{sys: apart, seen: newTable[State]()}
			x.search()
			apart.plain = false
			merged := newTable[State]()
			for i := range x.seen.len() {
				s := x.seen.at(i)
				apart.canonical(&s)
				merged.put(&s)
			}
			if merged.len() != want.States {
				t.Errorf("%d states merge to %d, the merged search met %d", x.seen.len(), merged.len(), want.States)
			}
			if x.seen.len() < merged.len()*3/2 {
				t.Errorf("merging saved little: %d of %d states", merged.len(), x.seen.len())
			}
		})
	}
}

func ExampleCheck() {
	set := Setting{
		Name:   "start, two inline effects, one crash",
		Steps:  2,
		Budget: Budget{Crash: 1},
	}
	r := Check(set, Options{Completion: true})
	fmt.Printf("%s: %s\n", r.Name, r.Verdict())

	set.Flaw = LoserAcks
	r = Check(set, Options{})
	fmt.Println("acking because another won:", r.Verdict())
	// Output:
	// start, two inline effects, one crash: holds
	// acking because another won: BREAKS WAKE
}
