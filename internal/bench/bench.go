package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Report is what was measured. Rates are by the clock of this process, from
// the first publish to the last end; times of steps are the broker's.
type Report struct {
	Load
	Seconds        float64 `json:"seconds"`
	StepsPerSecond float64 `json:"steps_per_second"`
	RunP50         float64 `json:"run_p50_ms"` // from the publishing of its start until its end was heard of
	RunP99         float64 `json:"run_p99_ms"`
	StepP50        float64 `json:"step_p50_ms"` // from a record of a run to its next
	StepP99        float64 `json:"step_p99_ms"`

	CPU       float64 `json:"cpu_seconds_per_1000_steps"` // of the processes below, together
	Processes []Usage `json:"processes"`
	OthersCPU float64 `json:"others_cpu_seconds"` // of the machine's other processes: they disturb the measurement

	RecordsPerRun float64 `json:"records_per_run"` // must be steps + 1, for each run
	Wrong         int     `json:"wrong_runs"`      // how many runs have another number
	Errors        int     `json:"errors"`          // starts that were refused, and runs that did not succeed
	Letters       int     `json:"letters"`
	Looked        int     `json:"ends_not_heard"` // ends that were found by looking: run_p99_ms is then not to be trusted

	faults []error
}

// Usage is what a process has used.
type Usage struct {
	Name    string  `json:"name"`
	PID     int     `json:"pid"`
	Seconds float64 `json:"cpu_seconds"`
	Per1000 float64 `json:"cpu_seconds_per_1000_steps"`
}

// Fault says what went wrong with the runs themselves; nil if nothing did.
func (r *Report) Fault() error { return errors.Join(r.faults...) }

// Run measures. It returns a report with the runs' faults, or an error if
// nothing could be measured. progress is called now and then with what is
// being done, and how much of it.
func Run(ctx context.Context, f Fleet, l Load, processes []Process, progress func(what string, done, of int)) (*Report, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if l.Warmup > 0 {
		if _, err := drive(ctx, f, l, l.Warmup, func(n int) { progress("warming up", n, l.Warmup) }); err != nil {
			return nil, fmt.Errorf("warm up: %w", err)
		}
	}
	m, err := begin(ctx, f, processes)
	if err != nil {
		return nil, err
	}
	d, err := drive(ctx, f, l, l.Runs, func(n int) { progress("runs ended", n, l.Runs) })
	if err != nil {
		return nil, err
	}
	d.settled(ctx)
	r := &Report{Load: l}
	if err := m.end(r); err != nil {
		return nil, err
	}
	progress("reading their records", l.Runs, l.Runs)
	return r, d.fill(ctx, m, r)
}

// meter is what was there before the runs.
type meter struct {
	history, dlq uint64
	processes    []Process
	used         []float64
	machine      float64
}

func begin(ctx context.Context, f Fleet, processes []Process) (*meter, error) {
	d, err := newDriver(f, Load{}, 0)
	if err != nil {
		return nil, err
	}
	m := &meter{processes: merged(processes)}
	if m.history, err = historyEnd(ctx, d.js, f.Prefix); err != nil {
		return nil, err
	}
	if m.dlq, err = dlqEnd(ctx, d.js, f.Prefix); err != nil {
		return nil, err
	}
	for _, p := range m.processes {
		used, err := cpu(p.PID)
		if err != nil {
			return nil, err
		}
		m.used = append(m.used, used)
	}
	m.machine = machineCPU()
	return m, nil
}

// merged names each process once: one may be two servers and a worker.
func merged(processes []Process) []Process {
	var all []Process
	for _, p := range processes {
		i := slices.IndexFunc(all, func(q Process) bool { return q.PID == p.PID })
		switch {
		case i < 0:
			all = append(all, p)
		case !slices.Contains(strings.Split(all[i].Name, "+"), p.Name):
			all[i].Name += "+" + p.Name
		}
	}
	return all
}

func (m *meter) end(r *Report) error {
	thousands, sum := float64(r.Runs)*float64(r.Steps)/1000, 0.0
	machine := machineCPU() - m.machine
	r.Processes = []Usage{}
	for i, p := range m.processes {
		now, err := cpu(p.PID)
		if err != nil {
			return err
		}
		used := now - m.used[i]
		sum += used
		r.Processes = append(r.Processes, Usage{p.Name, p.PID, round(used, 2), round(used/thousands, 4)})
	}
	r.CPU, r.OthersCPU = round(sum/thousands, 4), round(max(0, machine-sum), 2)
	return nil
}

// fill reads what the streams say.
func (d *driver) fill(ctx context.Context, m *meter, r *Report) error {
	v, err := d.verify(ctx, m.history)
	if err != nil {
		return err
	}
	if r.Letters, err = d.letters(ctx, m.dlq); err != nil {
		return err
	}
	elapsed := time.Duration(d.last.Load())
	r.Seconds = round(elapsed.Seconds(), 3)
	r.StepsPerSecond = round(float64(r.Runs)*float64(r.Steps)/elapsed.Seconds(), 1)
	runs := d.runTimes()
	r.RunP50, r.RunP99 = quantile(runs, 0.5), quantile(runs, 0.99)
	r.StepP50, r.StepP99 = quantile(v.steps, 0.5), quantile(v.steps, 0.99)
	r.RecordsPerRun = round(float64(v.records)/float64(r.Runs), 4)
	r.Wrong, r.Looked = v.wrongs, int(d.looked.Load())
	r.Errors = max(v.failed, int(d.refused.Load()))
	if v.wrongs > 0 {
		r.faults = append(r.faults, fmt.Errorf("%d of %d runs have not %d records: %s", v.wrongs, r.Runs, r.Steps+1, list(v.wrong, v.wrongs)))
	}
	if r.Errors > 0 {
		why := cmp.Or(d.first, errors.New("they ended otherwise"))
		r.faults = append(r.faults, fmt.Errorf("%d of %d runs did not succeed: %w", r.Errors, r.Runs, why))
	}
	if r.Letters > 0 {
		r.faults = append(r.faults, fmt.Errorf("%d dead letters were written", r.Letters))
	}
	return nil
}

// list names some of many.
func list(some []string, of int) string {
	s := strings.Join(some, ", ")
	if of > len(some) {
		s += ", …"
	}
	return s
}

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}
