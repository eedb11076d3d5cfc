// Package redistest starts private Redis servers for tests: the in-process
// stand-in always, and a real one, alone and as a cluster, where the machine
// has one.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/pawlrun/pawl/internal/freeport"
)

// Kind is a kind of server.
type Kind string

// The kinds of servers.
const (
	Mini    Kind = "miniredis" // the in-process stand-in
	Real    Kind = "redis"     // redis-server on a unix socket
	Cluster Kind = "cluster"   // redis-server in cluster mode, one node with all slots
)

// startWithin bounds the start of a server on a busy machine.
const startWithin = 30 * time.Second

// Server is a running server; it ends with the test.
type Server struct {
	Kind Kind
	Addr string               // host:port, or the path of a socket
	Mini *miniredis.Miniredis // set if Kind is Mini
	Dir  string               // of a real one: what it keeps on disk

	line  []string   // the command line of a real one
	cmd   *exec.Cmd  // nil while it is dead
	ended chan error // told once when cmd ends
}

// Kinds returns the kinds that this machine can run. Without a redis-server
// that is the stand-in alone, which is said in the test's log; where CI=true
// it is a failure.
func Kinds(tb testing.TB) []Kind {
	tb.Helper()
	if _, err := binary(); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatalf("redistest: %v", err)
		}
		tb.Logf("redistest: NOT TESTED ON A REAL REDIS, on the stand-in only: %v", err)
		return []Kind{Mini}
	}
	return []Kind{Mini, Real, Cluster}
}

// Each runs a subtest per kind, each with a server of its own.
func Each(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Helper()
	for _, kind := range Kinds(t) {
		t.Run(string(kind), func(t *testing.T) { test(t, Start(t, kind)) })
	}
}

// Start starts a server. Args are more options of a real one, such as
// "--maxmemory", "4mb".
func Start(tb testing.TB, kind Kind, args ...string) *Server {
	tb.Helper()
	if kind == Mini {
		// Without ClockTTL, which walks through all keys on every command.
		// Nothing but tidiness depends on keys that expire.
		m := miniredis.NewMiniRedis()
		if err := m.Start(); err != nil {
			tb.Fatalf("redistest: start miniredis: %v", err)
		}
		tb.Cleanup(m.Close)
		return &Server{Kind: kind, Addr: m.Addr(), Mini: m}
	}
	const tries = 5
	for try := 1; ; try++ {
		s, err := startReal(tb, kind, args)
		if err == nil {
			return s
		}
		// Another process may have taken the port that was free a moment ago.
		if try == tries {
			tb.Fatalf("redistest: start %s: %v", kind, err)
		}
	}
}

// Options are what a client of the server needs.
func (s *Server) Options() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs:                    []string{s.Addr},
		IsClusterMode:            s.Kind == Cluster,
		MaxRetries:               -1,
		DialerRetries:            1,
		ContextTimeoutEnabled:    true,
		ReadTimeout:              time.Minute, // a busy machine is no outage
		WriteTimeout:             time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Client returns a new client, closed when the test ends.
func (s *Server) Client(tb testing.TB) redis.UniversalClient {
	tb.Helper()
	c := redis.NewUniversalClient(s.Options())
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// binary finds the server's program.
func binary() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no redis-server and no valkey-server in PATH")
}

func startReal(tb testing.TB, kind Kind, args []string) (*Server, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	// Not tb.TempDir: with a long test name a socket's path gets too long.
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{Kind: kind, Addr: filepath.Join(dir, "redis.sock"), Dir: filepath.Join(dir, "data")}
	if err := os.Mkdir(s.Dir, 0o700); err != nil {
		return nil, err
	}
	line := []string{path, "--dir", s.Dir, "--save", "", "--appendonly", "no", "--daemonize", "no"}
	if kind == Real {
		line = append(line, "--port", "0", "--unixsocket", s.Addr)
	} else {
		port, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		bus, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		line = append(line, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--cluster-enabled", "yes",
			"--cluster-port", strconv.Itoa(bus), "--cluster-config-file", "nodes.conf")
	}
	s.line = append(line, args...)
	if err := s.run(); err != nil {
		return nil, err
	}
	tb.Cleanup(s.Kill)
	return s, nil
}

// run starts the process and waits until it is ready.
func (s *Server) run() error {
	var output bytes.Buffer
	s.cmd, s.ended = exec.Command(s.line[0], s.line[1:]...), make(chan error, 1)
	s.cmd.Stdout, s.cmd.Stderr = &output, &output
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	cmd, ended := s.cmd, s.ended
	go func() { ended <- cmd.Wait() }()
	if err := s.awaitReady(ended); err != nil {
		s.Kill()
		return fmt.Errorf("%w\n%s", err, output.String())
	}
	return nil
}

// Kill ends a server of the kind Real as a crash does. Dir stays, for Again.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

// Again starts a server that was killed, at the same address, on what its
// append-only file says by now.
func (s *Server) Again(tb testing.TB) {
	tb.Helper()
	if err := s.run(); err != nil {
		tb.Fatalf("redistest: start %s again: %v", s.Kind, err)
	}
}

// awaitReady waits until the server answers and, in a cluster, has all slots.
func (s *Server) awaitReady(ended chan error) error {
	network := "tcp"
	if s.Kind == Real {
		network = "unix"
	}
	c := redis.NewClient(&redis.Options{Network: network, Addr: s.Addr, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	slots := s.Kind != Cluster
	for {
		err := c.Ping(ctx).Err()
		if err == nil && !slots {
			err = c.ClusterAddSlotsRange(ctx, 0, 16383).Err()
			slots = err == nil
		}
		if err == nil && s.ready(ctx, c) {
			return nil
		}
		select {
		case gone := <-ended:
			ended <- gone
			return fmt.Errorf("it ended: %w", errors.Join(gone, err))
		case <-ctx.Done():
			return fmt.Errorf("it is not ready after %v: %w", startWithin, err)
		case <-tick.C:
		}
	}
}

func (s *Server) ready(ctx context.Context, c *redis.Client) bool {
	if s.Kind != Cluster {
		return true
	}
	info, err := c.ClusterInfo(ctx).Result()
	return err == nil && strings.Contains(info, "cluster_state:ok")
}
