package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

// Options of a Store.
type Options struct {
	// Prefix begins every key. Default "pawl".
	Prefix string
	// Incarnation identifies the HISTORY that the copies are of; required.
	// Of what was written under another one, nothing is known here.
	Incarnation string
	// EndedTTL is how long ended runs stay. Default 24 h.
	EndedTTL time.Duration
	// Timeout bounds each operation. Default 3 s.
	Timeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = "pawl"
	}
	if o.EndedTTL == 0 {
		o.EndedTTL = 24 * time.Hour
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	return o
}

func (o Options) validate() error {
	if o.EndedTTL < time.Millisecond || o.Timeout < time.Millisecond {
		return errors.New("a duration is negative or under a millisecond")
	}
	return nil
}

// Store is the shadow of runs. It is safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	opts    Options
	keys    keys
	scripts map[string]*redis.Script
	before  string
	bySlot  atomic.Bool // a call may have keys of one shard only
	odd     atomic.Uint64
}

var (
	_ worker.Shadow = (*Store)(nil)
	_ worker.Claims = (*Store)(nil)
	_ api.Index     = (*Store)(nil)
)

// Open returns the Store on client, which stays the caller's to close. It
// refuses a Redis that evicts keys of its own choice, where it can tell.
func Open(ctx context.Context, client redis.UniversalClient, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	k, err := newKeys(opts.Prefix, opts.Incarnation)
	if err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	all, err := scripts()
	if err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	s := &Store{client: client, opts: opts, keys: k, scripts: all}
	if _, ok := client.(*redis.ClusterClient); ok {
		s.bySlot.Store(true)
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	if err := s.refuseEviction(ctx); err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	s.before, err = client.SetArgs(ctx, k.current(), opts.Incarnation, redis.SetArgs{Get: true}).Result()
	if err := wrap(ctx, err); err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	return s, nil
}

// refuseEviction fails if the server drops keys of its own choice when its
// memory is full. Stand-ins and some services do not tell; then it may.
func (s *Store) refuseEviction(ctx context.Context) error {
	info, err := s.client.Info(ctx, "memory").Result()
	var answer redis.Error
	if errors.As(err, &answer) && !unavailable(err) {
		return nil
	}
	if err != nil {
		return wrap(ctx, err)
	}
	policy, bounded := "", false
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "maxmemory_policy":
			policy = value
		case "maxmemory":
			bounded = value != "0"
		}
	}
	if bounded && strings.HasPrefix(policy, "allkeys") {
		return fmt.Errorf("maxmemory-policy is %s, want noeviction: live runs would be dropped", policy)
	}
	return nil
}

// Before is the incarnation that this Redis was opened for before. If it is
// not the Store's own, everything is unknown until a full sweep has passed,
// and what it left is removed by Clear.
func (s *Store) Before() string { return s.before }

// Odd counts copies that were there and could not be used: not a record this
// build can read, of another run, or in disagreement with their own fields.
func (s *Store) Odd() uint64 { return s.odd.Load() }

// place is where a run's keys are.
type place struct {
	partition int
	token     string
}

func locate(run string) (place, error) {
	if err := queue.CheckRun(run); err != nil {
		return place{}, err
	}
	token := queue.Token(run)
	return place{partition: queue.Partition(token), token: token}, nil
}
