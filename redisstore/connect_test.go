package redisstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/worker"
)

func TestConnectFindsOutAboutClusters(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, err := Connect(t.Context(), Config{Addrs: []string{server.Addr}})
		if err != nil {
			t.Fatalf("Connect: %v", err)
		}
		defer func() { _ = client.Close() }()
		if _, cluster := client.(*redis.ClusterClient); cluster != (server.Kind == redistest.Cluster) {
			t.Fatalf("Connect to %s returned a %T", server.Kind, client)
		}
		put(t, open(t, client, Options{}), storetest.Stored(t, "a", 1), storetest.Stored(t, "b", 2))
	})
}

// TestClusterBehindOneAddress has a client that takes a cluster for one
// server, as behind a proxy.
func TestClusterBehindOneAddress(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(t) {
		if kind != redistest.Cluster {
			continue
		}
		server := redistest.Start(t, kind)
		client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
		defer func() { _ = client.Close() }()
		s := open(t, client, Options{})
		put(t, s, storetest.Stored(t, "a", 1), storetest.Stored(t, "b", 2), storetest.Stored(t, "c", 3))
		if got := list(t, s, api.Filter{}); len(got) != 3 {
			t.Errorf("List = %q, want three runs", got)
		}
	}
}

func TestConnectReadsThePassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Mini)
	server.Mini.RequireUserAuth("pawl", "secret")
	file := filepath.Join(t.TempDir(), "password")
	for _, tt := range []struct {
		content string
		ok      bool
	}{{"secret\n", true}, {"wrong", false}} {
		if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		client, err := Connect(t.Context(), Config{Addrs: []string{server.Addr}, Username: "pawl", PasswordFile: file})
		if (err == nil) != tt.ok {
			t.Errorf("Connect with password %q: %v", tt.content, err)
		}
		if err == nil {
			_ = client.Close()
		} else if !errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("Connect with password %q: %v, want ErrUnavailable", tt.content, err)
		}
	}
}

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	nowhere := filepath.Join(t.TempDir(), "nothing")
	for name, c := range map[string]Config{
		"no address":          {},
		"key without cert":    {Addrs: []string{"a:1"}, TLS: true, KeyFile: nowhere},
		"CA without TLS":      {Addrs: []string{"a:1"}, CAFile: nowhere},
		"no such CA":          {Addrs: []string{"a:1"}, TLS: true, CAFile: nowhere},
		"no such certificate": {Addrs: []string{"a:1"}, TLS: true, CertFile: nowhere, KeyFile: nowhere},
		"no such password":    {Addrs: []string{"a:1"}, PasswordFile: nowhere},
	} {
		if _, err := Connect(t.Context(), c); err == nil || errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("%s: Connect: %v, want a refusal", name, err)
		}
	}
	if _, err := Connect(t.Context(), Config{Addrs: []string{nowhere}, Timeout: time.Second}); err != nil && !errors.Is(err, worker.ErrUnavailable) {
		t.Errorf("Connect to nothing: %v, want ErrUnavailable", err)
	}
}
