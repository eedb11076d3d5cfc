package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/worker"
)

var _ worker.Permits = (*Store)(nil)

const (
	// lateTurn is how late one who waits may come for its turn before its place
	// is another's: a schedule, a busy queue and a lane are in between.
	lateTurn = time.Minute
	// longestTurn is the longest that anybody is told to wait, since what the
	// turn is made of may change.
	longestTurn = 5 * time.Minute
)

// Take implements worker.Permits.
func (s *Store) Take(ctx context.Context, permits []worker.Permit) ([]worker.Taken, error) {
	answers, err := s.runFlow(ctx, scriptTake, []any{lateTurn.Milliseconds(), longestTurn.Milliseconds()}, permits, func(p *worker.Permit) ([]string, []any) {
		args := []any{permitWord(p), p.ID, p.Lease.Milliseconds()}
		for _, l := range []struct {
			most int
			rate flow.Rate
		}{{p.Limit.Concurrency, p.Limit.Rate}, {p.Limit.PerKey, p.Limit.RatePerKey}} {
			ms := float64(l.rate.Interval()) / float64(time.Millisecond)
			args = append(args, l.most, strconv.FormatFloat(ms, 'f', 6, 64), l.rate.Burst())
		}
		t, k := s.keys.flow(p.Effect), s.keys.flowKey(p.Effect, p.Key)
		return []string{t.permits, t.waiting, t.pace, k.permits, k.waiting, k.pace}, args
	})
	if err != nil {
		return nil, fmt.Errorf("take %d permits: %w", len(permits), err)
	}
	limits := []worker.LimitKind{"", worker.LimitConcurrency, worker.LimitPerKey, worker.LimitRate, worker.LimitRatePerKey}
	taken := make([]worker.Taken, len(permits))
	for i, a := range answers {
		pair, _ := a.([]any)
		if len(pair) != 2 {
			return nil, fmt.Errorf("take permits: script answered %v", a)
		}
		ms, okMs := pair[0].(int64)
		by, okBy := pair[1].(int64)
		if !okMs || !okBy || by < 0 || int(by) >= len(limits) {
			return nil, fmt.Errorf("take permits: script answered %v", a)
		}
		taken[i] = worker.Taken{OK: by == 0, Wait: time.Duration(ms) * time.Millisecond, By: limits[by]}
	}
	return taken, nil
}

// RenewPermits implements worker.Permits.
func (s *Store) RenewPermits(ctx context.Context, permits []worker.Permit) error {
	_, err := s.runFlow(ctx, scriptRenew, nil, permits, func(p *worker.Permit) ([]string, []any) {
		return []string{s.keys.flow(p.Effect).permits, s.keys.flowKey(p.Effect, p.Key).permits},
			[]any{permitWord(p), p.Lease.Milliseconds(), flag(p.Limit.Concurrency > 0), flag(p.Limit.PerKey > 0)}
	})
	if err != nil {
		return fmt.Errorf("renew %d permits: %w", len(permits), err)
	}
	return nil
}

// Return implements worker.Permits.
func (s *Store) Return(ctx context.Context, permits []worker.Permit) error {
	_, err := s.runFlow(ctx, scriptGive, nil, permits, func(p *worker.Permit) ([]string, []any) {
		t, k := s.keys.flow(p.Effect), s.keys.flowKey(p.Effect, p.Key)
		return []string{t.permits, t.pace, k.permits, k.pace}, []any{permitWord(p), p.Took.Milliseconds()}
	})
	if err != nil {
		return fmt.Errorf("return %d permits: %w", len(permits), err)
	}
	return nil
}

// permitWord names a permit: an effect that two workers perform, because one
// of them is thought dead, counts twice.
func permitWord(p *worker.Permit) string { return ownerWord(p.Owner) + p.ID }

// runFlow runs a script over permits. Those of one effect type are in one slot,
// so each type has a call of its own; the answers are parallel to the permits.
func (s *Store) runFlow(ctx context.Context, script string, head []any, permits []worker.Permit, of func(*worker.Permit) ([]string, []any)) ([]any, error) {
	if len(permits) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	var calls []call
	var members [][]int
	open := map[string]int{} // the call of a type that has room
	for i := range permits {
		p := &permits[i]
		if p.Lease < time.Millisecond || !flow.IsEffect(p.Effect) || p.ID == "" {
			return nil, fmt.Errorf("permit of effect %q: want a type, an id and a lease", p.Effect)
		}
		c, ok := open[p.Effect]
		if !ok || len(members[c]) == maxItems {
			c = len(calls)
			open[p.Effect] = c
			calls, members = append(calls, call{args: append([]any(nil), head...)}), append(members, nil)
		}
		keys, args := of(p)
		calls[c].keys, calls[c].args = append(calls[c].keys, keys...), append(calls[c].args, args...)
		members[c] = append(members[c], i)
	}
	if err := s.eval(ctx, s.scripts[script], calls); err != nil {
		return nil, wrap(ctx, err)
	}
	answers := make([]any, len(permits))
	for c := range calls {
		got, err := calls[c].reply.Slice()
		if err != nil || len(got) != len(members[c]) {
			return nil, fmt.Errorf("script %s: %d answers for %d permits: %w", script, len(got), len(members[c]), wrap(ctx, err))
		}
		for n, i := range members[c] {
			answers[i] = got[n]
		}
	}
	return answers, nil
}

// Usage says how a limit stands: how many permits of an effect type, and of one
// of its flow keys, are in use, and how many effects wait for one.
type Usage struct {
	InUse, Waiting       int
	KeyInUse, KeyWaiting int
}

// Usage reads how the limits of an effect type and of one of its keys stand. A
// permit of a worker that died is in use until it runs out.
func (s *Store) Usage(ctx context.Context, effect, key string) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	fail := func(err error) (Usage, error) {
		return Usage{}, fmt.Errorf("read the limits of effect %s: %w", effect, wrap(ctx, err))
	}
	t, k := s.keys.flow(effect), s.keys.flowKey(effect, key)
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return fail(err)
	}
	from := func(at time.Time) string { return "(" + strconv.FormatInt(at.UnixMilli(), 10) }
	var counts [4]*redis.IntCmd
	_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		counts[0] = p.ZCount(ctx, t.permits, from(now), "+inf")
		counts[1] = p.ZCount(ctx, t.waiting, from(now.Add(-lateTurn)), "+inf")
		counts[2] = p.ZCount(ctx, k.permits, from(now), "+inf")
		counts[3] = p.ZCount(ctx, k.waiting, from(now.Add(-lateTurn)), "+inf")
		return nil
	})
	if err != nil {
		return fail(err)
	}
	n := func(i int) int { return int(counts[i].Val()) }
	return Usage{InUse: n(0), Waiting: n(1), KeyInUse: n(2), KeyWaiting: n(3)}, nil
}
