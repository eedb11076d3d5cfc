package worker

import (
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// metrics of one worker; the table in docs/metrics.md describes them. What is
// counted with every record or call is resolved once, from the catalogue: on
// the hot path there is no look-up by label values.
type metrics struct {
	transitions map[entered]prometheus.Counter
	entered     *prometheus.CounterVec               // what the catalogue does not name
	runs        map[string]prometheus.Observer       // by machine
	ended       *prometheus.HistogramVec             // what the catalogue does not name
	calls       map[string]*[2][5]prometheus.Counter // by effect; then inline or queued, then the outcome
	called      *prometheus.CounterVec

	step, append, batch prometheus.Histogram

	committed, lost, failed     prometheus.Counter // appends
	hits, misses                prometheus.Counter // of Redis
	rebuiltHere, rebuiltInSweep prometheus.Counter
	granted, refused            prometheus.Counter // claims
	disarmed, leftArmed         prometheus.Counter // schedules
	held, running               *level
	hung, panics, unheard       prometheus.Counter
	troubles                    map[string]prometheus.Counter // by store

	rolled    *prometheus.CounterVec // machine
	attempts  *prometheus.CounterVec // effect, outcome
	doubts    *prometheus.CounterVec // effect, outcome
	crashes   *prometheus.CounterVec // effect
	conflicts *prometheus.CounterVec // effect
	letters   *prometheus.CounterVec // kind, class
	boxed     prometheus.Gauge
	classes   bounded
	orphans   *prometheus.CounterVec // machine, version
	lined     map[queue.Line]prometheus.Counter
	waits     *prometheus.CounterVec // effect, limit
	inUse     *prometheus.GaugeVec   // effect
	upheld    *prometheus.GaugeVec   // kind

	found     sweepFindings
	passTook  prometheus.Gauge
	passEnded prometheus.Gauge
	unflushed prometheus.Gauge
	oldest    prometheus.Gauge
}

// entered is a state that a run moved to.
type entered struct{ machine, state string }

// outcome of a handler call.
type outcome int

const (
	callOK outcome = iota
	callFailed
	callInterrupted // by a stop; no attempt
	callUntried     // infrastructure was away, or the key is another's
	callDropped     // its result answered nothing any more
)

// outcomes are the names of the outcomes, in their order.
func outcomes() [5]string { return [5]string{"ok", "failed", "interrupted", "untried", "dropped"} }

// sweepFindings are what the sweeper finds.
type sweepFindings struct{ copy, outbox, message, requeued, timer, strange, interrupted prometheus.Counter }

func newMetrics(reg prometheus.Registerer, catalog *statemachine.Catalog) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	counter := func(name, help string) prometheus.Counter { return counters(name, help).WithLabelValues() }
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		reg.MustRegister(g)
		return g
	}
	histograms := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		reg.MustRegister(h)
		return h
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return histograms(name, help, buckets).WithLabelValues().(prometheus.Histogram)
	}

	m := &metrics{
		entered: counters("pawl_transitions_total", "Records committed, by machine and the state entered.", "machine", "state"),
		ended:   histograms("pawl_run_seconds", "From a run's first record to the one that ended it.", longBuckets(), "machine"),
		called:  counters("pawl_effects_total", "Handler calls, by effect type, place and outcome.", "effect", "place", "outcome"),
		step:    histogram("pawl_step_seconds", "From the record that asks an effect to the record of its result.", stepBuckets()),
		append:  histogram("pawl_append_seconds", "From a record's last sending to its acknowledgement.", quickBuckets()),
		batch:   histogram("pawl_append_batch_size", "Records a lane appended together.", prometheus.ExponentialBuckets(1, 2, 10)),

		held:    &level{gauge: gauge("pawl_held_messages", "Messages in hand, not yet acked.")},
		running: &level{gauge: gauge("pawl_handlers_running", "Handlers under way.")},
		unheard: counter("pawl_progress_lost_total", "Items of progress that handlers told and that were lost, since too much of it waited to be sent."),
		hung:    counter("pawl_handlers_hung_total", "Handlers that did not return at their deadline."),
		panics:  counter("pawl_lane_panics_total", "Faults of the worker itself, each logged with its stack."),

		rolled:    counters("pawl_rolls_total", "Epochs that began, by machine.", "machine"),
		attempts:  counters("pawl_attempts_total", "Failed attempts, by effect type and what follows.", "effect", "outcome"),
		doubts:    counters("pawl_in_doubt_total", "Tries found in doubt, by effect type and what was done.", "effect", "outcome"),
		crashes:   counters("pawl_effect_crashes_total", "Tries found that ended with their worker, by effect type.", "effect"),
		conflicts: counters("pawl_key_conflicts_total", "Effects refused because their key stands for something else.", "effect"),
		letters:   counters("pawl_letters_total", "Dead letters written, by kind and class.", "kind", "class"),
		boxed:     gauge("pawl_dlq_refuses", "1 while DLQ takes no letters, as this worker found, else 0."),
		classes:   bounded{most: 64},
		orphans:   counters("pawl_orphans_total", "Wake-ups postponed because this worker lacks the machine.", "machine", "version"),

		waits: counters("pawl_flow_waits_total", "Times that an effect was told to wait, by effect type and what for.", "effect", "limit"),

		passTook:  gauge("pawl_sweep_pass_seconds", "How long the sweeper's last full pass took."),
		passEnded: gauge("pawl_sweep_last_pass_timestamp_seconds", "When the sweeper's last full pass ended."),
		unflushed: gauge("pawl_outbox_unflushed", "Outboxes not known to be published that the sweeper's last full pass found, and published."),
		oldest:    gauge("pawl_outbox_oldest_seconds", "Age of the oldest of them when it was found."),
	}
	m.inUse = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pawl_flow_permits", Help: "Permits in use by this process, by effect type."}, []string{"effect"})
	m.upheld = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pawl_flow_held", Help: "What the fleet holds up, as this process knows it: effect types, states and flow keys."}, []string{"kind"})
	reg.MustRegister(m.inUse, m.upheld)
	lined := counters("pawl_starts_lined_total", "Starts put in line, by priority and class.", "priority", "class")
	m.lined = map[queue.Line]prometheus.Counter{}
	for _, l := range queue.Lines() {
		m.lined[l] = lined.WithLabelValues(string(l.Priority), strconv.Itoa(l.Class))
	}
	appends := counters("pawl_append_total", "Conditional appends, by outcome.", "outcome")
	m.committed, m.lost, m.failed = appends.WithLabelValues("committed"), appends.WithLabelValues("lost"), appends.WithLabelValues("failed")
	loads := counters("pawl_redis_loads_total", "Runs looked up in Redis, by outcome.", "outcome")
	m.hits, m.misses = loads.WithLabelValues("hit"), loads.WithLabelValues("miss")
	rebuilds := counters("pawl_redis_rebuilds_total", "Copies in Redis made anew from HISTORY, by who found them missing or old.", "by")
	m.rebuiltHere, m.rebuiltInSweep = rebuilds.WithLabelValues("lane"), rebuilds.WithLabelValues("sweeper")
	schedules := counters("pawl_timers_disarmed_total", "Schedules that nothing waited for any more, by what became of them.", "outcome")
	m.disarmed, m.leftArmed = schedules.WithLabelValues("disarmed"), schedules.WithLabelValues("left")
	claims := counters("pawl_claims_total", "Claims asked for, by outcome.", "outcome")
	m.granted, m.refused = claims.WithLabelValues("granted"), claims.WithLabelValues("refused")
	troubles := counters("pawl_store_errors_total", "Operations that a store did not do, by store.", "store")
	m.troubles = map[string]prometheus.Counter{onNATS: troubles.WithLabelValues(onNATS), onRedis: troubles.WithLabelValues(onRedis)}
	sweeps := counters("pawl_sweep_total", "What the sweeper found.", "finding")
	m.found = sweepFindings{
		copy: sweeps.WithLabelValues("copy"), outbox: sweeps.WithLabelValues("outbox"), message: sweeps.WithLabelValues("message"),
		requeued: sweeps.WithLabelValues("requeued"), timer: sweeps.WithLabelValues("timer"), strange: sweeps.WithLabelValues("strange"), interrupted: sweeps.WithLabelValues("interrupted"),
	}
	m.resolve(catalog)
	return m
}

// resolve makes the children that the catalogue names.
func (m *metrics) resolve(catalog *statemachine.Catalog) {
	m.transitions, m.runs, m.calls = map[entered]prometheus.Counter{}, map[string]prometheus.Observer{}, map[string]*[2][5]prometheus.Counter{}
	for _, d := range catalog.Definitions() {
		m.runs[d.Name] = m.ended.WithLabelValues(d.Name)
		for _, s := range d.States() {
			m.transitions[entered{d.Name, s.Name}] = m.entered.WithLabelValues(d.Name, s.Name)
		}
	}
	for _, e := range catalog.Effects() {
		of := new([2][5]prometheus.Counter)
		for i, place := range []statemachine.Place{statemachine.Inline, statemachine.Queued} {
			for o, name := range outcomes() {
				of[i][o] = m.called.WithLabelValues(e, string(place), name)
			}
		}
		m.calls[e] = of
		for _, c := range []*prometheus.CounterVec{m.crashes, m.conflicts} {
			c.WithLabelValues(e)
		}
		for _, outcome := range []string{doubtDone, doubtNotDone, doubtUnknown, doubtHalted} {
			m.doubts.WithLabelValues(e, outcome)
		}
		for _, limit := range []LimitKind{LimitConcurrency, LimitRate, LimitPerKey, LimitRatePerKey} {
			m.waits.WithLabelValues(e, string(limit))
		}
		for _, kind := range []flow.Kind{flow.KindEffect, flow.KindState, flow.KindKey} {
			m.waits.WithLabelValues(e, string(kind))
		}
		m.inUse.WithLabelValues(e)
		m.attempts.WithLabelValues(e, attemptRetried)
		m.attempts.WithLabelValues(e, attemptGivenUp)
	}
}

// What follows a failed attempt.
const (
	attemptRetried = "retried"
	attemptGivenUp = "given_up"
)

// moved counts a committed record.
func (m *metrics) moved(r *statemachine.Record) {
	if c := m.transitions[entered{r.Machine, r.To}]; c != nil {
		c.Inc()
	} else {
		m.entered.WithLabelValues(r.Machine, r.To).Inc() // only machines of the catalogue are moved
	}
	if r.Rolls() {
		m.rolled.WithLabelValues(r.Machine).Inc()
	}
	if !r.Status.Ended() {
		return
	}
	if o, took := m.runs[r.Machine], r.At.Sub(r.Started).Seconds(); o != nil {
		o.Observe(took)
	} else {
		m.ended.WithLabelValues(r.Machine).Observe(took)
	}
}

// call counts a handler call.
func (m *metrics) call(p *statemachine.Pending, o outcome) {
	of := m.calls[p.Effect]
	switch {
	case of != nil && p.Place == statemachine.Inline:
		of[0][o].Inc()
	case of != nil && p.Place == statemachine.Queued:
		of[1][o].Inc()
	default:
		m.called.WithLabelValues(p.Effect, string(p.Place), outcomes()[o]).Inc()
	}
}

// letter counts a dead letter. Its class may come from a handler, and so from
// anywhere.
func (m *metrics) letter(kind, class string) {
	m.letters.WithLabelValues(kind, m.classes.label(class)).Inc()
}

// letterbox notes whether DLQ takes no letters.
func (m *metrics) letterbox(full bool) {
	m.boxed.Set(0)
	if full {
		m.boxed.Set(1)
	}
}

// permits counts permits taken and returned.
func (m *metrics) permits(effect string, n int) { m.inUse.WithLabelValues(effect).Add(float64(n)) }

// claimed counts the answers to claims.
func (m *metrics) claimed(granted, refused int) {
	m.granted.Add(float64(granted))
	m.refused.Add(float64(refused))
}

// passed notes a pass of the sweeper.
func (m *metrics) passed(p *sweepPass) {
	m.passTook.Set(time.Since(p.began).Seconds())
	m.passEnded.SetToCurrentTime()
	m.unflushed.Set(float64(p.unflushed))
	m.oldest.Set(p.oldest.Seconds())
}

// Buckets, in seconds. A step is anything from a call within the process to an
// agent's ten minutes; a run may take weeks.
func quickBuckets() []float64 { return prometheus.ExponentialBuckets(0.0001, 2.5, 12) } // 0.1 ms to 2.4 s
func stepBuckets() []float64  { return prometheus.ExponentialBuckets(0.0001, 4, 12) }   // 0.1 ms to 7 min
func longBuckets() []float64  { return prometheus.ExponentialBuckets(0.0001, 4, 18) }   // 0.1 ms to 20 days

// bounded makes labels of texts that come from outside: the first so many that
// look like names stand for themselves, all others are "other".
type bounded struct {
	mu   sync.Mutex
	most int
	seen map[string]struct{}
}

var labelRE = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

func (b *bounded) label(text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.seen[text]; ok {
		return text
	}
	if len(b.seen) >= b.most || !labelRE.MatchString(text) {
		return "other"
	}
	if b.seen == nil {
		b.seen = map[string]struct{}{}
	}
	b.seen[text] = struct{}{}
	return text
}
