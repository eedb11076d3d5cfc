package main

import (
	"bytes"
	"strings"
	"testing"
)

// Help was asked for, so it is what the command prints; a mistake is one line.
func TestUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"--help", 0, usage, ""},
		{"-h", 0, usage, ""},
		{"--nosuch", 2, "", "worker: flag provided but not defined: -nosuch; see worker --help\n"},
		{"serve", 2, "", "worker: unexpected argument \"serve\"; see worker --help\n"},
	}
	for _, test := range tests {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(test.args), nil, &stdout, &stderr)
		if code != test.code || stdout.String() != test.stdout || stderr.String() != test.stderr {
			t.Errorf("worker %s = %d, %q, %q, want %d, %q, %q", test.args, code, &stdout, &stderr, test.code, test.stdout, test.stderr)
		}
	}
}
