package redistest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlrun/pawl/internal/redistest"
)

func TestEachKindAnswers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		if err := c.Set(t.Context(), "{1}:a", "b", 0).Err(); err != nil {
			t.Fatalf("SET on %s: %v", s.Kind, err)
		}
		if got, err := c.Get(t.Context(), "{1}:a").Result(); err != nil || got != "b" {
			t.Fatalf("GET on %s = %q, %v, want b", s.Kind, got, err)
		}
	})
}

// TestClusterRefusesForeignSlots holds what the cluster is there for.
func TestClusterRefusesForeignSlots(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(t) {
		if kind != redistest.Cluster {
			continue
		}
		c := redistest.Start(t, kind).Client(t)
		err := c.Eval(t.Context(), "return 1", []string{"{1}:a", "{2}:a"}).Err()
		if err == nil {
			t.Fatal("a script with keys of two slots was accepted")
		}
	}
}

// A server that is killed and started again has what its append-only file
// has, and nothing without one.
func TestAgainHasWhatItsFileHas(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(t) {
		if kind != redistest.Real {
			continue
		}
		s := redistest.Start(t, kind, "--appendonly", "yes")
		c := s.Client(t)
		for _, want := range []string{"b", ""} {
			if err := c.Set(t.Context(), "a", "b", 0).Err(); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			if err := c.Ping(t.Context()).Err(); err == nil {
				t.Fatal("a dead server answers")
			}
			if want == "" {
				if err := os.RemoveAll(filepath.Join(s.Dir, "appendonlydir")); err != nil {
					t.Fatal(err)
				}
			}
			s.Again(t)
			if got, err := c.Get(t.Context(), "a").Result(); got != want {
				t.Errorf("GET = %q, %v, want %q", got, err, want)
			}
		}
	}
}
