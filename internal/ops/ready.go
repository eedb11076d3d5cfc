package ops

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Ready is what a process waits for before it is of use: named checks, each
// good or failing for a reason. Whoever knows sets them; nobody is asked, so a
// probe costs nothing and cannot hang. The zero value has no checks, and with
// no checks a process is not ready: nothing has spoken for it yet.
type Ready struct {
	mu     sync.Mutex
	checks map[string]error
}

// NewReady returns a process that nothing has spoken for.
func NewReady() *Ready { return new(Ready) }

// Set notes how a check stands: err is why it fails, nil that it is good.
func (r *Ready) Set(name string, err error) {
	r.mu.Lock()
	if r.checks == nil {
		r.checks = map[string]error{}
	}
	r.checks[name] = err
	r.mu.Unlock()
}

// OK reports whether there are checks and all are good.
func (r *Ready) OK() bool { return r.status().Ready }

// Metric is pawl_ready, for the registry of the process.
func (r *Ready) Metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pawl_ready", Help: "1 if the process is ready, else 0."}, func() float64 {
		if r.OK() {
			return 1
		}
		return 0
	})
}

// Check is one check in the answer of /readyz.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // one line
}

// Status is the answer of /readyz.
type Status struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"` // by name
}

func (r *Ready) status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Ready: len(r.checks) > 0, Checks: []Check{}}
	for _, name := range slices.Sorted(maps.Keys(r.checks)) {
		err := r.checks[name]
		s.Ready = s.Ready && err == nil
		s.Checks = append(s.Checks, Check{Name: name, OK: err == nil, Reason: text(err)})
	}
	return s
}
