package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/statemachine"
)

// Ports are what a worker needs of the outside.
type Ports struct {
	Log      Log
	Shadow   Shadow
	Claims   Claims
	Mail     Mail
	Timers   Timers
	Blobs    Blobs
	Ledger   Ledger
	Source   Source
	Machines Machines
	Flow     Flow
	Progress Progress
	Permits  Permits
}

// Config is how a worker works. Zero values mean the default.
type Config struct {
	ID     string // of this worker, unique for its life; goes into records and claims
	Build  string // of this binary; goes into records
	Secret []byte // of the fleet: what result tokens are signed with

	Lanes        int                   // goroutines that drive runs; default 4
	Batch        int                   // runs a lane takes at once; default 256
	InFlight     int                   // starts taken and not yet acked, at most; default 10,000
	InlineMax    int                   // handlers of inline effects at once; default 1,000
	InlinePerRun int                   // … of one run; default 8
	QueuedMax    int                   // handlers of queued effects at once, per effect type; default 1000
	QueuedOf     map[string]int        // effect types with a QueuedMax of their own
	Limits       map[string]flow.Limit // of effect types, over all workers
	AckWait      time.Duration         // of the wake-up consumers, as provisioned; default 10 s
	EffectWait   time.Duration         // of the effect consumers; default 30 s
	WakeAge      time.Duration         // a message older than this asks its next effect queued; default 10 min
	WakeDepth    int                   // … and so does one that has driven this many steps; default 1,000
	StopTimeout  time.Duration         // how long a stop waits for handlers; default 25 s
	SweepEvery   time.Duration         // a full pass of the sweeper; default 10 min
	Retry        Retry

	Logger   *slog.Logger                 // default: discards
	Registry prometheus.Registerer        // default: a private one
	Ready    func(name string, err error) // told when a dependency fails or is back; may be nil
	Started  func()                       // told when the worker begins to pull; may be nil
}

// Retry is how failed attempts are spaced.
type Retry struct {
	Attempts int           // default 5
	Initial  time.Duration // wait after the first failure; default 1 s
	Factor   float64       // default 2
	Jitter   float64       // share by which a wait varies; default 0.5
	Max      time.Duration // default 60 s
}

func (c Config) withDefaults() Config {
	set(&c.Lanes, 4)
	set(&c.Batch, 256)
	set(&c.InFlight, 10_000)
	set(&c.InlineMax, 1_000)
	set(&c.InlinePerRun, 8)
	set(&c.QueuedMax, 1000)
	set(&c.AckWait, 10*time.Second)
	set(&c.EffectWait, 30*time.Second)
	set(&c.WakeAge, 10*time.Minute)
	set(&c.WakeDepth, 1_000)
	set(&c.StopTimeout, 25*time.Second)
	set(&c.SweepEvery, 10*time.Minute)
	set(&c.Retry.Attempts, 5)
	set(&c.Retry.Initial, time.Second)
	set(&c.Retry.Factor, 2)
	set(&c.Retry.Jitter, 0.5)
	set(&c.Retry.Max, time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Ready == nil {
		c.Ready = func(string, error) {}
	}
	if c.Started == nil {
		c.Started = func() {}
	}
	return c
}

func set[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (c Config) validate() error {
	var errs []error
	check := func(ok bool, format string, a ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	check(c.ID != "", "a worker needs an id")
	check(c.Lanes > 0 && c.Batch > 0, "lanes and batch must be positive")
	check(c.AckWait >= 300*time.Millisecond, "ack wait %s is too short to heartbeat", c.AckWait)
	check(c.EffectWait >= c.AckWait, "effect ack wait %s is shorter than ack wait %s", c.EffectWait, c.AckWait)
	check(c.Retry.Attempts > 0 && c.Retry.Factor >= 1 && c.Retry.Jitter >= 0 && c.Retry.Jitter < 1, "retry: attempts ≥ 1, factor ≥ 1, jitter in [0, 1)")
	return errors.Join(errs...)
}

// fresh is F: how long after sending its append a committer may call a
// handler without looking again.
func (c Config) fresh() time.Duration { return c.AckWait / 3 }

// grace is G: how old a record must be before anybody but its committer
// touches its inline effects.
func (c Config) grace() time.Duration { return c.AckWait * 2 / 3 }

// lease is how long a claim lasts; it is renewed every beat.
func (c Config) lease() time.Duration { return c.AckWait * 2 / 3 }

// beat is how often messages and claims in hand are prolonged.
func (c Config) beat() time.Duration { return c.AckWait / 3 }

// retry is how failed attempts of what a handler performs are spaced.
func (c Config) retry(h *statemachine.Handler) Retry {
	r := c.Retry
	if h == nil {
		return r
	}
	p := h.Policy
	r.Attempts, r.Factor = cmp.Or(p.Attempts, r.Attempts), cmp.Or(p.Waits.Factor, r.Factor)
	r.Initial = cmp.Or(p.Waits.First, r.Initial)
	r.Max = max(cmp.Or(p.Waits.Max, r.Max), r.Initial)
	return r
}

// timeout is how long one attempt of an effect may take.
func timeout(p *statemachine.Pending, h *statemachine.Handler) time.Duration {
	if p.Timeout > 0 {
		return time.Duration(p.Timeout)
	}
	if h != nil && h.Policy.Timeout > 0 {
		return h.Policy.Timeout
	}
	return 30 * time.Second
}
