package statemachine_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sm "github.com/pawlrun/pawl/statemachine"
)

// TestPolicies checks that what is given stands before what a handler was
// declared with, value by value, and in the new catalog only.
func TestPolicies(t *testing.T) {
	t.Parallel()
	const pay sm.Effect[int, int] = "pay"
	c := new(sm.Catalog)
	sm.Handle(c, pay, func(context.Context, string, int) (int, error) { return 0, nil },
		sm.Policy{Timeout: time.Minute, Attempts: 3, Waits: sm.Waits{First: time.Second}, InDoubt: sm.Verify})
	sm.Verifier(c, pay, func(context.Context, string, int) (int, error) { return 0, sm.ErrNotDone })
	with := c.With(map[string]sm.Policy{"pay": {Attempts: 2, Waits: sm.Waits{Max: time.Hour}, InDoubt: sm.Halt, Queued: true}})
	if err := with.Check(); err != nil {
		t.Fatal(err)
	}
	before, _ := c.Handler("pay")
	after, _ := with.Handler("pay")
	want := sm.Policy{Timeout: time.Minute, Attempts: 2, Waits: sm.Waits{First: time.Second, Max: time.Hour}, InDoubt: sm.Halt, Queued: true}
	if diff := cmp.Diff(want, after.Policy); diff != "" {
		t.Errorf("the policy (-want +got):\n%s", diff)
	}
	if before.Policy.Attempts != 3 || after.Verify == nil {
		t.Errorf("before %+v; after it has no verifier", before.Policy)
	}
}

// TestPolicyFaults checks that all that is wrong with policies is said when
// the catalog is checked.
func TestPolicyFaults(t *testing.T) {
	t.Parallel()
	const a, b, d sm.Effect[int, int] = "a", "b", "d"
	nop := func(context.Context, string, int) (int, error) { return 0, nil }
	c := new(sm.Catalog)
	sm.Verifier(c, d, nop)
	sm.Handle(c, a, nop, sm.Policy{Timeout: -1, Attempts: -2, Waits: sm.Waits{First: time.Hour, Factor: 0.5, Max: time.Minute}, InDoubt: "hope"})
	sm.Handle(c, b, nop, sm.Policy{InDoubt: sm.Verify})
	sm.Handle(c, d, nop)
	sm.Verifier(c, d, nop)
	sm.Verifier(c, d, nop)
	err := c.With(map[string]sm.Policy{"e": {}}).Check()
	want := `effect "d": has a verifier, but no handler before it
effect "d": has two verifiers
effect "e": has a policy, but no handler
effect "a": policy: timeout -1ns is negative
effect "a": policy: -2 attempts
effect "a": policy: factor 0.5 is below 1
effect "a": policy: the first wait (1h0m0s) is longer than the longest (1m0s)
effect "a": policy: in doubt: "hope" is not repeat, verify or halt
effect "b": policy: in doubt it is to be verified, but it has no verifier`
	if err == nil || err.Error() != want {
		t.Errorf("Check = %v\nwant %s", err, want)
	}
}
