package main

import (
	"testing"

	"github.com/pawlrun/pawl/internal/cli"
)

// Who is named by --as speaks also where no worker is there to hear it from the
// server: an answer of theirs is not taken for one of who uses the machine.
func TestWhoIsNamedSpeaks(t *testing.T) {
	t.Parallel()
	a := &app{Tool: &cli.Tool{Getenv: func(string) string { return "jo" }}}
	if got := a.User(); got != "jo" {
		t.Errorf("without --as it is %q who speaks, want who uses the machine", got)
	}
	a.user = "ann"
	if got := a.User(); got != "ann" {
		t.Errorf("with --as ann it is %q who speaks", got)
	}
}
