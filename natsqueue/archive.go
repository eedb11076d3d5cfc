package natsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
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

// Trim implements archive.History. Whether there is something to remove the
// broker says from memory; a purge looks into the file.
func (a Archive) Trim(ctx context.Context, r *statemachine.Stored) (uint64, error) {
	upto := r.Spare()
	if upto == 0 || upto >= r.Seq {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.opts.Patience)
	defer cancel()
	there, err := a.Records(ctx, r.Run)
	if err != nil || there <= r.Rev+1-r.Roll.Keep.Rev {
		return 0, err
	}
	stream := a.subj.stream(streamHistory)
	body, _ := json.Marshal(map[string]any{"filter": a.subj.history(r.Run), "seq": upto + 1}) // a string and a number
	var removed uint64
	err = a.retry(ctx, "purge stream "+stream, func() error {
		m, err := a.ask(ctx, &nats.Msg{Subject: "$JS.API.STREAM.PURGE." + stream, Data: body})
		if err != nil {
			return err
		}
		removed, err = readPurged(m)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("remove records of run %s: %w", quoted(r.Run), err)
	}
	return removed, nil
}

// readPurged reads the answer to a purge.
func readPurged(m *nats.Msg) (uint64, error) {
	if m == nil {
		return 0, errSilent
	}
	if len(m.Data) == 0 {
		return 0, errNoResponse
	}
	var a struct {
		Error  *apiError `json:"error"`
		Purged uint64    `json:"purged"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return 0, final{fmt.Errorf("answer to a purge: %w", err)}
	}
	if a.Error != nil {
		return 0, a.Error
	}
	return a.Purged, nil
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
