package pawl_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/freeport"
)

// torment has faults happen, each kind once before any comes again, until the
// time is over and each has happened.
func (c *chaos) torment(began time.Time) {
	c.t.Helper()
	kinds := c.kinds()
	for _, k := range kinds {
		c.figures.Faults[k.name] = 0
	}
	for round := 0; round == 0 || time.Since(began) < *chaosFor; round++ {
		for n, i := range c.rng.Perm(len(kinds)) {
			if round > 0 && time.Since(began) > *chaosFor {
				break
			}
			k := kinds[i]
			k.happen()
			c.figures.Faults[k.name]++
			at := time.Now()
			c.advances(fmt.Sprintf("fault %d: %s", round*len(kinds)+n+1, k.name))
			c.figures.Recovery = max(c.figures.Recovery, time.Since(at).Seconds())
			if *chaosFor > 0 { // some calm, in which something gathers
				<-time.After(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
			}
		}
		if *chaosFor > 0 {
			c.t.Logf("%6.0f s: round %d, %d runs ended, %d calls", time.Since(began).Seconds(), round+1, c.ended.Load(), c.calls())
		}
	}
}

// kinds are all faults. When one returns, what it took is there again, or about
// to be.
func (c *chaos) kinds() []fault {
	worker := func() int { return c.rng.IntN(len(c.workers)) }
	node := func() *natsProcess { return c.cluster.nodes[c.rng.IntN(len(c.cluster.nodes))] }
	for_ := func(least, most int) { <-time.After(time.Duration(least+c.rng.IntN(most-least)) * time.Millisecond) }
	h := &hurt{t: c.t, fleet: c.fleet, redis: c.redis}
	forget := func(what string) func() {
		return func() {
			c.redis.Kill()
			h.becomes(what)
			c.redis.Again(c.t)
		}
	}
	return []fault{
		{"worker killed", func() { i := worker(); c.workers[i].kill(); c.begin(i) }},
		{"two workers killed", func() {
			i := worker()
			j := (i + 1) % len(c.workers)
			c.workers[i].kill()
			c.workers[j].kill()
			c.begin(i)
			c.begin(j)
		}},
		{"worker stopped in order", func() {
			i := worker()
			eventually(c.t, chaosHealth, "a worker that has started", func() bool { return strings.Contains(c.workers[i].log.String(), "worker started") })
			if code := c.workers[i].stop(); code != 0 {
				c.t.Errorf("a worker that was asked to stop ended with %d", code)
			}
			c.begin(i)
		}},
		{"worker held for longer than AckWait", func() {
			p := c.workers[worker()].cmd.Process
			_ = p.Signal(syscall.SIGSTOP)
			for_(1500, 4000)
			_ = p.Signal(syscall.SIGCONT)
		}},
		{"Redis killed, with its data", func() { c.redis.Kill(); for_(0, 500); c.redis.Again(c.t) }},
		{"Redis killed, without its data", forget("")},
		{"Redis killed, with old data", func() {
			h.copied()
			before := c.calls()
			eventually(c.t, chaosHealth, "some calls", func() bool { return c.calls() > before+20 })
			forget(h.earlier)()
		}},
		{"Redis cut off", func() { c.proxy.cut(); for_(200, 2500); c.proxy.join() }},
		{"Redis flushed", func() { c.forget() }},
		{"NATS node killed", func() { n := node(); n.kill(); for_(0, 2000); n.start() }},
		{"NATS node held", func() {
			p := node().cmd.Process
			_ = p.Signal(syscall.SIGSTOP)
			for_(500, 4000)
			_ = p.Signal(syscall.SIGCONT)
		}},
		{"streams change their leaders", func() {
			for _, s := range []string{"PAWL_HISTORY", "PAWL_START", "PAWL_EFFECTS", "PAWL_EVENTS", "PAWL_SIGNAL", "PAWL_TIMERS", "PAWL_LEDGER"} {
				h.asks("$JS.API.STREAM.LEADER.STEPDOWN."+s, &struct{}{})
			}
		}},
		{"consumers change their leaders", func() {
			for _, s := range []string{"PAWL_START.start", "PAWL_EFFECTS.effect-http+post", "PAWL_EVENTS.event", "PAWL_SIGNAL.signal", "PAWL_TIMERS.due"} {
				h.asks("$JS.API.CONSUMER.LEADER.STEPDOWN."+s, &struct{}{})
			}
		}},
	}
}

// natsServer is the nats-server of go.mod.
var natsServer = sync.OnceValues(func() (string, error) {
	if _, err := binary(); err != nil { // makes the directory
		return "", err
	}
	path := filepath.Join(binaryDir, "nats-server")
	out, err := exec.Command("go", "build", "-o", path, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w\n%s", err, out)
	}
	return path, nil
})

// natsProcesses are three nats-servers that can be killed.
type natsProcesses struct {
	t     *testing.T
	nodes [3]*natsProcess
}

// natsProcess is one of them.
type natsProcess struct {
	t          *testing.T
	path, conf string
	client     int // port
	cmd        *exec.Cmd
	ended      chan struct{}
}

func newNATSProcesses(t *testing.T) *natsProcesses {
	path, err := natsServer()
	if err != nil {
		t.Fatal(err)
	}
	ports := make([]int, 6)
	for i := range ports {
		if ports[i], err = freeport.Find(); err != nil {
			t.Fatal(err)
		}
	}
	var routes []string
	for _, p := range ports[3:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	all := &natsProcesses{t: t}
	for i := range all.nodes {
		dir := t.TempDir()
		conf := fmt.Sprintf("server_name: node-%d\nlisten: 127.0.0.1:%d\nlog_file: %q\njetstream: {store_dir: %q, max_mem: 256MB, max_file: 8GB}\ncluster: {name: chaos, listen: 127.0.0.1:%d, routes: [%s]}\n",
			i, ports[i], filepath.Join(dir, "log"), dir, ports[3+i], strings.Join(routes, ", "))
		n := &natsProcess{t: t, path: path, conf: filepath.Join(dir, "conf"), client: ports[i]}
		if err := os.WriteFile(n.conf, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		n.start()
		t.Cleanup(n.kill)
		all.nodes[i] = n
	}
	return all
}

func (n *natsProcess) start() {
	cmd, ended := exec.Command(n.path, "-c", n.conf), make(chan struct{})
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.cmd, n.ended = cmd, ended
	go func() { _ = cmd.Wait(); close(ended) }()
}

// kill ends it as a crash does.
func (n *natsProcess) kill() {
	_ = n.cmd.Process.Kill()
	<-n.ended
}

func (all *natsProcesses) url() string {
	var urls []string
	for _, n := range all.nodes {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", n.client))
	}
	return strings.Join(urls, ",")
}

func (all *natsProcesses) connect() *nats.Conn {
	var nc *nats.Conn
	eventually(all.t, 60*time.Second, "the nats-servers", func() (ok bool) {
		var err error
		nc, err = nats.Connect(all.url())
		return err == nil
	})
	all.t.Cleanup(nc.Close)
	return nc
}

// cutter is a proxy before a server, that can be cut off from it.
type cutter struct {
	t    *testing.T
	l    net.Listener
	to   string
	mu   sync.Mutex
	off  bool
	live map[net.Conn]bool
}

func newCutter(t *testing.T, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{t: t, l: l, to: to, live: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close(); c.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go c.carry(in)
		}
	}()
	return c
}

func (c *cutter) addr() string { return c.l.Addr().String() }

// carry carries bytes both ways until one side ends.
func (c *cutter) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer out.Close()
	if !c.note(in, out) {
		return
	}
	go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
	_, _ = io.Copy(in, out)
	c.mu.Lock()
	delete(c.live, in)
	delete(c.live, out)
	c.mu.Unlock()
}

// note notes connections; false if all are cut off.
func (c *cutter) note(all ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range all {
		c.live[one] = true
	}
	return !c.off
}

// cut ends all connections, and those that come.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = true
	for one := range c.live {
		_ = one.Close()
	}
	clear(c.live)
}

func (c *cutter) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = false
}
