package pawl

import (
	"net"
	"testing"

	"github.com/pawlrun/pawl/internal/config"
	"github.com/pawlrun/pawl/internal/webhook"
	"github.com/pawlrun/pawl/redisstore"
)

// A process that can no longer take starts over HTTP ends with that error,
// rather than being ready for what it does not do.
func TestServerOfStartsThatEndsEndsTheProcess(t *testing.T) {
	hooks, err := webhook.Listen(webhook.Options{Addr: "127.0.0.1:0", Tokens: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := hooks.Close(); err != nil { // as if the system had taken its socket
		t.Fatal(err)
	}
	var failed error
	p := &Process{fail: func(err error) { failed = err }}
	p.vital(t.Context(), hooks.Run)
	if failed == nil || failed.Error() == net.ErrClosed.Error() {
		t.Errorf("the process failed with %v, want an error that says what it was doing", failed)
	}
}

// How a limit stands is told of what it limits: what has no limit is not counted.
func TestALimitIsToldOfWhatItLimits(t *testing.T) {
	u := redisstore.Usage{InUse: 9, Waiting: 80, KeyInUse: 5, KeyWaiting: 70}
	for _, tt := range []struct {
		limit config.Limit
		want  string
	}{
		{config.Limit{Concurrency: 9}, "; under way: 9, waiting: 80"},
		{config.Limit{PerKey: 5}, "; under way with its key: 5, waiting: 70"},
		{config.Limit{Concurrency: 9, PerKey: 5}, "; under way: 9, waiting: 80, of them with its key: 5 and 70"},
	} {
		if got := standing(tt.limit, u); got != tt.want {
			t.Errorf("standing(%+v) = %q, want %q", tt.limit, got, tt.want)
		}
	}
}
