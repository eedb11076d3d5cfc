package pawl

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/archive"
	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/internal/config"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/internal/natscall"
	"github.com/pawlrun/pawl/internal/ops"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/redisstore"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// Option changes how a process is opened.
type Option func(*options)

type options struct {
	logger    *slog.Logger
	authorise func(ctx context.Context, c api.Caller, verb string) error
}

// WithLogger sets where the process logs. Default: standard error, as
// Config.Log says.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithAuthorise sets who may have what of the control API, beyond what the NATS
// server's permissions say: an error refuses the request, and is told to the
// caller. A verb is a noun and a verb, as in runs.cancel. Default: what came in
// is allowed.
//
// It guards the control API, and nothing else: who may publish to the fleet's
// streams needs no API to start a run, to signal it or to cancel it, and `pawl`
// does so where the API is away or refuses a start. Only the NATS server's
// permissions keep somebody from <prefix>.start.>, <prefix>.signal.> and
// <prefix>.event.>.
func WithAuthorise(f func(ctx context.Context, c api.Caller, verb string) error) Option {
	return func(o *options) { o.authorise = f }
}

// Process is one process of a fleet, opened and not yet running.
type Process struct {
	cfg      Config
	opts     options
	catalog  *statemachine.Catalog
	log      *slog.Logger
	registry *prometheus.Registry
	observed *observed
	ready    *ops.Ready
	ops      *ops.Server
	servers  *embedded.Servers // nil in real mode
	nc       *nats.Conn
	redis    redis.UniversalClient
	queue    *natsqueue.Queue
	store    *redisstore.Store
	closers  []closer      // in the order they were opened
	up       chan struct{} // closed when the worker begins to work
	fail     func(error)   // ends Run

	id          string // of the worker
	incarnation string // of HISTORY
	startsAddr  string // of the server that takes starts
}

// closer is one step of the teardown.
type closer struct {
	name  string
	close func() error
}

// Open starts the servers of an embedded fleet, and /livez, /readyz and
// /metrics. In real mode it does not wait for NATS and Redis: Run does, and
// says meanwhile what it waits for.
func Open(ctx context.Context, cfg Config, catalog *statemachine.Catalog, opts ...Option) (_ *Process, err error) {
	o := options{}
	for _, f := range opts {
		f(&o)
	}
	if o.logger == nil {
		o.logger = NewLogger(os.Stderr, cfg)
	}
	catalog = catalog.With(policies(cfg.Effects.Policies))
	if err := catalog.Check(); err != nil {
		return nil, err
	}
	p := &Process{cfg: cfg, opts: o, catalog: catalog, log: o.logger, registry: prometheus.NewRegistry(), ready: ops.NewReady(), up: make(chan struct{})}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), p.ready.Metric())
	p.observed = newObserved(p.registry)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, name := range []string{"nats", "redis"} {
		p.ready.Set(name, errors.New("not connected yet"))
	}
	if cfg.Mode == config.ModeEmbedded {
		p.servers, err = embedded.Start(ctx, embedded.Options{
			Dir: cfg.DataDir, NATSListen: cfg.NATS.Listen, RedisListen: cfg.Redis.Listen, SyncAlways: true,
			Logger: p.log.With(logkey.Component, "embedded"),
		})
		if err != nil {
			return nil, err
		}
		p.closers = append(p.closers, closer{"embedded servers", func() error { p.servers.Stop(); return nil }})
	}
	if cfg.HTTP.Addr != "" {
		p.ops, err = ops.Listen(ops.Options{Addr: cfg.HTTP.Addr, AnyPort: onLoopback(cfg.HTTP.Addr), Pprof: cfg.HTTP.Pprof, Ready: p.ready, Gatherer: p.registry, Served: p.observed.served("ops"), Logger: p.log})
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// NATSURL is where the fleet's NATS is.
func (p *Process) NATSURL() string {
	if p.servers != nil {
		return p.servers.NATSURL()
	}
	return p.cfg.NATS.URL
}

// RedisAddr is where the fleet's Redis is.
func (p *Process) RedisAddr() string {
	if p.servers != nil {
		return p.servers.RedisAddr()
	}
	return p.cfg.Redis.Addr
}

// HTTPAddr is where /livez, /readyz and /metrics are; "" if nowhere.
func (p *Process) HTTPAddr() string {
	if p.ops == nil {
		return ""
	}
	return p.ops.Addr()
}

// StartsAddr is where starts and signals are taken over HTTP; "" if nowhere.
// It is known once Up is closed.
func (p *Process) StartsAddr() string { return p.startsAddr }

// Up is closed when the process has its servers and begins to work.
func (p *Process) Up() <-chan struct{} { return p.up }

// Run works until ctx ends, then stops in stages and closes the process.
func (p *Process) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, p.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // whatever ends first ends everything
	var fatal atomic.Pointer[error]
	p.fail = func(err error) { fatal.Store(&err); cancel() }
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	var duties sync.WaitGroup
	defer duties.Wait()
	defer endServing() // probes are answered to the very end
	if p.ops != nil {
		duties.Go(func() {
			if err := p.ops.Run(serving); err != nil {
				p.log.Error("http server failed", logkey.Error, err)
			}
		})
	}
	w, err := p.connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while it waited for its servers
		}
		return err
	}
	hooks, err := p.listenForStarts()
	if err != nil {
		return err
	}
	p.ready.Set("worker", errors.New("starting"))
	context.AfterFunc(ctx, func() { p.ready.Set("worker", errors.New("stopping")) })
	if p.cfg.Retention.History > 0 {
		a := archive.New(archive.Config{After: p.cfg.Retention.History, Build: Build(), By: p.id, Logger: p.log.With(logkey.Component, "archive"), Registry: p.registry}, p.queue.Archive())
		duties.Go(func() { _ = a.Run(ctx) })
	}
	fleet := p.fleetGauges()
	duties.Go(func() { _ = fleet.Run(ctx) })
	if before := p.store.Before(); before != "" && before != p.incarnation {
		duties.Go(func() { p.clear(ctx, before) })
	}
	duties.Go(func() { p.guard(ctx) })
	duties.Go(func() { p.vital(ctx, p.queue.Flow.Watch) })
	if hooks != nil {
		duties.Go(func() { p.vital(ctx, hooks.Run) })
	}
	if p.cfg.API.Enabled {
		duties.Go(func() { p.serve(ctx, w) })
	}
	err = w.Run(inFleet(natscall.With(ctx, p.nc), p.nc, p.cfg.Prefix))
	cancel() // the duties, too
	if cause := fatal.Load(); err == nil && cause != nil {
		err = *cause
	}
	return err
}

// vital runs a duty without which the process is not to be called ready: its
// error ends the process.
func (p *Process) vital(ctx context.Context, duty func(context.Context) error) {
	if err := duty(ctx); err != nil {
		p.fail(err)
	}
}

// clear removes what Redis holds of streams that are gone.
func (p *Process) clear(ctx context.Context, incarnation string) {
	n, err := p.store.Clear(ctx, incarnation)
	if err != nil && ctx.Err() == nil {
		p.log.Warn("could not remove the copies of streams that are gone", logkey.Error, err)
	}
	if n > 0 {
		p.log.Info("removed the copies of streams that are gone", logkey.Count, n)
	}
}

// begun makes the process ready: its worker begins to work.
func (p *Process) begun() {
	for _, name := range []string{"nats", "redis", "worker"} {
		p.ready.Set(name, nil)
	}
	close(p.up)
}

// connect reaches NATS and Redis, however long that takes, and makes the
// worker.
func (p *Process) connect(ctx context.Context) (*worker.Worker, error) {
	if err := p.connectNATS(ctx); err != nil {
		return nil, err
	}
	var err error
	if p.incarnation, err = p.queue.Incarnation(ctx); err != nil {
		return nil, err
	}
	if err := p.connectRedis(ctx, p.incarnation); err != nil {
		return nil, err
	}
	p.observeStores()
	if p.id, err = workerID(); err != nil {
		return nil, err
	}
	var secret []byte
	err = p.await(ctx, "nats", func(ctx context.Context) (err error) { secret, err = p.queue.Secret(ctx); return err })
	if err != nil {
		return nil, err
	}
	c := p.cfg
	return worker.New(worker.Config{
		ID: p.id, Build: Build(), Secret: secret, Lanes: c.Worker.Lanes, Batch: c.Worker.Batch, InFlight: c.Worker.InFlight,
		InlineMax: c.Worker.InlineMax, InlinePerRun: c.Worker.InlinePerRun, QueuedMax: c.Worker.QueuedMax, QueuedOf: c.Effects.Queued,
		AckWait: c.Worker.AckWait, EffectWait: c.Worker.EffectAckWait, StopTimeout: c.Worker.StopTimeout, SweepEvery: c.Worker.SweepEvery,
		Limits: limits(c.Effects.Limits),
		Retry:  worker.Retry{Attempts: c.Retry.Attempts, Initial: c.Retry.Initial, Factor: c.Retry.Factor, Jitter: c.Retry.Jitter, Max: c.Retry.Max},
		Logger: p.log, Registry: p.registry, Ready: p.ready.Set, Started: p.begun,
	}, p.catalog, worker.Ports{
		Log: p.queue.Log, Shadow: p.store, Claims: p.store, Mail: p.queue.Publisher, Timers: p.queue.Publisher, Blobs: p.queue.Blobs,
		Ledger: p.queue.Ledger, Source: p.queue.Source, Machines: p.queue.Machines,
		Flow: p.queue.Flow, Permits: p.store, Progress: p.queue.Progress,
	})
}

func limits(of map[string]config.Limit) map[string]flow.Limit {
	all := make(map[string]flow.Limit, len(of))
	for effect, l := range of {
		all[effect] = flow.Limit(l)
	}
	return all
}

func (p *Process) connectNATS(ctx context.Context) (err error) {
	c := p.cfg.NATS
	cc := natsqueue.Config{URL: c.URL, CredsFile: c.CredsFile, NKeyFile: c.NKeyFile, User: c.Username, Password: c.Password.Reveal(), PasswordFile: c.PasswordFile,
		CAFile: c.TLS.CAFile, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile, TLS: c.TLS.On(), Name: clientName(), Logger: p.log,
		Closed: func(err error) { p.fail(fmt.Errorf("the connection to NATS ended for good: %w", err)) }}
	if p.servers != nil {
		cc.URL, cc.InProcess = p.servers.NATSURL(), p.servers.InProcess()
	}
	if p.nc, err = natsqueue.Connect(cc); err != nil {
		return err
	}
	p.closers = append(p.closers, closer{"nats connection", func() error { p.nc.Close(); return nil }})
	if p.servers != nil {
		if _, err := natsqueue.Provision(ctx, p.nc, Topology(p.cfg, p.catalog)); err != nil {
			return fmt.Errorf("provision: %w", err)
		}
	}
	group := map[config.Switch]natsqueue.Group{config.Auto: natsqueue.GroupAuto, config.On: natsqueue.GroupAlways, config.Off: natsqueue.GroupNever}[c.GroupCommit]
	err = p.await(ctx, "nats", func(ctx context.Context) error {
		q, err := natsqueue.Open(ctx, p.nc, natsqueue.Options{Prefix: p.cfg.Prefix, Group: group, SyncAlways: p.servers != nil, LedgerTTL: p.cfg.Retention.Ledger, Logger: p.log,
			Landed: p.observed.landed, Gathered: p.observed.gather})
		if err != nil {
			return fmt.Errorf("nats at %s: %w", redacted(cc.URL), err)
		}
		if err := q.Check(ctx, p.catalog.Effects()); err != nil {
			return errors.Join(fmt.Errorf("nats at %s: %w", redacted(cc.URL), err), q.Close())
		}
		if err := p.checkStreams(ctx); err != nil {
			return errors.Join(fmt.Errorf("nats at %s: %w", redacted(cc.URL), err), q.Close())
		}
		p.queue = q
		return nil
	})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, closer{"queue", p.queue.Close})
	return p.await(ctx, "nats", p.queue.Flow.Sync)
}

// policies are what the configuration says of effect types, for a catalogue.
func policies(of map[string]config.Policy) map[string]statemachine.Policy {
	all := make(map[string]statemachine.Policy, len(of))
	for effect, p := range of {
		all[effect] = statemachine.Policy{
			Attempts: p.Attempts, Timeout: p.Timeout, Queued: p.Queued, InDoubt: statemachine.InDoubt(p.InDoubt),
			Waits: statemachine.Waits{First: p.Initial, Factor: p.Factor, Max: p.Max},
		}
	}
	return all
}

// Topology is what a fleet with this configuration and catalogue needs in
// JetStream.
func Topology(cfg Config, catalog *statemachine.Catalog) natsqueue.Topology {
	limit := func(s config.Size) int64 { // 0 is "as the disk allows" there, and the default here
		if s == 0 {
			return -1
		}
		return int64(s)
	}
	l := cfg.Limits
	return natsqueue.Topology{
		Prefix: cfg.Prefix, Replicas: cfg.NATS.Replicas, Effects: catalog.Effects(),
		AckWait: cfg.Worker.AckWait, EffectAckWait: cfg.Worker.EffectAckWait,
		FinishedFor: cfg.Retention.Finished,
		Limits: natsqueue.Limits{
			StartBytes: limit(l.StartSize), SignalBytes: limit(l.SignalSize), HistoryBytes: limit(l.HistorySize),
			DLQBytes: limit(l.DLQSize), BlobBytes: limit(l.BlobsSize),
		},
	}
}

func (p *Process) connectRedis(ctx context.Context, incarnation string) (err error) {
	c := p.cfg.Redis
	rc := redisstore.Config{Addrs: strings.Split(c.Addr, ","), Username: c.Username, Password: c.Password.Reveal(), PasswordFile: c.PasswordFile,
		CAFile: c.TLS.CAFile, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile, TLS: c.TLS.On()}
	if p.servers != nil {
		rc.Addrs = []string{p.servers.RedisAddr()}
	}
	redis.SetLogger(quietRedis{p.log}) // the client knows no other way
	if err := p.await(ctx, "redis", func(ctx context.Context) (err error) {
		if p.redis, err = redisstore.Connect(ctx, rc); err != nil {
			return fmt.Errorf("redis at %s: %w", strings.Join(rc.Addrs, ","), err)
		}
		return nil
	}); err != nil {
		return err
	}
	p.closers = append(p.closers, closer{"redis connection", p.redis.Close})
	return p.await(ctx, "redis", func(ctx context.Context) (err error) {
		p.store, err = redisstore.Open(ctx, p.redis, redisstore.Options{Prefix: p.cfg.Prefix, Incarnation: incarnation, EndedTTL: p.endedFor()})
		return err
	})
}

// endedFor is how long the copies of ended runs stay. The stand-in holds them
// in this process, at some 20 KB each, and HISTORY is close by: not for long.
func (p *Process) endedFor() time.Duration {
	if p.servers != nil {
		return min(p.cfg.Retention.Ended, 5*time.Minute)
	}
	return p.cfg.Retention.Ended
}

// quietRedis sends what the client says of its own accord to the log; what
// matters of it comes back as errors anyway.
type quietRedis struct{ log *slog.Logger }

// Printf implements the client's logger.
func (q quietRedis) Printf(_ context.Context, format string, v ...any) {
	q.log.Debug("redis client", logkey.Cause, fmt.Sprintf(format, v...))
}

// Close ends what was opened, the last first. Run calls it.
func (p *Process) Close() error {
	var errs []error
	for len(p.closers) > 0 {
		last := p.closers[len(p.closers)-1]
		p.closers = p.closers[:len(p.closers)-1]
		if err := last.close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", last.name, err))
		}
	}
	if p.ops != nil {
		errs = append(errs, p.ops.Close())
		p.ops = nil
	}
	return errors.Join(errs...)
}

// onLoopback reports whether an address is for this machine only. There a
// second worker may take any port; where others look for it, it may not.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// redacted is a list of URLs without their passwords.
func redacted(list string) string {
	all := strings.Split(list, ",")
	for i, one := range all {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			all[i] = u.Redacted()
		}
	}
	return strings.Join(all, ",")
}

// clientName is what the server's monitoring calls this process: in Kubernetes
// the host is the pod.
func clientName() string {
	host, err := os.Hostname()
	if err != nil {
		return "pawl worker"
	}
	return "pawl worker on " + host
}

// workerID is unique for the life of the process: host, and chance.
func workerID() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return host + "-" + hex.EncodeToString(b[:]), nil
}

// Build names the code of this process: version and revision as the Go
// toolchain recorded them.
func Build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && (v == "" || v == "(devel)") {
			v = s.Value[:12]
		}
	}
	if v == "" {
		v = "(devel)"
	}
	return v
}

// NewLogger returns the logger that the configuration describes.
func NewLogger(w io.Writer, cfg Config) *slog.Logger {
	c := cfg.Log
	o := &slog.HandlerOptions{Level: c.Level}
	if c.Format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
