package pawl

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/internal/config"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/internal/natsapi"
	"github.com/pawlrun/pawl/internal/webhook"
	"github.com/pawlrun/pawl/redisstore"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// serve answers the control API until ctx ends. A worker that cannot offer it
// works all the same: the runs matter more, and others may answer.
func (p *Process) serve(ctx context.Context, w *worker.Worker) {
	answers := &api.Answers{
		Log: p.queue.Log, Blobs: p.queue.Blobs, Letters: p.queue.Letters, Sender: p.queue.Sender, Index: p.store, Copies: copies{p.store, p.queue.Log},
		Bell: p.queue.Log, Registry: p.queue.Machines, Counts: counts{p.store}, Streams: p.queue, Flow: p.queue.Flow, Mailroom: p.queue.Mailroom(),
		Definitions: p.catalog, Forker: p.queue.Forker(),
		Policy: func(effect string) (api.EffectPolicy, bool) {
			y, ok := w.Policy(effect)
			l := p.cfg.Effects.Limits[effect]
			return api.EffectPolicy{
				Effect: effect, Attempts: y.Attempts, Timeout: statemachine.Duration(y.Timeout), InDoubt: y.InDoubt, Queued: y.Queued,
				FirstWait: statemachine.Duration(y.Waits.First), WaitFactor: y.Waits.Factor, LongestWait: statemachine.Duration(y.Waits.Max),
				Concurrency: l.Concurrency, PerKey: l.PerKey, Rate: l.Rate, RatePerKey: l.RatePerKey,
			}, ok
		},
		Observers: []api.Observer{
			{What: "messages", See: p.queue.Observe},
			{What: "redis", See: p.store.Observe},
			{What: "limits", See: func(ctx context.Context, f *explain.Facts) (err error) {
				f.Limits, err = limitsOf(ctx, f, p.cfg.Effects.Limits, p.store.Usage)
				return err
			}},
			{What: "workers", See: func(ctx context.Context, f *explain.Facts) (err error) {
				f.Workers, err = natsapi.Workers(ctx, p.nc, p.cfg.Prefix)
				return err
			}},
		},
	}
	server := api.NewServer(answers, api.ServerOptions{Authorise: p.opts.authorise, Logger: p.log.With(logkey.Component, "api")})
	service := natsapi.New(p.nc, server, natsapi.Config{
		Prefix: p.cfg.Prefix, Worker: p.id, Build: Build(), Logger: p.log.With(logkey.Component, "api"), Done: p.observed.api,
		Machines: machines(p.catalog), Effects: p.catalog.Effects(),
		Stats: func() api.WorkerStats {
			s := w.Stats()
			return api.WorkerStats{Ready: p.ready.OK(), Held: s.Held, Handlers: s.Handlers, Lanes: s.Lanes}
		},
	})
	if err := service.Run(ctx); err != nil {
		p.log.Error("control API ended", logkey.Error, err)
	}
}

// limitsOf words the limits of the effect types that a run waits for, and how
// they stand.
func limitsOf(ctx context.Context, f *explain.Facts, of map[string]config.Limit, usage func(ctx context.Context, effect, key string) (redisstore.Usage, error)) (map[string]string, error) {
	all := map[string]string{}
	if f.Record == nil {
		return all, nil
	}
	var unseen error
	for _, p := range f.Record.Pending {
		effect, l := p.Effect, of[p.Effect]
		if _, worded := all[effect]; worded {
			continue
		}
		var parts []string
		add := func(ok bool, text string) {
			if ok {
				parts = append(parts, text)
			}
		}
		add(l.Concurrency > 0, fmt.Sprintf("%d at once", l.Concurrency))
		add(l.PerKey > 0, fmt.Sprintf("%d at once of a key", l.PerKey))
		add(l.Rate.N > 0, l.Rate.String())
		add(l.RatePerKey.N > 0, l.RatePerKey.String()+" of a key")
		if len(parts) == 0 {
			continue
		}
		all[effect] = strings.Join(parts, ", ")
		switch u, err := usage(ctx, effect, p.Flow); {
		case err != nil:
			unseen = err
		default:
			all[effect] += standing(l, u)
		}
	}
	return all, unseen
}

// standing words how a limit stands. What has no limit is not counted.
func standing(l config.Limit, u redisstore.Usage) string {
	ofType, ofKey := l.Concurrency > 0 || l.Rate.N > 0, l.PerKey > 0 || l.RatePerKey.N > 0
	switch {
	case ofType && ofKey:
		return fmt.Sprintf("; under way: %d, waiting: %d, of them with its key: %d and %d", u.InUse, u.Waiting, u.KeyInUse, u.KeyWaiting)
	case ofKey:
		return fmt.Sprintf("; under way with its key: %d, waiting: %d", u.KeyInUse, u.KeyWaiting)
	}
	return fmt.Sprintf("; under way: %d, waiting: %d", u.InUse, u.Waiting)
}

// machines names the machines of a catalog, with their versions.
func machines(c *statemachine.Catalog) []string {
	all := c.Definitions()
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = d.Name + "@" + strconv.Itoa(d.Version)
	}
	return out
}

// listenForStarts binds the server that takes starts and signals over HTTP; it
// is nil if there shall be none.
func (p *Process) listenForStarts() (*webhook.Server, error) {
	c := p.cfg.HTTP.Starts
	if c.Addr == "" {
		return nil, nil
	}
	s, err := webhook.Listen(webhook.Options{
		Addr: c.Addr, Tokens: c.Tokens(), InFlight: c.InFlight, Timeout: c.Timeout, Logger: p.log.With(logkey.Component, "webhook"),
		Sender: p.queue.Sender, Machines: p.queue.Machines, Runs: &api.Answers{Log: p.queue.Log}, Results: p.queue.Sender, Log: p.queue.Log, Served: p.observed.served("starts"),
	})
	if err != nil {
		return nil, err
	}
	p.startsAddr = s.Addr()
	p.log.Info("taking starts and signals over HTTP", logkey.Addr, s.Addr())
	return s, nil
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
