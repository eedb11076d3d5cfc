package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/statemachine"
)

// Count is how many runs are in a state with a status.
type Count struct {
	Machine string
	State   string
	Status  statemachine.Status
	Runs    int
}

// Counts counts the runs of the indexes, in order of machine, state, status.
func (s *Store) Counts(ctx context.Context) ([]Count, error) {
	states, err := s.states(ctx, 0, shards)
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	sums := make(map[Count]int)
	for _, counts := range states {
		for _, c := range counts {
			n := c.Runs
			c.Runs = 0
			sums[c] += n
		}
	}
	all := make([]Count, 0, len(sums))
	for c, n := range sums {
		c.Runs = n
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.State, b.State), cmp.Compare(a.Status, b.Status))
	})
	return all, nil
}

// states counts the runs of shards [first, beyond), by shard.
func (s *Store) states(ctx context.Context, first, beyond int) ([][]Count, error) {
	all := make([][]Count, shards)
	from := make(map[int]string) // by shard: the last state of its answer before
	for p := first; p < beyond; p++ {
		from[p] = ""
	}
	for len(from) > 0 {
		todo := slices.Sorted(maps.Keys(from))
		items := make([]item, len(todo))
		for i, p := range todo {
			items[i] = item{partition: p, keys: []string{s.keys.index(p)}, args: []any{from[p]}}
		}
		answers, err := s.run(ctx, scriptCounts, nil, items)
		if err != nil {
			return nil, err
		}
		clear(from)
		for i, p := range todo {
			found, _ := answers[i].([]any)
			for n := 0; n+1 < len(found); n += 2 {
				state, _ := found[n].(string)
				runs, _ := found[n+1].(int64)
				if w := strings.Split(state, " "); len(w) == 3 {
					all[p] = append(all[p], Count{Machine: w[0], State: w[1], Status: statemachine.Status(w[2]), Runs: int(runs)})
				}
				if n+2 == countsPerCall {
					from[p] = state
				}
			}
		}
	}
	return all, nil
}

// countsPerCall is the length of an answer of counts.lua that is not the last.
const countsPerCall = 512
