package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Query selects runs. Fields that are zero select nothing out.
type Query struct {
	Machine string
	State   string
	Status  statemachine.Status
	Index   string // name of a search field; with Value
	Value   string // its value
	After   string // Page.Next of the page before
	Limit   int    // rows of a page, default 50, at most 1,000
}

// Page is a part of the answer to a query, newest first: by the time of the
// last record, or, if the query is for a search field, of the first.
type Page struct {
	Rows []Row
	Next string // for Query.After; empty after the last page
}

// Row is a run as its copy tells.
type Row struct {
	Run     string
	Machine string
	Version int
	State   string
	Status  statemachine.Status
	At      time.Time // of the last record, to the millisecond
	Rev     uint64
	Seq     uint64
}

const (
	defaultRows = 50
	maxRows     = 1000
	// maxRounds bounds how many rows a call looks at that the query then does
	// not select. A page may have fewer rows than asked and be followed by
	// others.
	maxRounds = 20
)

// List returns the runs that the indexes name and whose copies agree. A run
// that moves meanwhile may be missed; until Completeness is 1, others are
// missing, too.
func (s *Store) List(ctx context.Context, q Query) (Page, error) {
	if q.Limit <= 0 {
		q.Limit = defaultRows
	}
	q.Limit = min(q.Limit, maxRows)
	if q.Value != "" && q.Index == "" {
		return Page{}, errors.New("list runs: a value without the name of its search field")
	}
	prefixes, err := s.prefixes(ctx, q)
	if err != nil {
		return Page{}, fmt.Errorf("list runs: %w", err)
	}
	page := Page{Next: q.After}
	seen := make(map[string]bool)
	for range maxRounds {
		entries, err := s.entries(ctx, prefixes, page.Next, q.Limit)
		if err != nil {
			return Page{}, fmt.Errorf("list runs: %w", err)
		}
		more := len(entries) == q.Limit
		rows, err := s.rows(ctx, entries)
		if err != nil {
			return Page{}, fmt.Errorf("list runs: %w", err)
		}
		for i, e := range entries {
			page.Next = e.when + " " + e.token
			if r := rows[i]; r != nil && !seen[e.token] && q.selects(r) {
				seen[e.token] = true
				page.Rows = append(page.Rows, *r)
			}
			if len(page.Rows) == q.Limit {
				more = more || i < len(entries)-1
				break
			}
		}
		if !more {
			page.Next = ""
		}
		if !more || len(page.Rows) == q.Limit {
			break
		}
	}
	return page, nil
}

// selects reports whether a row is what the query asks for.
func (q Query) selects(r *Row) bool {
	return (q.Machine == "" || q.Machine == r.Machine) && (q.State == "" || q.State == r.State) && (q.Status == "" || q.Status == r.Status)
}

// prefixes are how entries that the query selects begin, by partition.
func (s *Store) prefixes(ctx context.Context, q Query) ([][]string, error) {
	all := make([][]string, queue.Partitions)
	switch {
	case q.Index != "":
		for p := range all {
			all[p] = []string{fieldPrefix(q.Index, q.Value)}
		}
	case q.Machine != "" && q.State != "" && q.Status != "":
		for p := range all {
			all[p] = []string{statePrefix(q.Machine, q.State, q.Status)}
		}
	default:
		states, err := s.states(ctx)
		if err != nil {
			return nil, err
		}
		for p, counts := range states {
			for _, c := range counts {
				if q.selects(&Row{Machine: c.Machine, State: c.State, Status: c.Status}) {
					all[p] = append(all[p], statePrefix(c.Machine, c.State, c.Status))
				}
			}
		}
	}
	return all, nil
}

// entry is an index entry without its prefix.
type entry struct {
	when, token string
}

// entries merges the newest entries after a cursor from all partitions, at
// most limit. No list can have more than limit of the first limit.
func (s *Store) entries(ctx context.Context, prefixes [][]string, after string, limit int) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	for p := range prefixes {
		for _, prefix := range prefixes[p] {
			upper := "(" + prefix + after
			if after == "" {
				upper = "(" + strings.TrimSuffix(prefix, " ") + "!" // "!" follows " "
			}
			pipe.ZRevRangeByLex(ctx, s.keys.index(p), &redis.ZRangeBy{Min: "[" + prefix, Max: upper, Count: int64(limit)})
		}
	}
	// Each reply has its own error; Exec returns the first of them.
	replies, _ := pipe.Exec(ctx)
	var found []entry
	for _, reply := range replies {
		c, ok := reply.(*redis.StringSliceCmd)
		if !ok || redis.HasErrorPrefix(c.Err(), "WRONGTYPE") {
			continue
		}
		if err := wrap(ctx, c.Err()); err != nil {
			return nil, err
		}
		for _, member := range c.Val() {
			rest, token := cutLast(member)
			_, when := cutLast(rest)
			found = append(found, entry{when: when, token: token})
		}
	}
	slices.SortFunc(found, func(a, b entry) int {
		return cmp.Or(strings.Compare(b.when, a.when), strings.Compare(b.token, a.token))
	})
	return found[:min(len(found), limit)], nil
}

// rows reads the copies of runs; nil where there is none.
func (s *Store) rows(ctx context.Context, entries []entry) ([]*Row, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	replies := make([]*redis.SliceCmd, len(entries))
	for i, e := range entries {
		fields := []string{"machine", "version", "state", "status", "at", "rev", "seq"}
		if _, ok := queue.Untoken(e.token); !ok {
			fields = append(fields, "record") // only the record has the id of a hashed token
		}
		replies[i] = pipe.HMGet(ctx, s.keys.run(queue.Partition(e.token), e.token), fields...)
	}
	_, _ = pipe.Exec(ctx)
	rows := make([]*Row, len(entries))
	for i, reply := range replies {
		if err := reply.Err(); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, wrap(ctx, err)
		}
		rows[i] = parseRow(entries[i].token, reply.Val())
	}
	return rows, nil
}

func parseRow(token string, fields []any) *Row {
	var f [8]string
	for i := range min(len(fields), len(f)) {
		f[i], _ = fields[i].(string)
	}
	r := &Row{Machine: f[0], State: f[2], Status: statemachine.Status(f[3])}
	var errs [4]error
	r.Version, errs[0] = strconv.Atoi(f[1])
	r.At, errs[1] = time.Parse(timeLayout, f[4])
	r.Rev, errs[2] = strconv.ParseUint(f[5], 10, 64)
	r.Seq, errs[3] = strconv.ParseUint(f[6], 10, 64)
	if errors.Join(errs[:]...) != nil {
		return nil
	}
	var ok bool
	if r.Run, ok = queue.Untoken(token); !ok {
		record, err := statemachine.Decode([]byte(f[7]))
		if err != nil {
			return nil
		}
		r.Run = record.Run
	}
	return r
}

// cutLast divides at the last space.
func cutLast(s string) (before, after string) {
	i := strings.LastIndexByte(s, ' ')
	return s[:max(i, 0)], s[i+1:]
}
