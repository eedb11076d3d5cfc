package natsqueue

import (
	"context"
	"fmt"
)

// CurrentIncarnation asks the broker which incarnation HISTORY has now, where
// Incarnation remembers the one it had. ErrMissing is returned if there is no
// HISTORY any more.
func (q *Queue) CurrentIncarnation(ctx context.Context) (string, error) {
	info, err := q.link.streamInfo(ctx, streamHistory)
	if err != nil {
		return "", err
	}
	q.link.alone.Store(info.Config.Replicas == 1) // it may have been given more
	id := info.Config.Metadata[metaIncarnation]
	if id == "" {
		return "", fmt.Errorf("stream %s has no incarnation id: %w", info.Config.Name, ErrMissing)
	}
	return id, nil
}
