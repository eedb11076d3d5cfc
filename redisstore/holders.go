package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/explain"
)

// Holders reads who performs effects of a run, by the effect's id. It changes
// nothing, so whoever looks at a fleet that they are no part of may ask, too.
// An effect that nobody performs is not in the answer.
func Holders(ctx context.Context, client redis.UniversalClient, prefix, incarnation, run string, effects []string) (map[string]explain.Claim, error) {
	k, err := newKeys(prefix, incarnation)
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", err)
	}
	at, err := locate(run)
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", err)
	}
	fields := make([]string, len(effects))
	for i, e := range effects {
		fields[i] = claimField + e
	}
	pipe := client.Pipeline()
	clock := pipe.Time(ctx)
	out := map[string]explain.Claim{}
	var claims *redis.SliceCmd
	if len(fields) > 0 {
		claims = pipe.HMGet(ctx, k.run(at.partition, at.token), fields...)
	}
	if _, err := pipe.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil, fmt.Errorf("read claims of run %s: %w", run, wrap(ctx, err))
	}
	if claims == nil {
		return out, nil
	}
	for i, v := range claims.Val() {
		text, _ := v.(string)
		if c, ok := parseClaim(text, clock.Val()); ok && c.Left > 0 {
			out[effects[i]] = c
		}
	}
	return out, nil
}

// Observe sees who performs effects of a run.
func (s *Store) Observe(ctx context.Context, f *explain.Facts) (err error) {
	f.Claims, err = Holders(ctx, s.client, s.keys.prefix, s.keys.incarnation, f.Run, f.Due())
	return err
}

// parseClaim reads "<deadline> <owner> …".
func parseClaim(text string, now time.Time) (explain.Claim, bool) {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 2 {
		return explain.Claim{}, false
	}
	ms, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return explain.Claim{}, false
	}
	return explain.Claim{Owner: words[1], Left: max(time.UnixMilli(ms).Sub(now), 0)}, true
}
