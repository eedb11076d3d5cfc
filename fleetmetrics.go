package pawl

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/gauges"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/redisstore"
)

// observed is what the parts of a process tell of what they do; docs/metrics.md
// describes the metrics.
type observed struct {
	nats, redis prometheus.Histogram
	unanswered  prometheus.Counter
	gathered    *prometheus.HistogramVec // stream
	http        *prometheus.CounterVec   // server, path, code
	// api counts a request to the control API. The verb must be one of
	// api.Verbs; the outcome is "ok" or the class of an error.
	api func(verb, outcome string, took time.Duration)
}

func newObserved(reg *prometheus.Registry) *observed {
	quick := prometheus.ExponentialBuckets(0.0001, 2.5, 12) // 0.1 ms to 2.4 s
	o := &observed{
		nats:       prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pawl_nats_seconds", Help: "From sending requests to JetStream together to the last of their answers.", Buckets: quick}),
		redis:      prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pawl_redis_seconds", Help: "Round trips to Redis, of a command or a pipeline.", Buckets: quick}),
		unanswered: prometheus.NewCounter(prometheus.CounterOpts{Name: "pawl_nats_unanswered_total", Help: "Requests to JetStream that got no answer in time."}),
		gathered: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pawl_group_commit_messages", Help: "Messages that went to a stream together, with group commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12)}, []string{"stream"}),
		http: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_http_requests_total", Help: "Requests over HTTP, by server, path and code."}, []string{"server", "path", "code"}),
	}
	apiRequests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_api_requests_total", Help: "Requests to the control API, by verb and class of the answer."}, []string{"verb", "outcome"})
	apiSeconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pawl_api_seconds", Help: "How long requests to the control API took.", Buckets: quick}, []string{"verb"})
	o.api = func(verb, outcome string, took time.Duration) {
		apiRequests.WithLabelValues(verb, outcome).Inc()
		apiSeconds.WithLabelValues(verb).Observe(took.Seconds())
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pawl_build_info", Help: "1, with the build as a label."}, []string{"build"})
	build.WithLabelValues(Build()).Set(1)
	reg.MustRegister(o.nats, o.redis, o.unanswered, o.gathered, apiRequests, apiSeconds, o.http, build)
	return o
}

// landed is natsqueue's Options.Landed.
func (o *observed) landed(_, unanswered int, took time.Duration) {
	o.nats.Observe(took.Seconds())
	o.unanswered.Add(float64(unanswered))
}

// gather is natsqueue's Options.Gathered.
func (o *observed) gather(stream string, messages int) {
	o.gathered.WithLabelValues(stream).Observe(float64(messages))
}

// served returns what counts the requests of one HTTP server. A path is a
// pattern of the server, never what the client sent.
func (o *observed) served(server string) func(path string, code int) {
	return func(path string, code int) { o.http.WithLabelValues(server, path, strconv.Itoa(code)).Inc() }
}

// observeStores adds what can be seen only once NATS and Redis are there.
func (p *Process) observeStores() {
	p.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "pawl_redis_odd_total", Help: "What was found in Redis in place of a run's copy, and was none."},
			func() float64 { return float64(p.store.Odd()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "pawl_nats_reconnects_total", Help: "How often the connection to NATS was lost and made again."},
			func() float64 { return float64(p.nc.Stats().Reconnects) }),
	)
	redisstore.Observe(p.redis, func(took time.Duration) { p.observed.redis.Observe(took.Seconds()) })
}

// fleetGauges are the gauges of the whole fleet.
func (p *Process) fleetGauges() *gauges.Gauges {
	g := gauges.New(gauges.Options{
		Index:  func(ctx context.Context) (gauges.Index, error) { return indexOf(ctx, p.store) },
		Queues: func(ctx context.Context) (gauges.Queues, error) { return queuesOf(ctx, p.queue) },
		Every:  p.cfg.Metrics.Every, Logger: p.log.With(logkey.Component, "gauges"),
	})
	p.registry.MustRegister(g)
	return g
}

func indexOf(ctx context.Context, s *redisstore.Store) (gauges.Index, error) {
	// Completeness first: a loss between the two must not make few runs look
	// like all.
	before, err := s.Completeness(ctx)
	if err != nil {
		return gauges.Index{}, err
	}
	counts, err := s.Counts(ctx)
	if err != nil {
		return gauges.Index{}, err
	}
	after, err := s.Completeness(ctx)
	if err != nil {
		return gauges.Index{}, err
	}
	index := gauges.Index{Complete: min(before, after)}
	for _, c := range counts {
		index.Runs = append(index.Runs, gauges.Runs{Machine: c.Machine, State: c.State, Status: string(c.Status), N: c.Runs})
	}
	return index, nil
}

func queuesOf(ctx context.Context, q *natsqueue.Queue) (gauges.Queues, error) {
	b, err := q.Backlog(ctx)
	if err != nil {
		return gauges.Queues{}, err
	}
	out := gauges.Queues{Letters: b.Letters}
	for _, s := range b.Streams {
		out.Streams = append(out.Streams, gauges.Stream{
			Name: q.Name(s.Name), Messages: s.Messages, Bytes: s.Bytes, MaxMessages: s.MaxMessages, MaxBytes: s.MaxBytes,
		})
		for _, c := range s.Consumers {
			out.Consumers = append(out.Consumers, gauges.Consumer{
				Name: c.Name, Pending: int(c.Lag), InFlight: c.InHand, Redelivered: c.Redelivered, Oldest: b.Oldest[c.Name],
			})
		}
	}
	return out, nil
}
