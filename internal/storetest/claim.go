package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/worker"
)

func claim(t *testing.T, s Store, effect, owner string, lease time.Duration) worker.Granted {
	t.Helper()
	got, err := s.Claim(t.Context(), []worker.Claim{{Run: "a", Effect: effect, Owner: owner, Lease: lease}})
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return got[0]
}

// awaitFree waits until a brief lease is over, by the store's own word.
func awaitFree(t *testing.T, s Store, effect, owner string) {
	t.Helper()
	for {
		g := claim(t, s, effect, owner, long)
		if g.OK {
			return
		}
		if g.Left <= 0 || g.Left > brief {
			t.Fatalf("Left = %v, want within (0, %v]", g.Left, brief)
		}
		select {
		case <-time.After(g.Left):
		case <-t.Context().Done():
			t.Fatal("the lease never ended")
		}
	}
}

func saveClaims(t *testing.T, s Store) {
	grants := func(seq uint64, owner string, release, claims []string) []bool {
		return save(t, s, worker.Save{Stored: Stored(t, "a", seq), Claim: claims, Release: release, Owner: owner, Lease: long})[0].Granted
	}
	for i, step := range []struct {
		name           string
		owner          string
		release, claim []string
		want           []bool
	}{
		{"free ones", "w", nil, []string{"x", "y"}, []bool{true, true}},
		{"held by the same owner for another record", "w", nil, []string{"x", "z"}, []bool{false, true}},
		{"held by another", "v", []string{"x"}, []string{"x"}, []bool{false}},
		{"released, then another", "w", []string{"x", "unknown"}, []string{"u"}, []bool{true}},
		{"let go of", "v", nil, []string{"x", "y"}, []bool{true, false}},
		{"released and claimed at once", "w", []string{"y"}, []string{"y"}, []bool{true}},
		{"nothing", "w", []string{"y", "z", "u"}, nil, []bool{}},
	} {
		if got := grants(uint64(i+1), step.owner, step.release, step.claim); !cmp.Equal(got, step.want) {
			t.Errorf("%s: granted %v, want %v", step.name, got, step.want)
		}
	}
	if g := claim(t, s, "y", "v", long); !g.OK {
		t.Errorf("y was released and is not free: %v left", g.Left)
	}
}

func newerGrantsNothing(t *testing.T, s Store) {
	save(t, s, worker.Save{Stored: Stored(t, "a", 5), Claim: []string{"x"}, Owner: "w", Lease: long})
	got := save(t, s, worker.Save{Stored: Stored(t, "a", 4), Claim: []string{"y", "z"}, Release: []string{"x"}, Owner: "w", Lease: long})
	if want := (worker.Saved{Newer: 5, Granted: []bool{false, false}}); !cmp.Equal(got[0], want) {
		t.Fatalf("Save = %v, want %v", got[0], want)
	}
	if g := claim(t, s, "y", "v", long); !g.OK {
		t.Error("an effect was claimed for an older record")
	}
	if g := claim(t, s, "x", "v", long); g.OK {
		t.Error("an effect was released for an older record")
	}
}

// repeatedSave is what a worker does whose first answer got lost.
func repeatedSave(t *testing.T, s Store) {
	sv := worker.Save{Stored: Stored(t, "a", 3), Claim: []string{"x"}, Release: []string{"r"}, Owner: "w", Lease: long}
	first := save(t, s, sv)
	if again := save(t, s, sv); !cmp.Equal(again, first) || !again[0].Granted[0] {
		t.Errorf("Save again = %v, want %v", again, first)
	}
	sv.Owner = "v"
	if got := save(t, s, sv); got[0].Newer != 0 || got[0].Granted[0] {
		t.Errorf("Save by another owner = %v, want x not granted", got[0])
	}
	sv.Release = []string{"x"}
	if save(t, s, sv); claim(t, s, "x", "u", long).OK {
		t.Error("another owner released x")
	}
}

func leases(t *testing.T, s Store) {
	save(t, s, worker.Save{Stored: Stored(t, "a", 1)})
	if g := claim(t, s, "x", "w", brief); !g.OK || g.Left != 0 {
		t.Fatalf("Claim of a free effect = %v", g)
	}
	if g := claim(t, s, "x", "w", long); g.OK {
		t.Error("a claim was granted to the same owner twice")
	}
	awaitFree(t, s, "x", "v")
	if g := claim(t, s, "x", "w", brief); g.OK || g.Left < long/2 || g.Left > long {
		t.Errorf("Claim of a held effect = %v, want about %v left", g, long)
	}

	// A claim that Save took ends by its lease, too, and Save takes over one
	// that ended.
	save(t, s, worker.Save{Stored: Stored(t, "a", 2), Claim: []string{"y", "z"}, Owner: "w", Lease: brief})
	awaitFree(t, s, "y", "v")
	awaitFree(t, s, "z", "v")
	if err := s.Release(t.Context(), []worker.Claim{{Run: "a", Effect: "z", Owner: "v"}}); err != nil {
		t.Fatalf("Release: %v", err)
	}
	got := save(t, s, worker.Save{Stored: Stored(t, "a", 3), Claim: []string{"y", "z"}, Owner: "u", Lease: long})
	if want := []bool{false, true}; !cmp.Equal(got[0].Granted, want) {
		t.Errorf("granted %v, want %v", got[0].Granted, want)
	}
}

func owners(t *testing.T, s Store) {
	save(t, s, worker.Save{Stored: Stored(t, "a", 1)})
	of := func(owner string, lease time.Duration) []worker.Claim {
		return []worker.Claim{{Run: "a", Effect: "x", Owner: owner, Lease: lease}, {Run: "b", Effect: "x", Owner: owner, Lease: lease}}
	}
	renew := func(owner string, lease time.Duration) {
		t.Helper()
		if err := s.Renew(t.Context(), of(owner, lease)); err != nil {
			t.Fatalf("Renew: %v", err)
		}
	}
	release := func(owner string) {
		t.Helper()
		if err := s.Release(t.Context(), of(owner, 0)); err != nil {
			t.Fatalf("Release: %v", err)
		}
	}
	claim(t, s, "x", "w", brief)
	renew("w", long)
	if g := claim(t, s, "x", "v", long); g.OK || g.Left <= brief {
		t.Errorf("Renew did not prolong: %v", g)
	}
	renew("v", 2*long)
	if g := claim(t, s, "x", "v", long); g.OK || g.Left > long {
		t.Errorf("Renew took or prolonged another's claim: %v", g)
	}
	release("v")
	release("w2") // an owner whose name begins like the holder's
	if g := claim(t, s, "x", "u", long); g.OK {
		t.Error("Release by another owner let go")
	}
	release("w")
	renew("v", long)
	if g := claim(t, s, "x", "w", long); g.OK {
		t.Error("Renew did not take what nobody held")
	}
	release("v")
	if g := claim(t, s, "x", "w", long); !g.OK {
		t.Errorf("Release did not let go: %v", g)
	}
}

func claimOfUnknown(t *testing.T, s Store) {
	if g := claim(t, s, "x", "w", long); !g.OK {
		t.Fatalf("Claim of an unknown run = %v", g)
	}
	if c := load(t, s, "a"); c != nil {
		t.Fatalf("a claim made a copy: %v", c)
	}
	got := save(t, s, worker.Save{Stored: Stored(t, "a", 1), Claim: []string{"x"}, Owner: "v", Lease: long})
	if got[0].Granted[0] || seqOf(load(t, s, "a")) != 1 {
		t.Fatalf("Save = %v, copy %d, want it written and x not granted", got[0], seqOf(load(t, s, "a")))
	}
}
