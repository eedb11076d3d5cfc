package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/worker"
)

// unknownTTL is how long a hash stays that holds claims but no record, beyond
// their leases.
const unknownTTL = time.Hour

// Claim takes each free effect; granted is parallel. A held one says how long
// its lease still runs, by the clock of Redis.
func (s *Store) Claim(ctx context.Context, claims []worker.Claim) ([]worker.Granted, error) {
	left, err := s.claim(ctx, claims, false)
	if err != nil {
		return nil, fmt.Errorf("claim %d effects: %w", len(claims), err)
	}
	granted := make([]worker.Granted, len(claims))
	for i, d := range left {
		granted[i] = worker.Granted{OK: d == 0, Left: d}
	}
	return granted, nil
}

// Renew prolongs the leases that Owner still holds, and takes again those that
// nobody does.
func (s *Store) Renew(ctx context.Context, claims []worker.Claim) error {
	if _, err := s.claim(ctx, claims, true); err != nil {
		return fmt.Errorf("renew %d claims: %w", len(claims), err)
	}
	return nil
}

func (s *Store) claim(ctx context.Context, claims []worker.Claim, renew bool) ([]time.Duration, error) {
	items := make([]item, len(claims))
	for i, c := range claims {
		at, err := locate(c.Run)
		if err != nil {
			return nil, err
		}
		if c.Lease < time.Millisecond {
			return nil, fmt.Errorf("run %s: a claim without a lease", c.Run)
		}
		items[i] = item{
			partition: at.partition,
			keys:      []string{s.keys.run(at.partition, at.token)},
			args:      []any{claimField + c.Effect, ownerWord(c.Owner), c.Lease.Milliseconds()},
		}
	}
	answers, err := s.run(ctx, scriptClaim, []any{flag(renew), unknownTTL.Milliseconds()}, items)
	if err != nil {
		return nil, err
	}
	left := make([]time.Duration, len(claims))
	for i, a := range answers {
		ms, ok := a.(int64)
		if !ok {
			return nil, fmt.Errorf("script %s answered %v", scriptClaim, a)
		}
		left[i] = time.Duration(ms) * time.Millisecond
	}
	return left, nil
}

// Release lets go of what Owner holds.
func (s *Store) Release(ctx context.Context, claims []worker.Claim) error {
	items := make([]item, len(claims))
	for i, c := range claims {
		at, err := locate(c.Run)
		if err != nil {
			return fmt.Errorf("release claims: %w", err)
		}
		items[i] = item{
			partition: at.partition,
			keys:      []string{s.keys.run(at.partition, at.token)},
			args:      []any{claimField + c.Effect, ownerWord(c.Owner)},
		}
	}
	if _, err := s.run(ctx, scriptRelease, nil, items); err != nil {
		return fmt.Errorf("release %d claims: %w", len(claims), err)
	}
	return nil
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
