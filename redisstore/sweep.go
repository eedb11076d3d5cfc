package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// BeginRebuild implements worker.Shadow. The note is in the index, beside the
// mark: it is lost with all that was written until then.
func (s *Store) BeginRebuild(ctx context.Context, partition int, lease time.Duration) (token string, err error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("begin to rebuild partition %d: %w", partition, err)
	}
	if err := checkPartition(partition); err != nil {
		return fail(err)
	}
	answers, err := s.run(ctx, scriptBegin, nil, []item{{
		partition: partition, keys: []string{s.keys.index(partition)}, args: []any{markOf(partition), rand.Text(), lease.Milliseconds()},
	}})
	if err != nil {
		return fail(err)
	}
	token, ok := answers[0].(string)
	if !ok {
		return fail(fmt.Errorf("script %s answered %T", scriptBegin, answers[0]))
	}
	return token, nil
}

// SetComplete implements worker.Shadow.
func (s *Store) SetComplete(ctx context.Context, partition int, token string) error {
	fail := func(err error) error { return fmt.Errorf("note that partition %d is complete: %w", partition, err) }
	if err := checkPartition(partition); err != nil {
		return fail(err)
	}
	if !strings.HasPrefix(token, markOf(partition)+" ") {
		return fail(fmt.Errorf("%q is no token of BeginRebuild", token))
	}
	_, err := s.run(ctx, scriptComplete, nil, []item{{
		partition: partition, keys: []string{s.keys.index(partition)}, args: []any{markOf(partition), token},
	}})
	if err != nil {
		return fail(err)
	}
	return nil
}

// Keeps implements worker.Shadow: an ended run stays for EndedTTL. One that is
// written again after a loss then stays as long as if it had just ended.
func (s *Store) Keeps(r *statemachine.Stored) bool {
	ended := r.Time
	if ended.IsZero() {
		ended = r.At
	}
	return !r.Status.Ended() || time.Since(ended) < s.opts.EndedTTL
}

// Tidy implements worker.Shadow: it removes what the index says of runs that
// have expired, or have moved since their copies were lost. It does so for a
// whole shard when it comes to its first partition.
func (s *Store) Tidy(ctx context.Context, partition int) error {
	err := checkPartition(partition)
	if err == nil && partition < shards {
		err = s.tidy(ctx, partition)
	}
	if err != nil {
		return fmt.Errorf("tidy the index of partition %d: %w", partition, err)
	}
	return nil
}

func checkPartition(p int) error {
	if p < 0 || p >= queue.Partitions {
		return fmt.Errorf("there are partitions 0 to %d", queue.Partitions-1)
	}
	return nil
}

// Completeness is the share of partitions that are complete, 0 to 1.
func (s *Store) Completeness(ctx context.Context) (float64, error) {
	missing, err := s.Incomplete(ctx)
	return float64(queue.Partitions-len(missing)) / queue.Partitions, err
}

// Incomplete implements worker.Shadow. The mark of a partition is in its index
// itself: it is lost with it.
func (s *Store) Incomplete(ctx context.Context) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	marks := make([]*redis.FloatCmd, queue.Partitions)
	for p := range marks {
		marks[p] = pipe.ZScore(ctx, s.keys.index(p), markOf(p))
	}
	// Each reply has its own error; Exec returns the first of them.
	_, _ = pipe.Exec(ctx)
	var missing []int
	for p, m := range marks {
		if err := m.Err(); err != nil {
			if err := wrap(ctx, err); err != nil && !redis.HasErrorPrefix(m.Err(), "WRONGTYPE") {
				return nil, fmt.Errorf("ask for completeness: %w", err)
			}
			missing = append(missing, p)
		}
	}
	return missing, nil
}

// tidyPage is how many index entries tidy checks at a time.
const tidyPage = 500

// tidy removes the entries of a shard's index that no copy bears out.
func (s *Store) tidy(ctx context.Context, shard int) error {
	from := "[" + fieldMark
	for {
		members, err := s.members(ctx, shard, from)
		if err != nil {
			return err
		}
		items := make([]item, len(members))
		for i, m := range members {
			token := m[strings.LastIndexByte(m, ' ')+1:]
			items[i] = item{
				partition: shard,
				keys:      []string{s.keys.index(shard), s.keys.run(shard, token)},
				args:      []any{m, len(m) - len(token)},
			}
		}
		if _, err := s.run(ctx, scriptTidy, nil, items); err != nil {
			return err
		}
		if len(members) < tidyPage {
			return nil
		}
		from = "(" + members[len(members)-1]
	}
}

func (s *Store) members(ctx context.Context, shard int, from string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	key := s.keys.index(shard)
	members, err := s.client.ZRangeByLex(ctx, key, &redis.ZRangeBy{Min: from, Max: "+", Count: tidyPage}).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = s.client.Del(ctx, key).Err()
	}
	return members, wrap(ctx, err)
}

// Clear removes all keys of another incarnation, and returns how many. It
// walks through the whole key space, slowly enough not to disturb.
func (s *Store) Clear(ctx context.Context, incarnation string) (int, error) {
	if _, err := newKeys(s.opts.Prefix, incarnation); err != nil {
		return 0, fmt.Errorf("clear: %w", err)
	}
	if incarnation == s.opts.Incarnation {
		return 0, fmt.Errorf("clear: incarnation %s is the current one", incarnation)
	}
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		n, err := s.clear(ctx, s.client, incarnation)
		return n, wrapClear(ctx, incarnation, err)
	}
	counts := make(chan int)
	var err error
	go func() {
		defer close(counts)
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			n, err := s.clear(ctx, node, incarnation)
			counts <- n
			return err
		})
	}()
	total := 0
	for n := range counts {
		total += n
	}
	return total, wrapClear(ctx, incarnation, err)
}

func wrapClear(ctx context.Context, incarnation string, err error) error {
	if err := wrap(ctx, err); err != nil {
		return fmt.Errorf("clear incarnation %s: %w", incarnation, err)
	}
	return nil
}

// clear removes the keys of an incarnation from one server.
func (s *Store) clear(ctx context.Context, node redis.Cmdable, incarnation string) (int, error) {
	total, cursor := 0, uint64(0)
	for {
		n, next, err := s.clearPage(ctx, node, incarnation, cursor)
		total += n
		if err != nil || next == 0 {
			return total, err
		}
		cursor = next
	}
}

func (s *Store) clearPage(ctx context.Context, node redis.Cmdable, incarnation string, cursor uint64) (n int, next uint64, err error) {
	const page = 500
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	found, next, err := node.Scan(ctx, cursor, s.keys.all(incarnation), page).Result()
	if err != nil || len(found) == 0 {
		return 0, next, err
	}
	pipe := node.Pipeline()
	for _, key := range found {
		pipe.Unlink(ctx, key) // one key a command: a cluster takes no others
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, next, err
	}
	return len(found), next, nil
}
