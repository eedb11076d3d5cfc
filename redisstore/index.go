package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
)

// How a search goes through the partitions.
const (
	// firstPartitions are asked first and alone: what they have says how new
	// an entry of the others has to be.
	firstPartitions = 4
	nextPartitions  = 64
	// lookedAt is how many entries one call looks at, in one or two
	// milliseconds: the server does nothing else meanwhile.
	lookedAt = 4000
)

// search is one search of the indexes for the newest entries of a filter. An
// entry is "<at> <token>", so entries sort by time as strings.
type search struct {
	within, state, status string
	fields                []any
	low, high             string
	want                  int
	best                  []string // newest first, after settle
	loose                 []string // tokens of runs that are still to be looked at
}

// leg is what is still to be asked of a partition.
type leg struct {
	partition int
	from      string // where the call before ended
}

func newSearch(f *api.Filter, high string, want int) *search {
	q := &search{high: high, want: want, low: formatTime(f.Since)}
	if !f.Until.IsZero() {
		// The end is exact, the index knows milliseconds: the records tell.
		end := formatTime(f.Until.Add(time.Millisecond - time.Nanosecond))
		if high == "" || end < high {
			q.high = end
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Where)) {
		if f.Where[name] != "" { // runs without a field are in no index; the records tell
			q.fields = append(q.fields, fieldPrefix(name, f.Where[name]))
		}
	}
	word := func(s string) string {
		if s == "" {
			return ""
		}
		return queue.Token(s)
	}
	q.state, q.status = word(f.State), word(string(f.Status))
	for _, w := range []string{word(f.Machine), q.state, q.status} {
		if w == "" {
			break
		}
		q.within += w + " "
	}
	return q
}

// find returns the newest entries of a filter that are below high, at most so
// many. It goes through the partitions one call after the other, so that it
// holds nobody else up for longer than a call, and each call knows how new an
// entry must be to be among those found so far.
func (s *Store) find(ctx context.Context, f *api.Filter, high string, want int) ([]string, error) {
	q := newSearch(f, high, want)
	todo := make([]leg, queue.Partitions)
	for p := range todo {
		todo[p].partition = p
	}
	for n := firstPartitions; len(todo) > 0; n = nextPartitions {
		n = min(n, len(todo))
		items := make([]item, n)
		for i, t := range todo[:n] {
			items[i] = item{partition: t.partition, keys: []string{s.keys.index(t.partition)}, args: []any{t.from}}
		}
		answers, err := s.run(ctx, scriptList, q.head(), items)
		if err != nil {
			return nil, err
		}
		var rest []leg
		for i, a := range answers {
			from, more, err := q.take(a)
			if err != nil {
				return nil, err
			}
			if more {
				rest = append(rest, leg{todo[i].partition, from})
			}
		}
		todo = append(rest, todo[n:]...)
		q.settle()
	}
	if err := s.place(ctx, q); err != nil {
		return nil, err
	}
	q.settle()
	return q.best, nil
}

// head are the arguments of list.lua that are not of a partition.
func (q *search) head() []any {
	return append([]any{q.within, q.state, q.status, q.low, q.high, q.want, lookedAt, len(q.fields)}, q.fields...)
}

// take takes the answer of list.lua for a partition, and tells whether and
// where to go on there.
func (q *search) take(answer any) (from string, more bool, err error) {
	list, _ := answer.([]any)
	words := make([]string, len(list))
	for i := range list {
		words[i], _ = list[i].(string)
	}
	if len(words) == 0 {
		return "", false, fmt.Errorf("script %s answered %T", scriptList, answer)
	}
	switch from = words[0]; from {
	case "":
		q.best = append(q.best, words[1:]...)
		return "", false, nil
	case "-":
		return "", true, nil
	case "?":
		q.loose = append(q.loose, words[1:]...)
		return "", false, nil
	}
	q.best = append(q.best, words[1:]...)
	return from, true, nil
}

// settle keeps the newest of what was found. What is older than all of them,
// if they are enough, need not be found any more.
func (q *search) settle() {
	slices.SortFunc(q.best, func(a, b string) int { return strings.Compare(b, a) })
	q.best = slices.Compact(q.best)
	if len(q.best) >= q.want {
		q.best = q.best[:q.want]
		q.low = q.best[q.want-1]
	}
}

// place finds out where the runs are that a search field named, and keeps
// those that the filter selects.
func (s *Store) place(ctx context.Context, q *search) error {
	if len(q.loose) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	replies := make([]*redis.SliceCmd, len(q.loose))
	for i, token := range q.loose {
		replies[i] = pipe.HMGet(ctx, s.keys.run(queue.Partition(token), token), "place", "index")
	}
	// Each reply has its own error; Exec returns the first of them.
	_, _ = pipe.Exec(ctx)
	for i, reply := range replies {
		if err := wrap(ctx, reply.Err()); err != nil && !redis.HasErrorPrefix(reply.Err(), "WRONGTYPE") {
			return err
		}
		var f [2]string
		for n, v := range reply.Val() {
			f[n], _ = v.(string)
		}
		w := strings.Split(f[0], " ") // machine, state, status, time
		if len(w) != 4 {
			continue
		}
		entry := w[3] + " " + q.loose[i]
		if q.selects(f[0], w[1], w[2], f[1]) && entry >= q.low && (q.high == "" || entry < q.high) {
			q.best = append(q.best, entry)
		}
	}
	return nil
}

// selects reports whether a run is what the search is for.
func (q *search) selects(words, state, status, index string) bool {
	if !strings.HasPrefix(words, q.within) || q.state != "" && q.state != state || q.status != "" && q.status != status {
		return false
	}
	lines := strings.Split(index, "\n")
	return !slices.ContainsFunc(q.fields, func(f any) bool {
		prefix, _ := f.(string)
		return !slices.Contains(lines, strings.TrimSuffix(strings.TrimPrefix(prefix, fieldMark), " "))
	})
}
