package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// LastOpened is the incarnation of HISTORY that this Redis was last opened for
// by a fleet with the prefix; "" if by none.
func LastOpened(ctx context.Context, client redis.UniversalClient, prefix string) (string, error) {
	id, err := client.Get(ctx, keys{prefix: prefix}.current()).Result()
	if err := wrap(ctx, err); err != nil {
		return "", fmt.Errorf("read the incarnation: %w", err)
	}
	return id, nil
}
