package redisstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
)

// open opens a store with keys of its own.
func open(tb testing.TB, client redis.UniversalClient, opts Options) *Store {
	tb.Helper()
	if opts.Incarnation == "" {
		opts.Incarnation = "inc1"
	}
	if opts.Timeout == 0 {
		opts.Timeout = time.Minute // a busy machine is no outage
	}
	s, err := Open(tb.Context(), client, opts)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		n := 0
		storetest.Run(t, func(t *testing.T) storetest.Store {
			n++
			return open(t, client, Options{Incarnation: strconv.Itoa(n)})
		})
	})
}
