// Package natstest starts private, real nats-servers for tests: one node, or a
// cluster of three, with JetStream on disk in a directory of the test, on free
// ports of the loopback.
//
//	url := natstest.One(t).URL()
//	c := natstest.Three(t)
//	c.Nodes[0].Stop()          // and what happens then
//	c.Nodes[0].Start()
//
// A node is a process of its own, of the version in go.mod: the race detector,
// which would take most of its time, is for the code under test. A node whose
// options a test changes runs inside the process of the test. Everything is
// stopped when the test ends.
package natstest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/freeport"
)

// Patience is how long the helpers of this package wait for a condition
// before they fail the test.
const Patience = 30 * time.Second

// Node is one nats-server. Its port and directory stay the same when it is
// stopped and started again.
type Node struct {
	t    testing.TB
	opts *server.Options
	srv  *server.Server // set while it runs inside this process
	proc *process       // set while it runs in one of its own
	own  bool           // that it does
}

// One starts a single server. If there are changes to its options, it runs
// inside this process, and they are applied last.
func One(t testing.TB, change ...func(*server.Options)) *Node {
	t.Helper()
	n := newNode(t, "one")
	n.own = len(change) == 0
	for _, c := range change {
		c(n.opts)
	}
	t.Cleanup(n.end)
	n.Start()
	return n
}

// Inside is a change of options for One that changes none: the server runs
// inside this process.
func Inside(*server.Options) {}

// Synced is a change of options for One: every write is synced, instead of all
// of them every two minutes, as the server does by default. It costs time, and
// a test can tell the difference by nothing else: what a process wrote is
// there when the process dies.
func Synced(o *server.Options) { o.SyncAlways = true }

func newNode(t testing.TB, name string) *Node {
	return &Node{t: t, own: true, opts: &server.Options{
		ServerName: name,
		Host:       "127.0.0.1",
		Port:       freePort(t),
		JetStream:  true,
		StoreDir:   t.TempDir(),
		NoLog:      true,
		NoSigs:     true,
	}}
}

// Start starts the node, if it is stopped, and waits until it takes
// connections.
func (n *Node) Start() {
	n.t.Helper()
	if n.srv != nil || n.proc != nil {
		return
	}
	if n.own {
		n.proc = startProcess(n.t, n.opts)
		return
	}
	srv, err := server.NewServer(n.opts.Clone())
	if err != nil {
		n.t.Fatalf("start nats-server %s: %v", n.opts.ServerName, err)
	}
	n.srv = srv
	go srv.Start()
	if !srv.ReadyForConnections(Patience) {
		n.t.Fatalf("nats-server %s takes no connections", n.opts.ServerName)
	}
}

// Stop stops the node in good order, and waits until it has.
func (n *Node) Stop() {
	if n.srv != nil {
		n.srv.Shutdown()
		n.srv.WaitForShutdown()
	}
	if n.proc != nil {
		n.proc.stop()
	}
	n.srv, n.proc = nil, nil
}

// end stops the node at once: nobody will ask what it had.
func (n *Node) end() {
	if n.proc != nil {
		n.proc.kill()
		n.proc = nil
	}
	n.Stop()
}

// Server is the running server; nil while the node is stopped, and if it is a
// process of its own.
func (n *Node) Server() *server.Server { return n.srv }

// Name is the name of the server.
func (n *Node) Name() string { return n.opts.ServerName }

// URL is where the node listens.
func (n *Node) URL() string { return fmt.Sprintf("nats://%s", n.Addr()) }

// Addr is the host and port where the node listens.
func (n *Node) Addr() string { return fmt.Sprintf("127.0.0.1:%d", n.opts.Port) }

// Conn is a new connection to the node, closed when the test ends.
func (n *Node) Conn(opts ...nats.Option) *nats.Conn {
	n.t.Helper()
	return connect(n.t, n.URL(), opts)
}

// Cluster is three servers that share one JetStream.
type Cluster struct {
	t     testing.TB
	nc    *nats.Conn // asks who leads
	Nodes [3]*Node
}

// Three starts a cluster of three and waits until its JetStream has a leader.
func Three(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	ports := [3]int{freePort(t), freePort(t), freePort(t)}
	var routes []string
	for _, p := range ports {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	for i := range c.Nodes {
		n := newNode(t, fmt.Sprintf("node-%d", i))
		n.opts.Cluster = server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: ports[i]}
		n.opts.RoutesStr = strings.Join(routes, ",")
		c.Nodes[i] = n
		t.Cleanup(n.end)
		n.Start()
	}
	c.nc = c.Conn()
	c.awaitLeader()
	return c
}

// awaitLeader returns once JetStream makes a stream of three replicas: only
// then do all servers know of each other.
func (c *Cluster) awaitLeader() {
	c.t.Helper()
	js, err := jetstream.New(c.nc, jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		c.t.Fatalf("jetstream: %v", err)
	}
	const probe = "NATSTEST_PROBE"
	Await(c.t, "a cluster that places three replicas", func() bool {
		cfg := jetstream.StreamConfig{Name: probe, Replicas: len(c.Nodes), Storage: jetstream.MemoryStorage}
		if _, err := js.CreateStream(c.t.Context(), cfg); err != nil {
			return false
		}
		return js.DeleteStream(c.t.Context(), probe) == nil
	})
}

// URL lists the addresses of all nodes.
func (c *Cluster) URL() string {
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, n.URL())
	}
	return strings.Join(urls, ",")
}

// Conn is a new connection to any node, closed when the test ends.
func (c *Cluster) Conn(opts ...nats.Option) *nats.Conn {
	c.t.Helper()
	return connect(c.t, c.URL(), opts)
}

// Leader is the node that leads a stream; nil while none does.
func (c *Cluster) Leader(stream string) *Node {
	m, err := c.nc.Request("$JS.API.STREAM.INFO."+stream, nil, time.Second)
	if err != nil {
		return nil // without a leader nobody answers
	}
	var info struct{ Cluster struct{ Leader string } }
	if err := json.Unmarshal(m.Data, &info); err != nil {
		c.t.Fatalf("information about stream %s: %v: %s", stream, err, m.Data)
	}
	for _, n := range c.Nodes {
		if n.Name() == info.Cluster.Leader {
			return n
		}
	}
	return nil
}

// Await returns when the condition holds, and fails the test if it does not
// within Patience.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("waited %v in vain for %s", Patience, what)
		}
	}
}

func connect(t testing.TB, url string, opts []nats.Option) *nats.Conn {
	t.Helper()
	opts = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectBufSize(-1)}, opts...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatalf("connect %s: %v", url, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// freePort is a port nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
