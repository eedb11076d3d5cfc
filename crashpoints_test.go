package pawl_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
)

// By default a worker is held at every fourth point, and dies with Redis at every
// other fourth:
//
//	go test . -run TestCrashPoints -v -crash.all
var crashAll = flag.Bool("crash.all", false, "every fault at every crash point")

// crashing is cmd/worker with crash points.
var crashing = sync.OnceValues(func() (string, error) {
	if _, err := binary(); err != nil { // makes the directory
		return "", err
	}
	path := filepath.Join(binaryDir, "crashing-worker")
	out, err := exec.Command("go", "build", "-tags", "crashpoints", "-o", path, "./cmd/worker").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build cmd/worker with crash points: %w\n%s", err, out)
	}
	return path, nil
})

const (
	crashCalls = 10 // runs that call the sink, step by step
	crashSteps = 3
	crashFan   = 4 // calls of one run at once
)

// crashed is a fleet whose first worker meets its end at a point.
type crashed struct {
	*fleet
	sink *sink
	hits string        // file
	wait time.Duration // AckWait
	runs int
}

// A worker dies, dies together with all that Redis knows, is held for longer
// than AckWait, or is told of an error, at each point of the protocol, while
// another one is there to go on: every run ends, each step is performed under one key, and again only where the first
// worker was at it, no end is told twice, and nothing is left in the queues. A
// point that is not reached fails.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	errors := map[string]bool{"append.sent": true} // points that make something of an error
	for i, point := range crash.Points() {
		for j, action := range []string{"exit", "stop", "lost", "error"} {
			if action == "error" && !errors[point] || !*crashAll && (j == 1 || j == 2) && (i+2*j)%4 != 0 {
				continue
			}
			t.Run(point+" "+action, func(t *testing.T) {
				t.Parallel()
				c := newCrashed(t, point == "sweep.claimed" || point == "sweep.appended")
				first := c.first(point, strings.Replace(action, "lost", "exit", 1))
				c.load()
				c.meets(point)
				if action == "lost" {
					<-first.done
					c.forget()
				}
				second := startProcess(t, c.env)
				switch action {
				case "exit":
					<-first.done
				case "stop":
					<-time.After(c.wait + 700*time.Millisecond) // the rest of the fleet goes on without it
					_ = first.cmd.Process.Signal(syscall.SIGCONT)
				}
				c.finish(action)
				if code := second.stop(); code != 0 {
					t.Errorf("the second worker ended with %d", code)
				}
			})
		}
	}
}

// newCrashed has a fleet with a short AckWait, or one that is long enough for
// the sweeper to come before messages do.
func newCrashed(t *testing.T, long bool) *crashed {
	wait := 700 * time.Millisecond
	if long {
		wait = 12 * time.Second
	}
	n := natstest.One(t)
	url := n.URL()
	topology := natsqueue.Topology{Effects: catalog(t, t.TempDir()).Effects(), AckWait: wait, EffectAckWait: wait}
	if _, err := natsqueue.Provision(t.Context(), n.Conn(), topology); err != nil {
		t.Fatal(err)
	}
	f := join(t, url, false)
	_, addr := redisServer(t)
	f.redis = addr
	f.env = map[string]string{
		"PAWL_NATS_URL": url, "PAWL_REDIS_ADDR": addr, "PAWL_WORKER_ACK_WAIT": wait.String(), "PAWL_WORKER_EFFECT_ACK_WAIT": wait.String(),
		"PAWL_WORKER_INLINE_MAX": "6", "PAWL_WORKER_QUEUED_MAX": "6", "PAWL_WORKER_SWEEP_EVERY": "1s",
	}
	s := newSink(t, func(int) time.Duration { return 20 * time.Millisecond })
	return &crashed{fleet: f, sink: s, wait: wait, hits: filepath.Join(t.TempDir(), "hits")}
}

// first starts the worker that meets its end. Some points are reached only by
// a fleet to which something happened before.
func (c *crashed) first(point, action string) *process {
	c.t.Helper()
	path, err := crashing()
	if err != nil {
		c.t.Fatal(err)
	}
	own := map[string]string{"PAWL_CRASH": point + ":" + action, "PAWL_CRASH_HITS": c.hits}
	switch point {
	case "line.put": // starts stand in line where few are in hand
		own["PAWL_WORKER_IN_FLIGHT"] = "4"
	case "sweep.claimed", "sweep.appended": // somebody died before it called what it had asked for
		c.loadCalls() // no other run is in its first batch
		dead := startBinary(c.t, path, env(c.env, map[string]string{"PAWL_CRASH": "turn.committed:exit"}))
		<-dead.done
	}
	return startBinary(c.t, path, env(c.env, own))
}

// loadCalls starts the runs that call the sink step by step, once.
func (c *crashed) loadCalls() {
	if c.runs > 0 {
		return
	}
	url := c.sink.URL
	for i := range crashCalls {
		var steps []string
		for j := range crashSteps {
			place := ""
			if j == 1 {
				place = `,"place":"queued"`
			}
			steps = append(steps, fmt.Sprintf(`{"do":"http.post","input":{"url":%q,"body":"%d/%d"}%s}`, url, i, j, place))
		}
		c.start("kitchensink", fmt.Sprintf("calls-%d", i), `{"steps":[`+strings.Join(steps, ",")+`]}`)
	}
	c.runs = crashCalls + 4 // and those of load, with a child
}

// load starts runs of all kinds, and one start that is refused.
func (c *crashed) load() {
	c.loadCalls()
	url := c.sink.URL
	var fan []string
	for j := range crashFan {
		fan = append(fan, fmt.Sprintf(`{"do":"http.post","input":{"url":%q,"body":"fan/%d"}}`, url, j))
	}
	c.start("kitchensink", "fan", `{"steps":[{"fan":[`+strings.Join(fan, ",")+`],"limit":2}]}`)
	c.start("kitchensink", "waits", `{"steps":[{"sleep":"100ms"},{"await":"go","timeout":"1h"},{"do":"noop"}]}`)
	c.start("kitchensink", "parent", `{"steps":[{"child":{"machine":"kitchensink","input":{"steps":[{"do":"noop"}]}}},{"do":"noop"}]}`)
	c.start("kitchensink", "refused", `{"steps":7}`)
}

// meets waits until the first worker has reached the point.
func (c *crashed) meets(point string) {
	c.t.Helper()
	eventually(c.t, 30*time.Second, "a worker at "+point, func() bool {
		if r := c.last("waits"); r != nil && r.To == "await" { // whose time-out is disarmed
			c.signal("waits", "go", "go", nil)
		}
		b, err := os.ReadFile(c.hits)
		return err == nil && bytes.Contains(b, []byte(point+"\n"))
	})
	c.signal("waits", "go", "go", nil) // the same again, or the first
}

// finish waits for all runs, and looks at what was performed.
func (c *crashed) finish(action string) {
	c.t.Helper()
	for i := range crashCalls {
		c.succeeds(fmt.Sprintf("calls-%d", i))
	}
	for _, run := range []string{"fan", "waits", "parent"} {
		c.succeeds(run)
	}
	if n := len(c.letters(1)); n != 1 {
		c.t.Errorf("%d letters, want the one of the start that is refused", n)
	}
	c.idle()
	c.toldOnce(c.runs)
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	if n := len(c.sink.keys); n != crashCalls*crashSteps+crashFan {
		c.t.Errorf("%d steps were performed, want %d", n, crashCalls*crashSteps+crashFan)
	}
	for step, keys := range c.sink.keys {
		if len(keys) != 1 {
			c.t.Errorf("step %s was performed under %d keys", step, len(keys))
		}
	}
	most := 2 // once by each worker
	if action == "error" {
		most = 1 // what was in its hands it kept
	}
	for key, at := range c.sink.calls {
		if len(at) > most {
			c.t.Errorf("key %s was called at %s, want %d calls at most", key, clocks(at), most)
		}
	}
}

func (c *crashed) succeeds(run string) {
	c.t.Helper()
	if r := c.ended(run); r.Status != statemachine.StatusSucceeded {
		c.t.Errorf("run %s: %s", run, describe(r))
	}
	c.history(run) // is a chain
}
