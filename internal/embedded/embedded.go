// Package embedded runs the servers of a fleet in this process: nats-server
// with JetStream on disk, and miniredis in place of Redis.
//
// Both listen on the loopback, so that a second process can join the fleet.
// One process at a time holds the data directory, by a lock that the kernel
// lets go when the process dies, however it dies. What miniredis holds is in
// memory and gone with the process; that is enough, because the fleet keeps
// only copies in Redis.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Options say where the servers live.
type Options struct {
	Dir         string       // data directory; made if it is not there
	NATSListen  string       // loopback address of NATS; port 0 takes a free one
	RedisListen string       // loopback address of the Redis stand-in; port 0 takes a free one
	SyncAlways  bool         // JetStream answers only after the disk has; else it syncs every two minutes
	Logger      *slog.Logger // of the servers; nil drops what they say
}

// Servers are running. Whoever started them must stop them.
type Servers struct {
	lock  *lock
	nats  *server.Server
	redis *miniredis.Miniredis
	url   string
	addr  string
	stop  sync.Once
	ended chan struct{} // closed by Stop
	clock sync.WaitGroup
}

// PortError is an address that another program listens on.
type PortError struct {
	Addr string
	Key  string // of config.yaml
}

// Error says which key and which variable move the server elsewhere.
func (e *PortError) Error() string {
	name := "PAWL_NATS_LISTEN"
	if e.Key == "redis.listen" {
		name = "PAWL_REDIS_LISTEN"
	}
	return fmt.Sprintf("%s: %s is in use by another program: stop that, or set %s (127.0.0.1:0 takes a free port)", e.Key, e.Addr, name)
}

// patience is how long nats-server may take to read its streams.
const patience = 5 * time.Minute

// Start takes the data directory and starts the servers in it; it returns once
// they take connections. A *HeldError says that another process has the
// directory, a *PortError that an address is taken. ctx bounds the start only:
// afterwards there is Stop.
func Start(ctx context.Context, o Options) (*Servers, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	l, err := take(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Servers{lock: l, ended: make(chan struct{})}
	if err := s.start(ctx, o); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Servers) start(ctx context.Context, o Options) error {
	if err := s.startRedis(o); err != nil {
		return err
	}
	if err := s.startNATS(ctx, o); err != nil {
		return err
	}
	s.addr = s.redis.Addr()
	s.url = "nats://" + s.nats.Addr().String()
	return s.lock.note(s.nats.Addr().String(), s.addr)
}

func (s *Servers) startRedis(o Options) error {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr(o.RedisListen); err != nil {
		return listening(err, o.RedisListen, "redis.listen")
	}
	s.redis = m
	s.clock.Go(func() { age(m, s.ended) })
	return nil
}

// age lets keys with a TTL run out. The stand-in would do it by itself, but by
// going through all keys at every command; leases do not depend on it, they
// hold their deadlines.
func age(m *miniredis.Miniredis, ended <-chan struct{}) {
	const every = 2 * time.Second
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			m.FastForward(every)
		case <-ended:
			return
		}
	}
}

func (s *Servers) startNATS(ctx context.Context, o Options) error {
	host, port, err := probe(o.NATSListen)
	if err != nil {
		return listening(err, o.NATSListen, "nats.listen")
	}
	n, err := server.NewServer(&server.Options{
		ServerName:             "pawl",
		Host:                   host,
		Port:                   port,
		JetStream:              true,
		StoreDir:               filepath.Join(o.Dir, "nats"),
		SyncAlways:             o.SyncAlways,
		NoSigs:                 true, // signals belong to the process
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return fmt.Errorf("start nats-server: %w", err)
	}
	fatal := make(chan error, 1)
	n.SetLoggerV2(&natsLog{log: o.Logger, fatal: fatal}, false, false, false)
	s.nats = n
	go n.Start() // ends by itself; Stop waits for what it has started

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !n.ReadyForConnections(50 * time.Millisecond) {
		select {
		case err := <-fatal:
			return fmt.Errorf("start nats-server in %s: %w", o.Dir, err)
		case <-ctx.Done():
			return fmt.Errorf("start nats-server in %s: %w", o.Dir, ctx.Err())
		default:
		}
	}
	return nil
}

// probe finds out whether an address is free: nats-server itself would only
// log that it is not, and go on without a listener.
func probe(addr string) (host string, port int, err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", 0, err
	}
	if err := l.Close(); err != nil {
		return "", 0, err
	}
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(text); err != nil {
		return "", 0, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

func listening(err error, addr, key string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortError{Addr: addr, Key: key}
	}
	return fmt.Errorf("%s: %w", key, err)
}

// NATSURL is where other processes reach NATS.
func (s *Servers) NATSURL() string { return s.url }

// InProcess is for nats.InProcessServer: this process needs no socket.
func (s *Servers) InProcess() nats.InProcessConnProvider { return s.nats }

// RedisAddr is where Redis is reached.
func (s *Servers) RedisAddr() string { return s.addr }

// Stop stops the servers and waits until they have. Redis goes first: without
// claims no process of the fleet begins an effect while NATS is going away.
// The directory is let go last, when no file in it is open. Close the
// connections of this process before. Stop may be called again.
func (s *Servers) Stop() {
	s.stop.Do(func() {
		close(s.ended)
		s.clock.Wait()
		if s.redis != nil {
			s.redis.Close()
		}
		if s.nats != nil {
			s.nats.Shutdown()
			s.nats.WaitForShutdown()
		}
		s.lock.release()
	})
}
