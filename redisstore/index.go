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
	// nextPartitions is how many then go into a call: the server does nothing
	// else meanwhile, for a few milliseconds at most.
	nextPartitions = 8
	// page is how many entries of an index are read at once.
	page = 2000
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

func newSearch(f *api.Filter, high string, want int) *search {
	q := &search{high: high, want: want}
	if !f.Since.IsZero() { // an entry may be up to a second behind its run
		q.low = formatTime(f.Since.Add(-time.Second))
	}
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
//
// A script finds what is easy to find. Where it gives up, the index is read
// and searched here: that costs the server a fraction of what Lua needs to
// look at as much, and is bounded by the size of the index.
func (s *Store) find(ctx context.Context, f *api.Filter, high string, want int) ([]string, error) {
	q := newSearch(f, high, want)
	easy := true
	for p := 0; p < queue.Partitions; {
		n := min(nextPartitions, queue.Partitions-p)
		if p == 0 {
			n = firstPartitions
		}
		var hard []int
		var err error
		if easy {
			hard, err = s.scan(ctx, q, p, p+n)
		} else {
			for i := range n {
				hard = append(hard, p+i)
			}
		}
		if err == nil {
			err = s.read(ctx, q, hard)
		}
		if err != nil {
			return nil, err
		}
		// What is hard in some is in all: they are alike.
		easy = easy && 2*len(hard) < n
		p += n
		q.settle()
	}
	if err := s.place(ctx, q); err != nil {
		return nil, err
	}
	q.settle()
	return q.best, nil
}

// scan has list.lua search partitions, and returns those where it gave up.
func (s *Store) scan(ctx context.Context, q *search, from, to int) (hard []int, err error) {
	head := append([]any{q.within, q.state, q.status, q.low, q.high, q.want}, q.fields...)
	var items []item
	for p := from; p < to; p++ {
		items = append(items, item{partition: p, keys: []string{s.keys.index(p)}})
	}
	answers, err := s.run(ctx, scriptList, head, items)
	if err != nil {
		return nil, err
	}
	for i, a := range answers {
		list, _ := a.([]any)
		words := make([]string, len(list))
		for n := range list {
			words[n], _ = list[n].(string)
		}
		switch {
		case len(words) == 0:
			return nil, fmt.Errorf("script %s answered %T", scriptList, a)
		case words[0] == "!":
			hard = append(hard, from+i)
		case words[0] == "?":
			q.loose = append(q.loose, words[1:]...)
		default:
			q.best = append(q.best, words[1:]...)
		}
	}
	return hard, nil
}

// read searches what it reads of the indexes of partitions.
func (s *Store) read(ctx context.Context, q *search, partitions []int) error {
	if len(partitions) == 0 {
		return nil
	}
	ranges := []lexRange{{partitions: partitions, min: "[" + q.within, max: "+"}}
	if q.within == "" {
		ranges[0].min = "[A" // fields and marks are before
	} else {
		ranges[0].max = above(q.within)
	}
	for _, f := range q.fields {
		prefix, _ := f.(string)
		ranges = append(ranges, lexRange{partitions: partitions, min: "[" + prefix, max: above(prefix)})
	}
	found, err := s.readRanges(ctx, ranges)
	if err != nil {
		return err
	}
	for i := range partitions {
		has := make([]map[string]bool, len(q.fields))
		for n := range q.fields {
			members := found[1+n][i]
			has[n] = make(map[string]bool, len(members))
			for _, m := range members {
				has[n][m[len(ranges[1+n].min)-1:]] = true
			}
		}
		for _, m := range found[0][i] {
			if entry, ok := q.fits(m, has); ok {
				q.best = append(q.best, entry)
			}
		}
	}
	return nil
}

// above is the bound over all that begins with words that end in a space: "!"
// follows it.
func above(words string) string { return "(" + strings.TrimSuffix(words, " ") + "!" }

// fits reports whether a state entry is one that the search is for, and what
// of it is "<at> <token>".
func (q *search) fits(member string, has []map[string]bool) (entry string, ok bool) {
	_, rest, _ := strings.Cut(member, " ")
	state, rest, _ := strings.Cut(rest, " ")
	status, entry, _ := strings.Cut(rest, " ")
	if q.state != "" && q.state != state || q.status != "" && q.status != status || entry < q.low || q.high != "" && entry >= q.high {
		return "", false
	}
	_, token, _ := strings.Cut(entry, " ")
	for _, h := range has {
		if !h[token] {
			return "", false
		}
	}
	return entry, true
}

// lexRange is a range of the index of each of some partitions.
type lexRange struct {
	partitions []int
	min, max   string
}

// readRanges reads ranges, a page at a time: members by range and partition.
func (s *Store) readRanges(ctx context.Context, ranges []lexRange) ([][][]string, error) {
	type part struct {
		key, min, max string
		into          *[]string
		reply         *redis.StringSliceCmd
	}
	all := make([][][]string, len(ranges))
	var todo []part
	for i, r := range ranges {
		all[i] = make([][]string, len(r.partitions))
		for n, p := range r.partitions {
			todo = append(todo, part{key: s.keys.index(p), min: r.min, max: r.max, into: &all[i][n]})
		}
	}
	for len(todo) > 0 {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
			defer cancel()
			pipe := s.client.Pipeline()
			for i := range todo {
				todo[i].reply = pipe.ZRangeByLex(ctx, todo[i].key, &redis.ZRangeBy{Min: todo[i].min, Max: todo[i].max, Count: page})
			}
			// Each reply has its own error; Exec returns the first of them.
			_, _ = pipe.Exec(ctx)
			for i := range todo {
				if err := todo[i].reply.Err(); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
					return wrap(ctx, err)
				}
			}
			return nil
		}()
		if err != nil {
			return nil, err
		}
		var rest []part
		for _, t := range todo {
			members := t.reply.Val()
			*t.into = append(*t.into, members...)
			if len(members) == page {
				t.min = "(" + members[page-1]
				rest = append(rest, t)
			}
		}
		todo = rest
	}
	return all, nil
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
