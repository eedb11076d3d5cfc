package redisstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

const (
	defaultRows = 50
	maxRows     = 1000
	// rowsChunk is how many records are in memory at once: one may have 900 KB.
	rowsChunk = 100
	// maxRounds bounds how many entries a call looks at whose copies are gone.
	// A page may have fewer rows than asked and be followed by others.
	maxRounds = 20
)

// List implements api.Index: the runs that the indexes name and whose copies
// agree, those that moved last first, to the second. A run that moves
// while its list is paged through is then before all that is still to come:
// it is in no later page, and if it was in none yet, it is missed.
func (s *Store) List(ctx context.Context, f api.Filter) (*api.Listing, error) {
	l, err := s.list(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return l, nil
}

func (s *Store) list(ctx context.Context, f api.Filter) (*api.Listing, error) {
	limit := min(f.Limit, maxRows)
	if limit <= 0 {
		limit = defaultRows
	}
	high, err := position(&f)
	if err != nil {
		return nil, err
	}
	l := &api.Listing{Runs: []api.Row{}}
	// Asked before: what is found later cannot be less than that.
	if l.Rebuilt, err = s.Completeness(ctx); err != nil {
		return nil, err
	}
	l.Complete = l.Rebuilt == 1
	seen := make(map[string]bool)
	want := limit + 1 // one more tells whether there is another page
	for range maxRounds {
		entries, err := s.find(ctx, &f, high, want)
		if err != nil {
			return nil, err
		}
		for from := 0; from < len(entries) && len(l.Runs) < limit; from += rowsChunk {
			part := entries[from:min(from+rowsChunk, len(entries))]
			records, err := s.records(ctx, part)
			if err != nil {
				return nil, err
			}
			for i, r := range records {
				if len(l.Runs) == limit {
					break
				}
				high = part[i]
				if r != nil && !seen[r.Run] && f.Matches(r) {
					seen[r.Run] = true
					l.Runs = append(l.Runs, f.Row(r))
				}
			}
		}
		if len(entries) < want && (len(entries) == 0 || high == entries[len(entries)-1]) {
			return l, nil
		}
		if len(l.Runs) == limit {
			break
		}
		want = min(2*want, maxRows+1)
	}
	l.Next = cursor(&f, high)
	return l, nil
}

// records reads what the copies of entries say; nil where there is none.
func (s *Store) records(ctx context.Context, entries []string) ([]*statemachine.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	replies := make([]*redis.StringCmd, len(entries))
	for i, e := range entries {
		_, token, _ := strings.Cut(e, " ")
		replies[i] = pipe.HGet(ctx, s.keys.run(queue.Partition(token), token), "record")
	}
	// Each reply has its own error; Exec returns the first of them.
	_, _ = pipe.Exec(ctx)
	records := make([]*statemachine.Record, len(entries))
	for i, reply := range replies {
		b, err := reply.Bytes()
		if err := wrap(ctx, err); err != nil && !redis.HasErrorPrefix(reply.Err(), "WRONGTYPE") {
			return nil, err
		}
		if err != nil {
			continue // expired, or lost
		}
		_, token, _ := strings.Cut(entries[i], " ")
		r, err := statemachine.Decode(b)
		if err != nil || queue.Token(r.Run) != token {
			s.odd.Add(1)
			continue
		}
		records[i] = r
	}
	return records, nil
}

// A cursor is the print of its filter and the "<at> <token>" of the last row.
const printBytes = 9

func cursor(f *api.Filter, high string) string {
	return base64.RawURLEncoding.EncodeToString(append(printOf(f), high...))
}

// position is the "<at> <token>" that a filter's cursor stands for; "" if it
// has none.
func position(f *api.Filter) (string, error) {
	if f.Cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(f.Cursor)
	if err != nil || len(b) < printBytes || string(b[:printBytes]) != string(printOf(f)) {
		return "", api.ErrCursor
	}
	high := string(b[printBytes:])
	at, token, _ := strings.Cut(high, " ")
	if t, err := time.Parse(timeLayout, at); err != nil || formatTime(t) != at || token == "" {
		return "", api.ErrCursor
	}
	return high, nil
}

// printOf tells filters apart. The limit may differ from page to page.
func printOf(f *api.Filter) []byte {
	b, _ := json.Marshal([]any{f.Machine, f.State, f.Status, f.Where, bound(f.Since), bound(f.Until), f.Approver}) // strings
	sum := sha256.Sum256(b)
	return sum[:printBytes]
}

// bound is a time as an instant: exactly, and wherever it was told.
func bound(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
