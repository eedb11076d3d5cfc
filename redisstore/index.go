package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
)

// page is how many entries of an index are read at once, and looks how many
// shards are searched at once: while one answer is looked at here, the server
// makes the next.
const (
	page  = 2000
	looks = 2
)

// search is one search of the indexes for the newest entries of a filter. An
// entry is "<at> <token>", so entries sort by time as strings.
type search struct {
	within, state, status string
	fields                []string // how their entries begin
	high                  string
	want                  int

	mu    sync.Mutex
	low   string
	best  []string // newest first, after settle
	loose []string // tokens of runs that are still to be looked at
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
	switch f.Approver {
	case "":
	case api.Anybody:
		q.fields = append(q.fields, fieldPrefix(approvalField, approvalWaits))
	default:
		q.fields = append(q.fields, fieldPrefix(approverField, f.Approver))
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
// many. What the first shard has says how new an entry of the others has to
// be, and so on. No command keeps the server busy for more than a few
// milliseconds.
//
// A script finds what is easy to find. Where it gives up, the index is read
// and searched here: that costs the server a fraction of what Lua needs to
// look at as much, and is bounded by the size of the index.
func (s *Store) find(ctx context.Context, f *api.Filter, high string, want int) ([]string, error) {
	q := newSearch(f, high, want)
	easy, err := s.look(ctx, q, 0, true)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, looks)
	for i := range errs {
		wg.Go(func() {
			for errs[i] == nil {
				shard := int(next.Add(1))
				if shard >= shards {
					return
				}
				// What is hard in one shard is in all: they are alike.
				_, errs[i] = s.look(ctx, q, shard, easy)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := s.place(ctx, q); err != nil {
		return nil, err
	}
	q.settle()
	return q.best, nil
}

// look searches a shard, by the script first if that may be easy, and reports
// whether it was.
func (s *Store) look(ctx context.Context, q *search, shard int, try bool) (easy bool, err error) {
	q.mu.Lock()
	low := q.low
	q.mu.Unlock()
	var entries, loose []string
	if try {
		if easy, entries, loose, err = s.scan(ctx, q, low, shard); err != nil {
			return false, err
		}
	}
	if !easy {
		if entries, err = s.read(ctx, q, low, shard); err != nil {
			return false, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.best = append(q.best, entries...)
	q.loose = append(q.loose, loose...)
	q.settle()
	return easy, nil
}

// scan has list.lua search a shard.
func (s *Store) scan(ctx context.Context, q *search, low string, shard int) (easy bool, entries, loose []string, err error) {
	args := []any{q.within, q.state, q.status, low, q.high, q.want}
	for _, f := range q.fields {
		args = append(args, f)
	}
	answers, err := s.run(ctx, scriptList, args, []item{{partition: shard, keys: []string{s.keys.index(shard)}}})
	if err != nil {
		return false, nil, nil, err
	}
	list, _ := answers[0].([]any)
	words := make([]string, len(list))
	for n := range list {
		words[n], _ = list[n].(string)
	}
	switch {
	case len(words) == 0:
		return false, nil, nil, fmt.Errorf("script %s answered %T", scriptList, answers[0])
	case words[0] == "!":
		return false, nil, nil, nil
	case words[0] == "?":
		return true, nil, words[1:], nil
	}
	return true, words[1:], nil, nil
}

// read searches what it reads of the index of a shard: of search fields the
// hours between the bounds, and of the states that the filter selects the
// entries in the hours that all those fields have.
func (s *Store) read(ctx context.Context, q *search, low string, shard int) ([]string, error) {
	high := q.high
	fields := make([]lexRange, len(q.fields))
	for i, f := range q.fields {
		r := lexRange{min: "[" + f + hourOf(low), max: above(f), skip: len(f)}
		if high != "" {
			r.max = "(" + f + hourOf(high) + "!"
		}
		fields[i] = r
	}
	if err := s.readRanges(ctx, shard, fields); err != nil {
		return nil, err
	}
	has := make([]map[string]bool, len(fields))
	for i, r := range fields {
		if len(r.found) == 0 {
			return nil, nil
		}
		low = max(low, hourOf(r.found[0][r.skip:]))
		if end := hourOf(r.found[len(r.found)-1][r.skip:]) + "~"; high == "" || end < high {
			high = end
		}
		has[i] = make(map[string]bool, len(r.found))
		for _, m := range r.found {
			has[i][m[min(r.skip+hourBytes+1, len(m)):]] = true
		}
	}
	states, err := s.states(ctx, shard, shard+1)
	if err != nil {
		return nil, err
	}
	var ranges []lexRange
	for _, c := range states[shard] {
		place := c.Machine + " " + c.State + " " + string(c.Status) + " " // words of the index, not names
		if !q.selects(place, "") {
			continue
		}
		r := lexRange{min: "[" + place + low, max: above(place), skip: len(place)}
		if high != "" {
			r.max = "(" + place + high
		}
		ranges = append(ranges, r)
	}
	if err := s.readRanges(ctx, shard, ranges); err != nil {
		return nil, err
	}
	var entries []string
	for _, r := range ranges {
		for _, m := range r.found {
			_, token, _ := strings.Cut(m[r.skip:], " ")
			if !slices.ContainsFunc(has, func(h map[string]bool) bool { return !h[token] }) {
				entries = append(entries, m[r.skip:])
			}
		}
	}
	return entries, nil
}

// above is the bound over all that begins with words that end in a space: "!"
// follows it.
func above(words string) string { return "(" + strings.TrimSuffix(words, " ") + "!" }

// lexRange is a range of an index, and what was found in it.
type lexRange struct {
	min, max string
	skip     int // bytes that all have in common
	found    []string
}

// readRanges reads ranges of the index of a shard, a page of each at a time.
func (s *Store) readRanges(ctx context.Context, shard int, ranges []lexRange) error {
	todo := make([]*lexRange, len(ranges))
	for i := range ranges {
		todo[i] = &ranges[i]
	}
	for len(todo) > 0 {
		pages, err := s.readPages(ctx, shard, todo)
		if err != nil {
			return err
		}
		var rest []*lexRange
		for i, r := range todo {
			r.found = append(r.found, pages[i]...)
			if len(pages[i]) == page {
				r.min = "(" + pages[i][page-1]
				rest = append(rest, r)
			}
		}
		todo = rest
	}
	return nil
}

func (s *Store) readPages(ctx context.Context, shard int, ranges []*lexRange) ([][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	replies := make([]*redis.StringSliceCmd, len(ranges))
	for i, r := range ranges {
		replies[i] = pipe.ZRangeByLex(ctx, s.keys.index(shard), &redis.ZRangeBy{Min: r.min, Max: r.max, Count: page})
	}
	// Each reply has its own error; Exec returns the first of them.
	_, _ = pipe.Exec(ctx)
	pages := make([][]string, len(ranges))
	for i, reply := range replies {
		if err := reply.Err(); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, wrap(ctx, err)
		}
		pages[i] = reply.Val()
	}
	return pages, nil
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
		cut := strings.LastIndexByte(f[0], ' ') + 1 // machine, state and status; time
		entry := f[0][cut:] + " " + q.loose[i]
		if cut > 0 && q.selects(f[0][:cut], "\n"+f[1]+"\n", q.fields...) && entry >= q.low && (q.high == "" || entry < q.high) {
			q.best = append(q.best, entry)
		}
	}
	return nil
}

// selects reports whether the search is for a place, "<machine> <state>
// <status> ", and has fields among the lines of an index.
func (q *search) selects(place, lines string, fields ...string) bool {
	w := strings.Split(place, " ")
	if !strings.HasPrefix(place, q.within) || len(w) < 3 || q.state != "" && q.state != w[1] || q.status != "" && q.status != w[2] {
		return false
	}
	return !slices.ContainsFunc(fields, func(f string) bool {
		return !strings.Contains(lines, "\n"+strings.TrimSuffix(strings.TrimPrefix(f, fieldMark), " ")+"\n")
	})
}
