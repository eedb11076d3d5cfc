package pawl_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/embedded"
)

// A worker that is told to stop in the middle of its runs finishes what is
// under way, gives the rest back, and exits in order: no call is repeated,
// nothing is dead-lettered, and the next worker goes on at once.
func TestStopUnderLoadRepeatsNothing(t *testing.T) {
	f := realServers(t)
	k := newKillCheck(t)
	for i := range killRuns {
		f.start("kitchensink", fmt.Sprintf("kill-%d", i), killScript(k.sink.URL, i))
	}
	for _, calls := range []int{100, 300} {
		p := startProcess(t, env(f.env, slowly))
		k.progress(calls)
		began := time.Now()
		if code := p.stop(); code != 0 {
			t.Errorf("the worker exited with %d:\n%s", code, p.log.tail(2000))
		}
		t.Logf("stopped in %s after %d calls", time.Since(began).Round(time.Millisecond), calls)
	}
	startProcess(t, f.env)
	k.finish(f) // no kill excuses anything
	if n := len(f.letters(0)); n != 0 {
		t.Errorf("%d letters after two stops, want none", n)
	}
}

// A second process on the same data directory says who holds it and how to
// join that fleet, and leaves it alone.
func TestSecondProcessSaysWhoHoldsTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := embedded.Start(t.Context(), embedded.Options{Dir: dir, NATSListen: "127.0.0.1:0", RedisListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	p := startProcess(t, map[string]string{"PAWL_DATA_DIR": dir, "PAWL_NATS_LISTEN": "127.0.0.1:0", "PAWL_REDIS_LISTEN": "127.0.0.1:0"})
	<-p.done
	for _, want := range []string{dir, "is held by process", "PAWL_NATS_URL=" + s.NATSURL(), "PAWL_REDIS_ADDR=" + s.RedisAddr()} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("it does not say %q, but:\n%s", want, p.log)
		}
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("it exited with %d, want 1", code)
	}
}

// One of the two addresses alone would split the fleet: it is refused.
func TestOneOfTwoAddressesIsRefused(t *testing.T) {
	t.Parallel()
	p := startProcess(t, map[string]string{"PAWL_NATS_URL": "nats://127.0.0.1:1"})
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(p.log.String(), "PAWL_REDIS_ADDR") {
		t.Errorf("exit code %d, want 2 and a line that names PAWL_REDIS_ADDR:\n%s", code, p.log)
	}
}

// A configuration with three mistakes reports three.
func TestThreeMistakesAreThreeLines(t *testing.T) {
	t.Parallel()
	p := startProcess(t, map[string]string{"PAWL_WORKER_LANES": "0", "PAWL_RETRY_ATTEMPTS": "none", "PAWL_NATS_LISTEN": "0.0.0.0:4222"})
	<-p.done
	said := p.log.String()
	for _, want := range []string{"worker.lanes", "retry.attempts", "nats.listen"} {
		if strings.Count(said, want) != 1 {
			t.Errorf("it does not name %s once, but says:\n%s", want, said)
		}
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}

// HISTORY is deleted, and made anew, under a worker that runs: the worker says
// so, is not ready, and ends; it answers no new start from what it knew of the
// old stream. The next one works on the new stream.
func TestHistoryMadeAnewEndsTheProcess(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	httpAddr := freeAddr(t)
	p := startProcess(t, env(f.env, map[string]string{"PAWL_HTTP_ADDR": httpAddr}))
	f.start("kitchensink", "before", oneNoop)
	f.ended("before")
	if err := f.js.DeleteStream(t.Context(), "PAWL_HISTORY"); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.log.String(), "PAWL_HISTORY is missing") {
		t.Errorf("exit code %d, want 1 and a line that names the stream:\n%s", code, p.log.tail(2000))
	}
	provision(t, f.nc)
	g := join(t, f.env["PAWL_NATS_URL"], false)
	g.env = f.env
	startProcess(t, f.env)
	g.start("kitchensink", "before", oneNoop) // new to this stream
	if r := g.ended("before"); r.Rev != 2 {
		t.Errorf("%s", describe(r))
	}
}
