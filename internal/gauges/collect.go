package gauges

import "github.com/prometheus/client_golang/prometheus"

// descs describe the metrics; the table in docs/metrics.md does, too.
type descs struct {
	runs, complete                            *prometheus.Desc
	pending, inFlight, redelivered, oldest    *prometheus.Desc
	demand, letters                           *prometheus.Desc
	messages, bytes, limitMessages, limitSize *prometheus.Desc
	age, took                                 *prometheus.Desc
}

func newDescs() descs {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return descs{
		runs:          gauge("pawl_runs", "Runs of the fleet, by machine, state and status.", "machine", "state", "status"),
		complete:      gauge("pawl_runs_complete_ratio", "Share of the index of runs that holds every run; below 1, pawl_runs counts too few."),
		pending:       gauge("pawl_consumer_pending", "Messages that no worker was given yet.", "consumer"),
		inFlight:      gauge("pawl_consumer_ack_pending", "Messages that a worker was given and has not acked.", "consumer"),
		redelivered:   gauge("pawl_consumer_redelivered", "Messages that were given before, and have not been acked.", "consumer"),
		oldest:        gauge("pawl_consumer_oldest_seconds", "Age of the oldest message that is not acked.", "consumer"),
		demand:        gauge("pawl_demand", "Messages that wait or are in flight, due timers included: what there is to do."),
		letters:       gauge("pawl_letters", "Dead letters stored, by kind.", "kind"),
		messages:      gauge("pawl_stream_messages", "Messages in a stream.", "stream"),
		bytes:         gauge("pawl_stream_bytes", "Bytes in a stream.", "stream"),
		limitMessages: gauge("pawl_stream_limit_messages", "Messages that a stream takes; absent if it has no such limit.", "stream"),
		limitSize:     gauge("pawl_stream_limit_bytes", "Bytes that a stream takes; absent if it has no such limit.", "stream"),
		age:           gauge("pawl_snapshot_age_seconds", "Age of the snapshot that gauges of the whole fleet are from.", "snapshot"),
		took:          gauge("pawl_snapshot_seconds", "How long taking it took.", "snapshot"),
	}
}

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(to chan<- *prometheus.Desc) {
	d := &g.descs
	for _, one := range []*prometheus.Desc{
		d.runs, d.complete, d.pending, d.inFlight, d.redelivered, d.oldest, d.demand, d.letters,
		d.messages, d.bytes, d.limitMessages, d.limitSize, d.age, d.took,
	} {
		to <- one
	}
}

// Collect implements prometheus.Collector. It asks nobody.
func (g *Gauges) Collect(to chan<- prometheus.Metric) {
	d := &g.descs
	show := func(desc *prometheus.Desc, v float64, labels ...string) {
		if m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, v, labels...); err == nil { // an error: a label is not UTF-8
			to <- m
		}
	}
	if index, age, took, ok := g.index.shown(); ok {
		for _, r := range index.Runs {
			show(d.runs, float64(r.N), r.Machine, r.State, r.Status)
		}
		show(d.complete, index.Complete)
		show(d.age, age.Seconds(), g.index.name)
		show(d.took, took.Seconds(), g.index.name)
	}
	queues, age, took, ok := g.queues.shown()
	if !ok {
		return
	}
	demand := 0
	for _, c := range queues.Consumers {
		demand += c.Pending + c.InFlight
		show(d.pending, float64(c.Pending), c.Name)
		show(d.inFlight, float64(c.InFlight), c.Name)
		show(d.redelivered, float64(c.Redelivered), c.Name)
		show(d.oldest, c.Oldest.Seconds(), c.Name)
	}
	show(d.demand, float64(demand))
	for kind, n := range queues.Letters {
		show(d.letters, float64(n), kind)
	}
	for _, s := range queues.Streams {
		show(d.messages, float64(s.Messages), s.Name)
		show(d.bytes, float64(s.Bytes), s.Name)
		if s.MaxMessages > 0 {
			show(d.limitMessages, float64(s.MaxMessages), s.Name)
		}
		if s.MaxBytes > 0 {
			show(d.limitSize, float64(s.MaxBytes), s.Name)
		}
	}
	show(d.age, age.Seconds(), g.queues.name)
	show(d.took, took.Seconds(), g.queues.name)
}
