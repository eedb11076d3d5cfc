package main

import (
	"bytes"
	"strings"
	"testing"
)

// The samples run once each, whatever versions their machines have, and succeed.
func TestDemo(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--demo"}, nil, &stdout, &stderr)
	if out := stdout.String(); code != 0 || !strings.Contains(out, "\n6 of 6 runs succeeded, 27 effects performed, ") || strings.Count(out, "pawl.start.kitchensink ") != 1 {
		t.Errorf("worker --demo = %d\n%s\n%s", code, out, &stderr)
	}
}
