package pawl

import (
	"context"
	"sync"
	"time"

	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/redisstore"
	"github.com/pawlrun/pawl/statemachine"
)

// quick is how long a copy may take: then HISTORY is asked.
const quick = 250 * time.Millisecond

// copies are those in Redis. A copy there may be late at any moment; HISTORY
// says whether it is.
type copies struct {
	*redisstore.Store
	log *natsqueue.Log
}

// Current implements api.Copies. Revisions count the records of a run from 1:
// where HISTORY has n records of it, all of them, the one of revision n is the
// last. Both are asked at once, so the copy is the last of a moment during the
// call. Where HISTORY has more than MaxEpoch, some at the beginning may have
// been removed, and n says nothing.
func (c copies) Current(ctx context.Context, run string) *statemachine.Stored {
	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	var n uint64
	var unknown error
	var count sync.WaitGroup
	count.Go(func() { n, unknown = c.log.Records(ctx, run) })
	found, err := c.Load(ctx, []string{run})
	count.Wait()
	if err != nil || unknown != nil || found[0] == nil || found[0].Rev != n || n > statemachine.MaxEpoch {
		return nil
	}
	return &found[0].Stored
}

// Tail implements api.Copies.
func (c copies) Tail(ctx context.Context, run, log string, from, to int) ([][]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	return c.Store.Tail(ctx, run, log, from, to)
}
