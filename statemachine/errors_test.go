package statemachine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// TestErrors is the table of what handlers say, and how it is read.
func TestErrors(t *testing.T) {
	t.Parallel()
	base := errors.New("it broke")
	tests := []struct {
		name     string
		err      error
		class    string
		terminal bool
		later    bool
		after    time.Duration
		timed    bool
	}{
		{"none", nil, "", false, false, 0, false},
		{"plain", base, "error", false, false, 0, false},
		{"terminal", sm.Terminal("not_found", base), "not_found", true, false, 0, false},
		{"classed", sm.Classed("http_5xx", base), "http_5xx", false, false, 0, false},
		{"retry after", sm.RetryAfter(time.Second, base), "error", false, false, time.Second, true},
		{"retry after zero", sm.RetryAfter(0, base), "error", false, false, 0, true},
		{"classed retry after", sm.Classed("busy", sm.RetryAfter(time.Second, base)), "busy", false, false, time.Second, true},
		{"retry after, of a class", sm.RetryAfter(time.Second, sm.Classed("busy", base)), "busy", false, false, time.Second, true},
		{"later", sm.Later(time.Minute, base), "error", false, true, time.Minute, true},
		{"later, whenever", sm.Later(0, nil), "error", false, true, 0, false},
		{"terminal without an error", sm.Terminal("gone", nil), "gone", true, false, 0, false},
		{"wrapped", fmt.Errorf("send: %w", sm.Terminal("gone", base)), "gone", true, false, 0, false},
		{"joined", errors.Join(base, sm.Terminal("gone", base)), "gone", true, false, 0, false},
		{"outermost class", sm.Terminal("outer", sm.Classed("inner", base)), "outer", true, false, 0, false},
		{"later that is terminal inside", fmt.Errorf("x: %w", sm.Later(0, sm.Terminal("gone", base))), "gone", false, true, 0, false},
		{"deadline", fmt.Errorf("call: %w", context.DeadlineExceeded), "timeout", false, false, 0, false},
		{"classed deadline", sm.Classed("slow", context.DeadlineExceeded), "slow", false, false, 0, false},
		{"fault", &sm.FaultError{Class: sm.ClassPanic, Err: base}, "panic", false, false, 0, false},
		{"limit", fmt.Errorf("seal: %w", &sm.LimitError{What: "data"}), "too_large", false, false, 0, false},
	}
	for _, tt := range tests {
		after, timed := sm.RetryAfterOf(tt.err)
		if got := sm.ClassOf(tt.err); got != tt.class {
			t.Errorf("%s: ClassOf = %q, want %q", tt.name, got, tt.class)
		}
		if got := sm.IsTerminal(tt.err); got != tt.terminal {
			t.Errorf("%s: IsTerminal = %t", tt.name, got)
		}
		if got := sm.IsLater(tt.err); got != tt.later {
			t.Errorf("%s: IsLater = %t", tt.name, got)
		}
		if after != tt.after || timed != tt.timed {
			t.Errorf("%s: RetryAfterOf = %v, %t, want %v, %t", tt.name, after, timed, tt.after, tt.timed)
		}
		if tt.err != nil && tt.err.Error() == "" {
			t.Errorf("%s: it says nothing", tt.name)
		}
	}
	if err := sm.Terminal("gone", base); !errors.Is(err, base) || err.Error() != "it broke" {
		t.Errorf("Terminal hides the error: %v", err)
	}
}
