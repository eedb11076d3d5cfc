package pawl_test

import (
	"strings"
	"testing"
	"time"
)

// Somebody has changed a stream and a consumer by hand, so that the fleet would
// lose messages: a worker names both, and waits until it is mended. What harms
// nothing is only a line in the log.
func TestStreamChangedByHandIsNamed(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	change := func(age time.Duration, deliver int, window time.Duration) {
		t.Helper()
		s, err := f.js.Stream(t.Context(), "PAWL_HISTORY")
		if err != nil {
			t.Fatal(err)
		}
		c := s.CachedInfo().Config
		c.MaxAge, c.Duplicates = age, window
		if _, err := f.js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		due, err := f.js.Consumer(t.Context(), "PAWL_TIMERS", "due")
		if err != nil {
			t.Fatal(err)
		}
		d := due.CachedInfo().Config
		d.MaxDeliver = deliver
		if _, err := f.js.UpdateConsumer(t.Context(), "PAWL_TIMERS", d); err != nil {
			t.Fatal(err)
		}
	}
	change(time.Hour, 5, time.Minute)
	addr := freeAddr(t)
	p := startProcess(t, env(f.env, map[string]string{"PAWL_HTTP_ADDR": addr}))
	eventually(t, 30*time.Second, "the worker to name what was changed", func() bool {
		status, body := get("http://" + addr + "/readyz")
		return status == 503 && strings.Contains(body, "stream PAWL_HISTORY has maximum age 1h0m0s, want 0s: see `pawl provision --dry-run`") &&
			strings.Contains(body, "consumer PAWL_TIMERS/due has maximum deliveries 5, want -1")
	})
	change(0, -1, time.Minute)
	eventually(t, 30*time.Second, "the worker to be ready", func() bool {
		status, _ := get("http://" + addr + "/readyz")
		return status == 200
	})
	if want := `object="stream PAWL_HISTORY" field="duplicate window" have=1m0s want=100ms`; !strings.Contains(p.log.String(), want) {
		t.Errorf("the log has no %s:\n%s", want, p.log.tail(2000))
	}
}
