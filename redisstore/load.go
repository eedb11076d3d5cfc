package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// Load returns what it knows of runs; nil for a run it does not know. A copy
// that is not beyond doubt is not known.
func (s *Store) Load(ctx context.Context, runs []string) ([]*worker.Copy, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	replies := make([]*redis.SliceCmd, len(runs))
	for i, run := range runs {
		at, err := locate(run)
		if err != nil {
			return nil, fmt.Errorf("load run: %w", err)
		}
		replies[i] = pipe.HMGet(ctx, s.keys.run(at.partition, at.token), "head", "flushed", "record")
	}
	// Each reply has its own error; Exec returns the first of them.
	_, _ = pipe.Exec(ctx)
	copies := make([]*worker.Copy, len(runs))
	for i, reply := range replies {
		switch err := reply.Err(); {
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			s.odd.Add(1)
		case err != nil:
			return nil, fmt.Errorf("load %d runs: %w", len(runs), wrap(ctx, err))
		default:
			copies[i] = s.parseCopy(runs[i], reply.Val())
		}
	}
	return copies, nil
}

// parseCopy makes a copy of the fields that Load asks for, or nil.
func (s *Store) parseCopy(run string, fields []any) *worker.Copy {
	var f [3]string
	for i := range min(len(fields), len(f)) {
		f[i], _ = fields[i].(string)
	}
	if f[0] == "" && f[2] == "" {
		return nil // not there, or nothing but claims
	}
	h, ok := parseHead(f[0])
	if !ok {
		s.odd.Add(1)
		return nil
	}
	b := []byte(f[2])
	r, err := statemachine.Decode(b)
	if err != nil || r.Run != run || r.Txid != h.txid || r.Prev >= h.seq {
		s.odd.Add(1)
		return nil
	}
	return &worker.Copy{Stored: statemachine.Stored{Record: r, Seq: h.seq, Bytes: b, Time: h.time}, Flushed: f[1]}
}

// Flushed notes that the outbox of the record with this txid was published.
func (s *Store) Flushed(ctx context.Context, hints []worker.Hint) error {
	items := make([]item, len(hints))
	for i, h := range hints {
		at, err := locate(h.Run)
		if err != nil {
			return fmt.Errorf("note flush of run: %w", err)
		}
		items[i] = item{partition: at.partition, keys: []string{s.keys.run(at.partition, at.token)}, args: []any{h.Txid}}
	}
	if _, err := s.run(ctx, scriptFlushed, nil, items); err != nil {
		return fmt.Errorf("note flush of %d runs: %w", len(hints), err)
	}
	return nil
}

// Tail returns items [from, to) of a log, or false if it does not hold all of
// them.
func (s *Store) Tail(ctx context.Context, run, log string, from, to int) ([][]byte, bool, error) {
	at, err := locate(run)
	if err != nil {
		return nil, false, fmt.Errorf("read log: %w", err)
	}
	if from < 0 || to < from {
		return nil, false, fmt.Errorf("read log %s of run %s: no items [%d, %d)", log, run, from, to)
	}
	if from == to {
		return nil, true, nil
	}
	answers, err := s.run(ctx, scriptTail, nil, []item{{
		partition: at.partition,
		keys:      []string{s.keys.run(at.partition, at.token), s.keys.log(at.partition, at.token, log)},
		args:      []any{logField + log, from, to},
	}})
	if err != nil {
		return nil, false, fmt.Errorf("read log %s of run %s: %w", log, run, err)
	}
	found, _ := answers[0].([]any)
	if len(found) != to-from {
		return nil, false, nil
	}
	items := make([][]byte, len(found))
	for i, f := range found {
		text, _ := f.(string)
		items[i] = []byte(text)
	}
	return items, true, nil
}
