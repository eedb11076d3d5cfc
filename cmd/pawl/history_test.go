package main

import (
	"testing"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/statemachine"
)

// The stack of a handler that panicked is not in the line that says it did.
func TestAnEventIsOneLine(t *testing.T) {
	r := &api.Revision{Events: []api.Event{{Kind: statemachine.EventFailure, Name: "model.chat", Error: &statemachine.Cause{Class: "panic", Message: "oops\ngoroutine 1 [running]:"}}}}
	if got, want := events(r), "failure model.chat (panic: oops …)"; got != want {
		t.Errorf("events = %q, want %q", got, want)
	}
}
