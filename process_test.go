package pawl

import (
	"net"
	"testing"

	"github.com/pawlrun/pawl/internal/webhook"
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
