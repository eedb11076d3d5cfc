package worker

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats is what a worker is doing.
type Stats struct {
	Held     int // messages in hand, not yet acked
	Handlers int // handlers under way
	Lanes    int // goroutines that drive runs
}

// Stats says what the worker is doing. It may be called at any time.
func (w *Worker) Stats() Stats {
	return Stats{Held: int(w.metrics.held.n.Load()), Handlers: int(w.metrics.running.n.Load()), Lanes: len(w.lanes)}
}

// level is a gauge that can be read.
type level struct {
	gauge prometheus.Gauge
	n     atomic.Int64
}

// Inc adds one.
func (l *level) Inc() { l.n.Add(1); l.gauge.Inc() }

// Dec takes one away.
func (l *level) Dec() { l.n.Add(-1); l.gauge.Dec() }
