package natsqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/archive"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// Archive is HISTORY for the archiver: the only one who purges.
type Archive struct{ *Log }

var _ archive.History = Archive{}

// Archive returns what an archiver needs.
func (q *Queue) Archive() Archive { return Archive{q.Log} }

// Bury implements archive.History.
func (a Archive) Bury(ctx context.Context, tomb *statemachine.Sealed, life time.Duration) (bool, error) {
	open := a.attempts([]worker.Append{{Record: tomb.Record, Bytes: tomb.Bytes}})
	open[0].msg.Header[headerTTL] = []string{ttl(life)}
	out := make([]worker.Appended, 1)
	a.settleAll(ctx, open, out)
	return out[0].Err == nil && out[0].Last == nil, out[0].Err
}

// Purge implements archive.History.
func (a Archive) Purge(ctx context.Context, run string) error {
	ctx, cancel := context.WithTimeout(ctx, a.opts.Patience)
	defer cancel()
	s, err := a.js.Stream(ctx, a.subj.stream(streamHistory))
	if err != nil {
		return unavailable("look up stream", err)
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(a.subj.history(run)), jetstream.WithPurgeKeep(1)); err != nil {
		return fmt.Errorf("purge run %s: %w", quoted(run), unavailable("purge", err))
	}
	return (&Blobs{a.link}).PurgeRun(ctx, run)
}
