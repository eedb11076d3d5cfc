package worker

import "github.com/prometheus/client_golang/prometheus"

// metrics of one worker; the table in DESIGN.md describes them.
type metrics struct {
	transitions *prometheus.CounterVec // machine, state
	step        prometheus.Histogram   // from an effect's record to its result's, seconds
	effects     *prometheus.CounterVec // effect, place, outcome
	attempts    *prometheus.CounterVec // effect, outcome
	letters     *prometheus.CounterVec // kind, class
	appends     *prometheus.CounterVec // outcome
	batch       prometheus.Histogram   // records per append batch
	loads       *prometheus.CounterVec // outcome
	orphans     *prometheus.CounterVec // machine, version
	sweeps      *prometheus.CounterVec // finding
	held        prometheus.Gauge
	running     prometheus.Gauge
	hung        prometheus.Counter
	panics      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	m := &metrics{
		transitions: counter("pawl_transitions_total", "Records committed, by machine and the state entered.", "machine", "state"),
		effects:     counter("pawl_effects_total", "Handler calls, by effect type, place and outcome.", "effect", "place", "outcome"),
		attempts:    counter("pawl_attempts_total", "Failed attempts, by effect type and what follows.", "effect", "outcome"),
		letters:     counter("pawl_letters_total", "Dead letters written, by kind and class.", "kind", "class"),
		appends:     counter("pawl_append_total", "Conditional appends, by outcome.", "outcome"),
		loads:       counter("pawl_redis_loads_total", "Runs looked up in Redis, by outcome.", "outcome"),
		orphans:     counter("pawl_orphans_total", "Wake-ups postponed because this worker lacks the machine.", "machine", "version"),
		sweeps:      counter("pawl_sweep_total", "What the sweeper found.", "finding"),
		step: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pawl_step_seconds", Help: "From the record that asks an effect to the record of its result.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 12)}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pawl_append_batch_size", Help: "Records appended together.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10)}),
		held:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_held_messages", Help: "Messages in hand, not yet acked."}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_handlers_running", Help: "Handlers under way."}),
		hung:    prometheus.NewCounter(prometheus.CounterOpts{Name: "pawl_handlers_hung_total", Help: "Handlers that did not return at their deadline."}),
	}
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{Name: "pawl_lane_panics_total", Help: "Faults of the worker itself, each logged with its stack."})
	reg.MustRegister(m.step, m.batch, m.held, m.running, m.hung, m.panics)
	return m
}
