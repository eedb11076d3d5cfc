package pawl

import (
	"context"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/internal/natsapi"
	"github.com/pawlrun/pawl/redisstore"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// serve answers the control API until ctx ends. A worker that cannot offer it
// works all the same: the runs matter more, and others may answer.
func (p *Process) serve(ctx context.Context, w *worker.Worker) {
	answers := &api.Answers{
		Log: p.queue.Log, Blobs: p.queue.Blobs, Letters: p.queue.Letters, Sender: p.queue.Sender, Index: p.store,
		Bell: p.queue.Log, Registry: p.queue.Machines, Counts: counts{p.store}, Streams: p.queue,
	}
	server := api.NewServer(answers, api.ServerOptions{Authorise: p.opts.authorise, Logger: p.log.With(logkey.Component, "api")})
	service := natsapi.New(p.nc, server, natsapi.Config{
		Prefix: p.cfg.Prefix, Worker: p.id, Build: Build(), Logger: p.log.With(logkey.Component, "api"), Done: p.observed.api,
		Stats: func() api.WorkerStats {
			s := w.Stats()
			return api.WorkerStats{Ready: p.ready.OK(), Held: s.Held, Handlers: s.Handlers, Lanes: s.Lanes}
		},
	})
	if err := service.Run(ctx); err != nil {
		p.log.Error("control API ended", logkey.Error, err)
	}
}

// counts are those of the index.
type counts struct{ store *redisstore.Store }

// Counts implements api.Counts.
func (c counts) Counts(ctx context.Context) (map[string]map[statemachine.Status]int, bool, error) {
	share, err := c.store.Completeness(ctx)
	if err != nil || share < 1 {
		return nil, false, err
	}
	all, err := c.store.Counts(ctx)
	if err != nil {
		return nil, false, err
	}
	out := map[string]map[statemachine.Status]int{}
	for _, n := range all {
		if out[n.Machine] == nil {
			out[n.Machine] = map[statemachine.Status]int{}
		}
		out[n.Machine][n.Status] += n.Runs
	}
	return out, true, nil
}
