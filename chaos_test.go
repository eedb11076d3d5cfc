package pawl_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
)

// The long form, with figures in a file (make chaos DURATION=30m SEED=7):
//
//	go test . -run TestChaos -v -timeout 0 -chaos.for 30m -chaos.seed 7 -chaos.json figures.json
var (
	chaosFor  = flag.Duration("chaos.for", 0, "how long faults happen to a fleet on three nodes; 0: until each happened once")
	chaosSeed = flag.Uint64("chaos.seed", 1, "which faults, in which order")
	chaosJSON = flag.String("chaos.json", "", "file for the figures of a run of TestChaos")
)

const (
	chaosRate   = 12                      // runs that are started each second
	chaosLive   = 150                     // runs under way, at most
	chaosWait   = 1500 * time.Millisecond // AckWait
	chaosHealth = 2 * time.Minute         // after the last fault, all runs have ended
)

// chaos is a fleet in ten processes, under load, to which faults happen: three
// nats-servers, three workers, a redis-server behind a proxy, and the world that
// effects act on in this one.
type chaos struct {
	t *testing.T
	*fleet
	rng     *rand.Rand
	cluster *natsProcesses
	redis   *redistest.Server
	proxy   *cutter
	workers [3]*process
	sink    *sink

	mu      sync.Mutex
	plans   []chaosRun
	unknown int // starts, signals and cancels that were sent again: nobody knew whether they were taken
	ended   atomic.Int64
	figures chaosFigures
}

// chaosRun is what a producer asked for.
type chaosRun struct {
	id        string
	steps     []string // bodies that the sink is to see
	cancelled bool     // somebody asked for it
}

// chaosFigures are what a run of TestChaos tells.
type chaosFigures struct {
	Seed       uint64         `json:"seed"`
	Seconds    float64        `json:"seconds"`
	Runs       int            `json:"runs"`
	Ended      map[string]int `json:"ended"` // by status
	Events     int            `json:"events"`
	Records    int            `json:"records"`
	Effects    int            `json:"effects"` // performed, each once
	Repeats    int            `json:"repeats"` // calls under a key that had been called: a fault came before their record
	Faults     map[string]int `json:"faults"`
	Unknown    int            `json:"unknown_outcomes"` // of what producers sent
	Timers     int            `json:"timers"`
	LateP50    float64        `json:"timers_late_p50_ms"`
	LateP99    float64        `json:"timers_late_p99_ms"`
	Recovery   float64        `json:"longest_recovery_s"` // from the end of a fault to the next call of the sink
	Healed     float64        `json:"healed_s"`           // from the last fault to the end of the last run
	Again      int            `json:"ends_told_again"`
	Lost       int            `json:"lost"`
	Duplicates int            `json:"duplicates"`
	Forks      int            `json:"forks"`
	Stuck      int            `json:"stuck"`
	Early      int            `json:"early_timers"`
}

// Faults happen to a fleet on three nodes, in an order that a seed tells, while
// producers start runs, signal and cancel them. When all is well again, every
// run ends, no step is performed under two keys and none is left out, every
// history is one chain that can be folded again, no timer was early, each end
// is told once, and Redis agrees with HISTORY.
func TestChaos(t *testing.T) {
	if !slices.Contains(redistest.Kinds(t), redistest.Real) {
		return // Kinds has said so, and fails in CI
	}
	if *chaosFor == 0 {
		t.Parallel()
	}
	c := newChaos(t)
	began := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	producers.Go(func() { c.produce(ctx) })
	c.advances("the first runs")
	c.torment(began)
	stop()
	producers.Wait()
	c.heal()
	c.figures.Seed, c.figures.Seconds = *chaosSeed, time.Since(began).Seconds()
	c.check()
	c.report()
}

func newChaos(t *testing.T) *chaos {
	cluster := newNATSProcesses(t)
	topology := natsqueue.Topology{Replicas: 3, Effects: catalog(t, t.TempDir()).Effects(), AckWait: chaosWait, EffectAckWait: chaosWait}
	nc := cluster.connect()
	eventually(t, 60*time.Second, "the streams to be made", func() bool {
		_, err := natsqueue.Provision(t.Context(), nc, topology)
		return err == nil
	})
	addr := freeAddr(t)
	r := redistest.Start(t, redistest.Real, "--bind", "127.0.0.1", "--port", addr[strings.LastIndex(addr, ":")+1:], "--appendonly", "yes")
	c := &chaos{
		t: t, fleet: join(t, cluster.url(), false), rng: rand.New(rand.NewPCG(*chaosSeed, 1)), cluster: cluster, redis: r, proxy: newCutter(t, addr),
		sink: newSink(t, func(n int) time.Duration { return time.Duration(5+n*37%60) * time.Millisecond }),
	}
	c.figures.Faults, c.figures.Ended = map[string]int{}, map[string]int{}
	c.env = map[string]string{"PAWL_NATS_URL": cluster.url(), "PAWL_REDIS_ADDR": c.proxy.addr(), "PAWL_NATS_REPLICAS": "3"}
	c.fleet.redis = addr
	for i := range c.workers {
		c.begin(i)
	}
	sub, err := c.nc.Subscribe("pawl.finished.>", func(*nats.Msg) { c.ended.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return c
}

func (c *chaos) begin(i int) {
	few := map[string]string{"PAWL_WORKER_INLINE_MAX": "16", "PAWL_WORKER_QUEUED_MAX": "16"}
	c.workers[i] = startProcess(c.t, env(c.env, few))
}

// produce starts runs of all kinds until ctx ends. What is not acknowledged is
// sent again, as by a producer who wants it taken.
func (c *chaos) produce(ctx context.Context) {
	rng := rand.New(rand.NewPCG(*chaosSeed, 2))
	tick := time.NewTicker(time.Second / chaosRate)
	defer tick.Stop()
	for i := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if i-int(c.ended.Load()) > chaosLive {
			continue
		}
		r, input := c.plan(i, rng)
		signal := i%5 == 1
		if signal && rng.IntN(2) == 0 { // before its run, and perhaps again
			c.send("pawl.signal._.go", r.id, "go-"+r.id, `{}`)
		}
		c.send("pawl.start.kitchensink", r.id, "", input)
		for range rng.IntN(3) * i % 4 / 3 { // and once more
			c.send("pawl.start.kitchensink", r.id, "", input)
		}
		if signal {
			c.send("pawl.signal._.go", r.id, "go-"+r.id, `{}`)
		}
		if r.cancelled {
			c.tell(func() error {
				return c.queue.Sender.Command(context.Background(), api.Command{Run: r.id, Kind: statemachine.EventCancel, ID: "stop", Command: statemachine.Command{By: "a producer"}})
			})
		}
		c.mu.Lock()
		c.plans = append(c.plans, r)
		c.mu.Unlock()
		i++
	}
}

// plan is the run number i: steps one by one, inline or queued; after a time
// and a signal; many at once; by a child.
func (c *chaos) plan(i int, rng *rand.Rand) (chaosRun, string) {
	r := chaosRun{id: fmt.Sprintf("chaos-%d", i), cancelled: i%20 == 7}
	post := func(j int, place string) string {
		step := fmt.Sprintf("%d/%d", i, j)
		r.steps = append(r.steps, `"`+step+`"`)
		return fmt.Sprintf(`{"do":"http.post","input":{"url":%q,"body":%q}%s}`, c.sink.URL, step, place)
	}
	queued := `,"place":"queued"`
	var steps []string
	switch i % 5 {
	case 1:
		steps = []string{post(0, ""), fmt.Sprintf(`{"sleep":"%dms"}`, 100+rng.IntN(3000)), `{"await":"go","timeout":"24h"}`, post(1, "")}
	case 2:
		var fan []string
		for j := range 4 {
			fan = append(fan, post(j, ""))
		}
		steps = []string{`{"fan":[` + strings.Join(fan, ",") + `],"limit":2}`}
	case 3:
		steps = []string{`{"child":{"machine":"kitchensink","input":{"steps":[` + post(0, "") + `,` + post(1, queued) + `]}}}`, post(2, "")}
	default:
		steps = []string{post(0, ""), post(1, queued), post(2, ""), post(3, "")}
	}
	return r, `{"steps":[` + strings.Join(steps, ",") + `]}`
}

// send publishes until it is acknowledged.
func (c *chaos) send(subject, run, signal, body string) {
	m := nats.NewMsg(subject)
	m.Header["Pawl-Run-Id"] = []string{run}
	if signal != "" {
		m.Header["Pawl-Signal-Id"] = []string{signal}
	}
	m.Data = []byte(body)
	c.tell(func() error { _, err := c.js.PublishMsg(context.Background(), m); return err })
}

func (c *chaos) tell(send func() error) {
	var err error
	if !waits(chaosHealth, func() bool {
		if err = send(); err != nil {
			c.mu.Lock()
			c.unknown++
			c.mu.Unlock()
		}
		return err == nil
	}) {
		c.t.Errorf("nobody takes what a producer sends: %v", err)
	}
}

// advances waits until runs go on.
func (c *chaos) advances(after string) {
	c.t.Helper()
	n := c.calls()
	eventually(c.t, chaosHealth, "a call of the sink, after "+after, func() bool { return c.calls() > n })
}

func (c *chaos) calls() int {
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	return c.sink.total
}

// report prints the figures in one line, and writes them to a file.
func (c *chaos) report() {
	b, err := json.Marshal(c.figures)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("%s", b)
	if *chaosJSON != "" {
		if err := os.WriteFile(*chaosJSON, append(b, '\n'), 0o644); err != nil {
			c.t.Error(err)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(c.figures.Faults)) {
		if c.figures.Faults[kind] == 0 {
			c.t.Errorf("%s did not happen", kind)
		}
	}
}
