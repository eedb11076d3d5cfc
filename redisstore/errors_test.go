package redisstore

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/worker"
)

// operations are all that talk to Redis.
func operations(t *testing.T, s *Store) map[string]func(ctx context.Context) error {
	claims := []worker.Claim{{Run: "a", Effect: "x", Owner: "w", Lease: time.Minute}}
	st := storetest.Stored(t, "a", 7)
	return map[string]func(ctx context.Context) error{
		"Save":    func(ctx context.Context) error { _, err := s.Save(ctx, []worker.Save{{Stored: st}}); return err },
		"Load":    func(ctx context.Context) error { _, err := s.Load(ctx, []string{"a", "b"}); return err },
		"Flushed": func(ctx context.Context) error { return s.Flushed(ctx, []worker.Hint{{Run: "a", Txid: "x"}}) },
		"Tail":    func(ctx context.Context) error { _, _, err := s.Tail(ctx, "a", "l", 0, 1); return err },
		"Claim":   func(ctx context.Context) error { _, err := s.Claim(ctx, claims); return err },
		"Renew":   func(ctx context.Context) error { return s.Renew(ctx, claims) },
		"Release": func(ctx context.Context) error { return s.Release(ctx, claims) },
		"List":    func(ctx context.Context) error { _, err := s.List(ctx, api.Filter{}); return err },
		"List of one": func(ctx context.Context) error {
			_, err := s.List(ctx, api.Filter{Where: map[string]string{"a": "b"}})
			return err
		},
		"Counts":       func(ctx context.Context) error { _, err := s.Counts(ctx); return err },
		"SetComplete":  func(ctx context.Context) error { return s.SetComplete(ctx, 1, "!001 0 x") },
		"BeginRebuild": func(ctx context.Context) error { _, err := s.BeginRebuild(ctx, 1, 0); return err },
		"Tidy":         func(ctx context.Context) error { return s.Tidy(ctx, 1) },
		"Completeness": func(ctx context.Context) error { _, err := s.Completeness(ctx); return err },
		"Clear":        func(ctx context.Context) error { _, err := s.Clear(ctx, "old"); return err },
		"Open":         func(ctx context.Context) error { _, err := Open(ctx, s.client, s.opts); return err },
	}
}

// TestRefusalsAreUnavailable has the server answer with each code.
func TestRefusalsAreUnavailable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Mini)
	s := open(t, server.Client(t), Options{})
	for _, answer := range []string{
		"READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory",
		"CLUSTERDOWN The cluster is down",
		"MASTERDOWN Link with MASTER is down",
		"MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk",
		"NOREPLICAS Not enough good replicas to write.",
		"BUSY Redis is busy running a script.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"NOAUTH Authentication required.",
		"NOPERM this user has no permissions",
		"ERR max number of clients reached",
		"ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -OOM command not allowed",
	} {
		server.Mini.SetError(answer)
		for name, op := range operations(t, s) {
			if err := op(t.Context()); !errors.Is(err, worker.ErrUnavailable) {
				t.Errorf("%s answered %q: %v, want ErrUnavailable", name, answer, err)
			}
		}
	}
	server.Mini.SetError("ERR something else")
	for name, op := range operations(t, s) {
		// Open takes an ERR for a stand-in that does not know INFO.
		if err := op(t.Context()); err == nil || errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("%s answered ERR: %v, want an error that is not ErrUnavailable", name, err)
		}
	}
}

func TestNoServerIsUnavailable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Mini)
	s := open(t, server.Client(t), Options{})
	server.Mini.Close()
	for name, op := range operations(t, s) {
		if err := op(t.Context()); !errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("%s without a server: %v, want ErrUnavailable", name, err)
		}
	}
}

// TestSilentServerIsUnavailable holds that each operation ends by itself.
func TestSilentServerIsUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: l.Addr().String(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	mini := redistest.Start(t, redistest.Mini)
	s := open(t, mini.Client(t), Options{})
	s.client, s.opts.Timeout = client, 50*time.Millisecond
	for name, op := range operations(t, s) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := op(ctx)
		if ctx.Err() != nil || !errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("%s with a silent server: %v, want ErrUnavailable soon", name, err)
		}
		cancel()
	}
}

func TestCancelledOperations(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t, redistest.Mini).Client(t), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, op := range operations(t, s) {
		if err := op(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("%s with a cancelled context: %v, want context.Canceled", name, err)
		}
	}
}

// onReal runs a test on a real server, where the machine has one.
func onReal(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	for _, kind := range redistest.Kinds(t) {
		if kind == redistest.Real {
			test(t, newFixture(t, redistest.Start(t, kind), "real"))
		}
	}
}

// TestFullMemoryWritesNothing has a server refuse in the middle of a script.
func TestFullMemoryWritesNothing(t *testing.T) {
	t.Parallel()
	onReal(t, func(t *testing.T, f *fixture) {
		do(t, f.client.ConfigSet(t.Context(), "maxmemory", "1"))
		_, err := f.Save(t.Context(), []worker.Save{{Stored: f.stored(t, 6, 3, "2"), Release: []string{"e"}, Owner: "w"}, {Stored: storetest.Stored(t, "b", 7)}})
		if !errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("Save with full memory: %v, want ErrUnavailable", err)
		}
		if _, err := f.Claim(t.Context(), []worker.Claim{{Run: "a", Effect: "x", Owner: "w", Lease: time.Minute}}); !errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("Claim with full memory: %v, want ErrUnavailable", err)
		}
		f.want(t, 5, true, 1)
		do(t, f.client.ConfigSet(t.Context(), "maxmemory", "0"))
		if got, err := f.Claim(t.Context(), []worker.Claim{{Run: "a", Effect: "e", Owner: "v", Lease: time.Minute}}); err != nil || got[0].OK {
			t.Errorf("Claim = %v, %v, want e still held", got, err)
		}
		f.save(t, f.stored(t, 6, 3, "2"))
		f.want(t, 6, true, 1)
	})
}

func TestReplicaIsUnavailable(t *testing.T) {
	t.Parallel()
	onReal(t, func(t *testing.T, f *fixture) {
		do(t, f.client.SlaveOf(t.Context(), "127.0.0.1", "1"))
		if _, err := f.Save(t.Context(), []worker.Save{{Stored: f.stored(t, 6, 2)}}); !errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("Save on a replica: %v, want ErrUnavailable", err)
		}
		f.want(t, 5, true, 1)
		do(t, f.client.SlaveOf(t.Context(), "NO", "ONE"))
		f.save(t, f.stored(t, 6, 2))
		f.want(t, 6, true, 1)
	})
}

func TestOpenRefusesEviction(t *testing.T) {
	t.Parallel()
	onReal(t, func(t *testing.T, f *fixture) {
		try := func() error {
			_, err := Open(t.Context(), f.client, f.opts)
			return err
		}
		do(t, f.client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru"))
		if err := try(); err != nil {
			t.Errorf("Open without a bound on memory: %v", err)
		}
		do(t, f.client.ConfigSet(t.Context(), "maxmemory", "1gb"))
		if err := try(); err == nil || errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("Open with allkeys-lru: %v, want a refusal", err)
		}
		do(t, f.client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction"))
		if err := try(); err != nil {
			t.Errorf("Open with noeviction: %v", err)
		}
	})
}
