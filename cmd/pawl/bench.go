package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/client"
	"github.com/pawlrun/pawl/internal/bench"
	"github.com/pawlrun/pawl/internal/cli"
)

// benchmark is the command line of bench.
type benchmark struct {
	*app
	load   bench.Load
	serial bool
	redis  string
	pids   map[string]int
}

func (a *app) benchCommand() *cobra.Command {
	b := &benchmark{app: a}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast a fleet is, and what a step costs",
		Long: `Measure how fast a fleet is, and what a step costs: drive runs of the machine
kitchensink, whose steps do nothing, keeping at most --inflight of them
unfinished, and read afterwards what was recorded. It fails if any run has not
one record for its start and one for each step, or did not succeed.

Times of runs are from the publishing of a start until its end was heard of;
times of steps are between a run's records, by the broker's clock. CPU time is
that of this process, of those that listen at the addresses of NATS and Redis, of
the workers on this machine, and of others named with --pid (Linux only).

The load generator shares the machine with what it measures. It hears of each
end by one message, the completion event.`,
		Example: `  pawl bench --runs 20000 --steps 10
  pawl bench --runs 20000 --steps 10 --queued -o json
  pawl bench --serial --runs 500 --redis 127.0.0.1:6379 --pid worker=4711`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.serial && cmd.Flags().Changed("inflight") {
				return cli.UsageErrorf("leave one off", "--serial has one run in flight, and --inflight says how many")
			}
			if b.serial {
				b.load.InFlight = 1
			}
			if !cmd.Flags().Changed("warmup") {
				b.load.Warmup = min(1000, b.load.Runs/10)
			}
			if err := b.load.Check(); err != nil {
				return cli.UsageErrorf("see pawl bench --help", "%w", err)
			}
			return b.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.IntVar(&b.load.Runs, "runs", 20_000, "how many runs")
	f.IntVar(&b.load.Steps, "steps", 10, "steps of each run")
	f.IntVar(&b.load.InFlight, "inflight", 2000, "runs that have not ended, at most")
	f.IntVar(&b.load.Pad, "pad", 100, "bytes in the input of each step")
	f.IntVar(&b.load.Warmup, "warmup", 0, "runs before the measurement (default: a tenth of --runs, at most 1000)")
	f.BoolVar(&b.load.Queued, "queued", false, "steps are messages of their own, performed by any worker")
	f.BoolVar(&b.serial, "serial", false, "one run after the other")
	f.StringVar(&b.redis, "redis", "", "address of Redis on this machine, to count its CPU time (default: $PAWL_REDIS_ADDR)")
	f.StringToIntVar(&b.pids, "pid", nil, "count the CPU time of this process, too: name=number")
	return c
}

func (b *benchmark) run(ctx context.Context) error {
	f, err := b.Open(ctx, "pawl bench")
	if err != nil {
		return err
	}
	defer f.Close()
	processes := b.processes(ctx, f.Conn)
	progress, clear := b.progress()
	r, err := bench.Run(ctx, bench.Fleet{Conn: f.Conn, Prefix: b.Prefix, Answers: f.Answers}, b.load, processes, progress)
	clear()
	switch {
	case errors.Is(err, bench.ErrStalled):
		return &cli.Error{Err: err, Hint: "is a worker running? pawl worker ls"}
	case err != nil:
		return err
	}
	if err := b.print(r); err != nil {
		return err
	}
	return r.Fault()
}

func (b *benchmark) print(r *bench.Report) error {
	if b.JSON() {
		return b.PrintJSON(r)
	}
	t := b.PrintTable("WHAT", "VALUE")
	row := func(what, format string, args ...any) error { return t.Row(what, fmt.Sprintf(format, args...)) }
	err := errors.Join(
		row("runs", "%d of %d steps, %d in flight, %s", r.Runs, r.Steps, r.InFlight, map[bool]string{true: "queued", false: "inline"}[r.Queued]),
		row("steps per second", "%.0f", r.StepsPerSecond),
		row("time of a run", "%.2f ms, p99 %.2f ms", r.RunP50, r.RunP99),
		row("time of a step", "%.3f ms, p99 %.3f ms", r.StepP50, r.StepP99),
		row("CPU for 1000 steps", "%.3f s", r.CPU),
	)
	for _, p := range r.Processes {
		err = errors.Join(err, row("  "+p.Name, "%.3f s (process %d)", p.Per1000, p.PID))
	}
	err = errors.Join(err,
		row("CPU of other processes", "%.1f s within %.1f s", r.OthersCPU, r.Seconds),
		row("records per run", "%.6g", r.RecordsPerRun),
		row("errors, letters", "%d, %d", r.Errors, r.Letters),
	)
	if r.Looked > 0 {
		err = errors.Join(err, row("ends not heard of", "%d: the times of runs are not to be trusted", r.Looked))
	}
	if err != nil {
		return err
	}
	_, err = t.End()
	return err
}

// progress says on a terminal how far it is, on one line.
func (b *benchmark) progress() (tell func(what string, done, of int), clear func()) {
	file, ok := b.Stderr.(*os.File)
	if ok {
		info, err := file.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !ok {
		return func(string, int, int) {}, func() {}
	}
	return func(what string, done, of int) { fmt.Fprintf(b.Stderr, "\r\x1b[K%s: %d of %d", what, done, of) },
		func() { fmt.Fprint(b.Stderr, "\r\x1b[K") }
}

// processes lists whose CPU time is counted, and says what it does not find.
func (b *benchmark) processes(ctx context.Context, nc *nats.Conn) []bench.Process {
	all := []bench.Process{{Name: "bench", PID: os.Getpid()}}
	listener := func(name, address string) {
		if _, given := b.pids[name]; given {
			return
		}
		pid, err := bench.Listener(address)
		if err != nil {
			fmt.Fprintf(b.Stderr, "the CPU time of %s is not counted: %v; name it with --pid %s=…\n", name, err, name)
			return
		}
		all = append(all, bench.Process{Name: name, PID: pid})
	}
	if u, err := url.Parse(nc.ConnectedUrl()); err == nil {
		listener("nats", u.Host)
	}
	if b.redis == "" {
		b.redis = b.Getenv("PAWL_REDIS_ADDR")
	}
	for _, address := range strings.FieldsFunc(b.redis, func(r rune) bool { return r == ',' }) {
		if _, _, err := net.SplitHostPort(address); err == nil {
			listener("redis", address)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.pids)) {
		all = append(all, bench.Process{Name: name, PID: b.pids[name]})
	}
	own, elsewhere := b.workers(ctx, nc)
	if elsewhere > 0 {
		fmt.Fprintf(b.Stderr, "the CPU time of %d workers on other machines is not counted\n", elsewhere)
	}
	// An embedded fleet's Redis is in the worker that is its NATS.
	embedded := slices.ContainsFunc(own, func(w bench.Process) bool {
		return slices.ContainsFunc(all, func(p bench.Process) bool { return p.Name == "nats" && p.PID == w.PID })
	})
	if _, given := b.pids["redis"]; b.redis == "" && !given && !embedded {
		fmt.Fprintln(b.Stderr, "the CPU time of redis is not counted: its address is not given; name it with --redis host:port")
	}
	return append(all, own...)
}

// workers lists the workers of the fleet that are on this machine, and counts
// the others.
func (b *benchmark) workers(ctx context.Context, nc *nats.Conn) (own []bench.Process, elsewhere int) {
	host, err := os.Hostname()
	if err != nil {
		return nil, 0
	}
	c, err := client.New(nc, client.WithPrefix(b.Prefix), client.WithTimeout(mostSilence))
	if err != nil {
		return nil, 0
	}
	all, _ := c.Workers(ctx) // none answers: the measurement tells
	for _, w := range all {
		pid, err := strconv.Atoi(w.Metadata[api.MetaPID])
		if err != nil || w.Metadata[api.MetaHost] != host {
			elsewhere++
			continue
		}
		own = append(own, bench.Process{Name: fmt.Sprintf("worker-%d", len(own)+1), PID: pid})
	}
	return own, elsewhere
}
