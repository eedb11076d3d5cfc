package natstest

import (
	"bufio"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// process is a nats-server in a process of its own.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	ready chan struct{} // closed once it takes connections
	ended chan struct{} // closed once it has ended

	mu   sync.Mutex
	said []string // its last lines
}

// binary is the server's program. The build cache of Go keeps it, so that all
// packages' tests share one.
var binary = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "nats-server").Output()
	return strings.TrimSpace(string(out)), err
})

// startProcess starts a server and waits until it takes connections.
func startProcess(t testing.TB, o *server.Options) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatalf("build nats-server: %v", err)
	}
	args := []string{"--name", o.ServerName, "--addr", o.Host, "--port", strconv.Itoa(o.Port), "--jetstream", "--store_dir", o.StoreDir}
	if c := o.Cluster; c.Name != "" {
		args = append(args, "--cluster_name", c.Name, "--cluster", "nats://"+c.Host+":"+strconv.Itoa(c.Port), "--routes", o.RoutesStr)
	}
	p := &process{t: t, cmd: exec.Command(path, args...), ready: make(chan struct{}), ended: make(chan struct{})}
	output, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatalf("start nats-server: %v", err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start nats-server: %v", err)
	}
	go func() {
		p.listen(output)
		_ = p.cmd.Wait() // after all is read
		close(p.ended)
	}()
	select {
	case <-p.ready:
	case <-p.ended:
		t.Fatalf("nats-server %s ended:\n%s", o.ServerName, p.tail())
	case <-time.After(Patience):
		p.kill()
		t.Fatalf("nats-server %s takes no connections:\n%s", o.ServerName, p.tail())
	}
	return p
}

// listen reads what the server says, until it ends.
func (p *process) listen(output io.Reader) {
	const keep = 40
	ready := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if !ready && strings.HasSuffix(lines.Text(), "Server is ready") {
			ready = true
			close(p.ready)
		}
		p.mu.Lock()
		p.said = append(p.said, lines.Text())
		p.said = p.said[max(0, len(p.said)-keep):]
		p.mu.Unlock()
	}
}

// tail is what the server said last.
func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "\n")
}

// stop has the server end in good order.
func (p *process) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(Patience):
		p.kill()
		p.t.Errorf("nats-server does not stop:\n%s", p.tail())
	}
}

// kill ends the server as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}
