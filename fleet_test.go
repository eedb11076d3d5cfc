package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/transitions"
)

// binaryDir holds the binary once it is built.
var binaryDir string

// binary is cmd/worker, built once for all tests that need a process to kill.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "pawl-test-")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "worker")
	out, err := exec.Command("go", "build", "-o", path, "./cmd/worker").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build cmd/worker: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binaryDir != "" {
		os.RemoveAll(binaryDir)
	}
	os.Exit(code)
}

// quick are the times of a fleet under test: short enough to wait for.
var quick = map[string]string{
	"PAWL_WORKER_ACK_WAIT": "1500ms", "PAWL_WORKER_EFFECT_ACK_WAIT": "1500ms", "PAWL_WORKER_SWEEP_EVERY": "10s",
	"PAWL_WORKER_STOP_TIMEOUT": "5s", "PAWL_HTTP_ADDR": "127.0.0.1:0", "PAWL_RETRY_INITIAL": "200ms",
}

// process is a worker in a process of its own.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{}
	log  *lockedBuffer
}

// startProcess starts cmd/worker with the quick times and env over them.
func startProcess(t testing.TB, env map[string]string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return startBinary(t, path, env, args...)
}

// startBinary is startProcess for another binary.
func startBinary(t testing.TB, path string, env map[string]string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(path, args...), done: make(chan struct{}), log: &lockedBuffer{}}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = os.Environ()
	for _, m := range []map[string]string{quick, env} {
		for k, v := range m {
			p.cmd.Env = append(p.cmd.Env, k+"="+v)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("worker %d said:\n%s", p.cmd.Process.Pid, p.log.tail(8000))
		}
	})
	return p
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// stop asks the process to stop and returns its exit code.
func (p *process) stop() int {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// lockedBuffer is what a process says, readable while it speaks.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *lockedBuffer) tail(n int) string {
	s := b.String()
	return s[max(0, len(s)-n):]
}

// fleet is the outside of a fleet: what producers and onlookers have.
type fleet struct {
	t     testing.TB
	nc    *nats.Conn
	js    jetstream.JetStream
	queue *natsqueue.Queue
	redis string
	env   map[string]string // joins it
}

// realServers starts servers for workers in processes of their own.
func realServers(t testing.TB) *fleet {
	t.Helper()
	url := natstest.One(t).URL()
	_, addr := redisServer(t)
	f := join(t, url, true)
	f.redis = addr
	f.env = map[string]string{"PAWL_NATS_URL": url, "PAWL_REDIS_ADDR": addr}
	return f
}

// redisServer starts a redis-server, or its stand-in where there is none, and
// says where it listens.
func redisServer(t testing.TB) (*redistest.Server, string) {
	t.Helper()
	if !slices.Contains(redistest.Kinds(t), redistest.Real) {
		s := redistest.Start(t, redistest.Mini)
		return s, s.Addr
	}
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	return redistest.Start(t, redistest.Real, "--bind", "127.0.0.1", "--port", port), addr
}

// join connects to a fleet as its producers do.
func join(t testing.TB, url string, provisioned bool, opts ...nats.Option) *fleet {
	t.Helper()
	opts = append(opts, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond))
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if provisioned {
		provision(t, nc)
	}
	f := &fleet{t: t, nc: nc, js: js}
	eventually(t, 30*time.Second, "the streams", func() bool {
		f.queue, err = natsqueue.Open(t.Context(), nc, natsqueue.Options{})
		return err == nil
	})
	t.Cleanup(func() { _ = f.queue.Close() })
	return f
}

// provision makes the streams and consumers of a fleet with the quick times.
func provision(t testing.TB, nc *nats.Conn) {
	t.Helper()
	wait := 1500 * time.Millisecond
	if _, err := natsqueue.Provision(t.Context(), nc, natsqueue.Topology{Effects: catalog(t, t.TempDir()).Effects(), AckWait: wait, EffectAckWait: wait}); err != nil {
		t.Fatal(err)
	}
}

// catalog is what the shipped worker can do.
func catalog(t testing.TB, dir string) *statemachine.Catalog {
	t.Helper()
	c, err := transitions.Catalog(transitions.Config{AllowHosts: []string{"127.0.0.1"}, FileDir: dir, Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return pawl.Schedules(c)
}

// start publishes a start as any producer would.
func (f *fleet) start(machine, id, input string) {
	f.t.Helper()
	m := nats.NewMsg("pawl.start." + machine)
	if id != "" {
		m.Header["Pawl-Run-Id"] = []string{id}
	}
	m.Data = []byte(input)
	if _, err := f.js.PublishMsg(f.t.Context(), m); err != nil {
		f.t.Fatalf("publish the start of %s: %v", id, err)
	}
}

// last is a run's last record, nil if it has none.
func (f *fleet) last(run string) *statemachine.Stored {
	f.t.Helper()
	r, err := f.queue.Log.Look(f.t.Context(), run)
	if err != nil {
		f.t.Fatalf("look at %s: %v", run, err)
	}
	return r
}

// ended waits until a run has ended, and returns its last record.
func (f *fleet) ended(run string) *statemachine.Stored {
	f.t.Helper()
	return f.reaches(run, func(r *statemachine.Stored) bool { return r.Status.Ended() })
}

func (f *fleet) reaches(run string, there func(*statemachine.Stored) bool) *statemachine.Stored {
	f.t.Helper()
	var r *statemachine.Stored
	ok := waits(60*time.Second, func() bool { r = f.last(run); return r != nil && there(r) })
	if !ok {
		f.t.Fatalf("run %s did not get there: %s", run, describe(r))
	}
	return r
}

func describe(r *statemachine.Stored) string {
	if r == nil {
		return "it has no record"
	}
	p, _ := json.Marshal(r.Pending)
	return fmt.Sprintf("revision %d, state %s, %s, cause %v, pending %s", r.Rev, r.To, r.Status, r.Cause, p)
}

// lastOf returns the last record of every run, by sweeping HISTORY.
func (f *fleet) lastOf(ctx context.Context) map[string]*statemachine.Stored {
	f.t.Helper()
	all := map[string]*statemachine.Stored{}
	for p := range queue.Partitions {
		for r, err := range f.queue.Log.Sweep(ctx, p) {
			if err != nil {
				f.t.Fatalf("sweep %d: %v", p, err)
			}
			all[r.Run] = r
		}
	}
	return all
}

// history is all records of a run, checked to be one chain.
func (f *fleet) history(run string) []*statemachine.Stored {
	f.t.Helper()
	var all []*statemachine.Stored
	for r, err := range f.queue.Log.Read(f.t.Context(), run, 0) {
		if err != nil {
			f.t.Fatalf("read %s: %v", run, err)
		}
		if n := len(all); r.Rev != uint64(n)+1 || n > 0 && (r.Prev != all[n-1].Seq || r.PrevTxid != all[n-1].Txid) || n == 0 && r.Prev != 0 {
			f.t.Fatalf("run %s is no chain at revision %d (record %d, prev %d)", run, r.Rev, n+1, r.Prev)
		}
		all = append(all, r)
	}
	return all
}

// waits until a condition holds; false if it does not within d.
func waits(d time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(d)
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if cond() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(pause)
	}
}

// eventually waits for a condition, and fails the test if it never holds.
func eventually(t testing.TB, d time.Duration, what string, cond func() bool) {
	t.Helper()
	if !waits(d, cond) {
		t.Fatalf("waited %s in vain for %s", d, what)
	}
}

// sink is the world that effects act on: it counts calls by key, and takes
// its time.
type sink struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string][]time.Time     // by idempotency key
	keys  map[string]map[string]bool // by step (the body), the keys it was called with
	total int
}

func newSink(t *testing.T, slow func(n int) time.Duration) *sink {
	s := &sink{calls: map[string][]time.Time{}, keys: map[string]map[string]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		s.mu.Lock()
		s.calls[key] = append(s.calls[key], time.Now())
		s.total++
		n := s.total
		step := string(body)
		if s.keys[step] == nil {
			s.keys[step] = map[string]bool{}
		}
		s.keys[step][key] = true
		s.mu.Unlock()
		select { // as a provider that works on it, whether or not the caller is still there
		case <-time.After(slow(n)):
		case <-r.Context().Done():
		}
		fmt.Fprintf(w, `{"n":%d}`, n)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sink) snapshot() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int, len(s.calls))
	for k, at := range s.calls {
		out[k] = len(at)
	}
	return out
}

// freeAddr is a loopback address that nobody listens on at the moment.
func freeAddr(t testing.TB) string {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// sample is the shipped input of a machine.
func sample(machine string) (string, bool) {
	b, ok := transitions.Sample(machine)
	return string(b), ok
}
