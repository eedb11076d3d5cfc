package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var sources embed.FS

// The scripts, by file name.
const (
	scriptSave     = "save"
	scriptClaim    = "claim"
	scriptRelease  = "release"
	scriptFlushed  = "flushed"
	scriptTail     = "tail"
	scriptList     = "list"
	scriptCounts   = "counts"
	scriptTidy     = "tidy"
	scriptBegin    = "begin"
	scriptComplete = "complete"
	scriptTake     = "take"
	scriptRenew    = "renew"
	scriptGive     = "give"
	prelude        = "prelude"
)

// scripts reads all scripts, each with the prelude in front.
func scripts() (map[string]*redis.Script, error) {
	head, err := sources.ReadFile("scripts/" + prelude + ".lua")
	if err != nil {
		return nil, fmt.Errorf("read scripts: %w", err)
	}
	entries, err := sources.ReadDir("scripts")
	if err != nil {
		return nil, fmt.Errorf("read scripts: %w", err)
	}
	all := make(map[string]*redis.Script)
	for _, e := range entries {
		body, err := sources.ReadFile("scripts/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read scripts: %w", err)
		}
		if name := strings.TrimSuffix(e.Name(), path.Ext(e.Name())); name != prelude {
			all[name] = redis.NewScript(string(head) + string(body))
		}
	}
	return all, nil
}

// item is one element of a script's batch. A script answers with an array,
// one element per item.
type item struct {
	partition int
	keys      []string
	args      []any
	size      int // rough number of bytes of args
}

// What one call of a script is given at most: it keeps the server busy for
// well under a millisecond, and stays far from the limits of the protocol.
const (
	maxItems = 128
	maxBytes = 4 << 20
)

// run runs a script over items and returns its answers, parallel to them.
func (s *Store) run(ctx context.Context, script string, head []any, items []item) ([]any, error) {
	if len(items) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	answers, err := s.runGroups(ctx, script, head, items, s.group(items))
	if err != nil && redis.HasErrorPrefix(err, "CROSSSLOT") && s.bySlot.CompareAndSwap(false, true) {
		// It looks like one server, but is a cluster behind a proxy.
		answers, err = s.runGroups(ctx, script, head, items, s.group(items))
	}
	return answers, wrap(ctx, err)
}

// group divides items into calls. A cluster takes keys of one slot only; one
// server takes any, and a call costs far more than an item in it. Items of
// one shard stay in order.
func (s *Store) group(items []item) [][]int {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	bySlot := s.bySlot.Load()
	if bySlot {
		slices.SortStableFunc(order, func(a, b int) int { return items[a].partition%shards - items[b].partition%shards })
	}
	var groups [][]int
	from, size := 0, 0
	for n, i := range order {
		foreign := bySlot && n > 0 && items[order[n-1]].partition%shards != items[i].partition%shards
		if n > from && (foreign || n-from >= maxItems || size+items[i].size > maxBytes) {
			groups = append(groups, order[from:n])
			from, size = n, 0
		}
		size += items[i].size
	}
	return append(groups, order[from:])
}

func (s *Store) runGroups(ctx context.Context, script string, head []any, items []item, groups [][]int) ([]any, error) {
	calls := make([]call, len(groups))
	for g, members := range groups {
		c := call{args: slices.Clone(head)}
		for _, i := range members {
			c.keys = append(c.keys, items[i].keys...)
			c.args = append(c.args, items[i].args...)
		}
		calls[g] = c
	}
	if err := s.eval(ctx, s.scripts[script], calls); err != nil {
		return nil, err
	}
	answers := make([]any, len(items))
	for g, members := range groups {
		got, err := calls[g].reply.Slice()
		if err != nil {
			return nil, fmt.Errorf("script %s: %w", script, err)
		}
		if len(got) != len(members) {
			return nil, fmt.Errorf("script %s: %d answers for %d items", script, len(got), len(members))
		}
		for n, i := range members {
			answers[i] = got[n]
		}
	}
	return answers, nil
}

// call is one EVALSHA of a pipeline.
type call struct {
	keys  []string
	args  []any
	reply *redis.Cmd
}

// eval runs calls in one pipeline. The servers forget scripts when they
// restart, one of a cluster's may have while the others have not: those calls
// that found none are repeated once it is loaded again.
func (s *Store) eval(ctx context.Context, script *redis.Script, calls []call) error {
	const loads = 3
	for try := 0; ; try++ {
		pipe := s.client.Pipeline()
		for i := range calls {
			if c := &calls[i]; c.reply == nil {
				c.reply = pipe.EvalSha(ctx, script.Hash(), c.keys, c.args...)
			}
		}
		// Each reply has its own error; Exec returns the first of them.
		_, _ = pipe.Exec(ctx)
		var errs error
		missing := false
		for i := range calls {
			err := calls[i].reply.Err()
			if redis.HasErrorPrefix(err, "NOSCRIPT") {
				missing = true
				calls[i].reply = nil
				continue
			}
			if err != nil && errs == nil {
				errs = err
			}
		}
		switch {
		case errs != nil:
			return errs
		case !missing:
			return nil
		case try == loads:
			return errors.New("the script is forgotten as soon as it is loaded")
		}
		if err := script.Load(ctx, s.client).Err(); err != nil {
			return err
		}
	}
}
