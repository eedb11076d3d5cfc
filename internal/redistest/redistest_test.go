package redistest_test

import (
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
