package pawl_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/natsqueue"
)

// More of them find what is rare:
//
//	go test . -run TestFleetOnThreeNodes -v -timeout 30m -fleet.runs 2000
var fleetRuns = flag.Int("fleet.runs", 200, "runs that are carried through all faults of a fleet on three nodes")

// hurt is a fleet of three workers, on three nodes and a redis-server, to
// which things happen.
type hurt struct {
	t *testing.T
	*fleet
	*killCheck
	cluster *natstest.Cluster
	redis   *redistest.Server
	workers [3]*process
	earlier string // what the redis-server knew some time ago

	due     chan int // runs that the producer is to start
	started int      // how many it was told of
}

// fault is something that happens to a fleet; when it returns, what was killed
// is there again.
type fault struct {
	name   string
	happen func()
}

// Everything that can go down does, one after the other, under load: workers
// are killed, every stream and every consumer in use changes its leader, two
// nodes of three go on alone, Redis is killed and comes back with what it
// knew, with what it knew some time ago, and with nothing. All runs end, each
// end is told once, no call is repeated that was not in flight at the kill of
// a worker, and nothing is dead-lettered.
func TestFleetOnThreeNodes(t *testing.T) {
	if !slices.Contains(redistest.Kinds(t), redistest.Real) {
		return // Kinds has said so, and fails in CI
	}
	began := time.Now()
	h := newHurt(t)
	acked := make(chan error, 1)
	go func() { acked <- h.produce() }()
	h.startUpTo(h.runs / 2) // the others before and during the faults
	var faults []fault
	for round := range max(1, h.runs/400) {
		faults = append(faults, h.faults(round)...)
	}
	t.Logf("%5.1f s: it works", time.Since(began).Seconds())
	for i, f := range faults {
		// Whatever the last fault took: the next one meets runs under way.
		h.startUpTo(h.runs/2 + (i+1)*(h.runs-h.runs/2)/len(faults))
		h.further(h.runs * killSteps / len(faults) / 4)
		at := time.Now()
		f.happen()
		t.Logf("%5.1f s: %s, after %d ms", time.Since(began).Seconds(), f.name, time.Since(at).Milliseconds())
	}
	h.startUpTo(h.runs)
	close(h.due)
	if err := <-acked; err != nil {
		t.Error(err)
	}
	figures := h.finish(h.fleet)
	h.idle()
	h.toldOnce(h.runs)
	if l := h.letters(0); len(l) != 0 {
		t.Errorf("%d letters, want none, such as %+v", len(l), l[0])
	}
	t.Logf("%s, %d faults, %.0f seconds", figures, len(faults), time.Since(began).Seconds())
}

func newHurt(t *testing.T) *hurt {
	c := natstest.Three(t)
	wait := 1500 * time.Millisecond
	topology := natsqueue.Topology{Replicas: 3, Effects: catalog(t, t.TempDir()).Effects(), AckWait: wait, EffectAckWait: wait}
	eventually(t, 30*time.Second, "the streams to be made", func() bool {
		_, err := natsqueue.Provision(t.Context(), c.Conn(), topology)
		return err == nil
	})
	addr := freeAddr(t)
	r := redistest.Start(t, redistest.Real, "--bind", "127.0.0.1", "--port", addr[strings.LastIndex(addr, ":")+1:], "--appendonly", "yes")
	h := &hurt{t: t, fleet: join(t, c.URL(), false), killCheck: newKillCheck(t), cluster: c, redis: r}
	h.runs = *fleetRuns
	h.due = make(chan int, h.runs)
	h.env = map[string]string{"PAWL_NATS_URL": c.URL(), "PAWL_REDIS_ADDR": addr}
	for i := range h.workers {
		h.begin(i)
	}
	t.Cleanup(func() {
		if t.Failed() {
			h.describe()
		}
	})
	return h
}

// begin starts a worker. Few handlers at once: the runs outlast the faults.
func (h *hurt) begin(i int) {
	few := map[string]string{"PAWL_WORKER_INLINE_MAX": "6", "PAWL_WORKER_QUEUED_MAX": "6", "PAWL_NATS_REPLICAS": "3"}
	h.workers[i] = startProcess(h.t, env(h.env, few))
}

// startUpTo has the producer start runs until there are so many.
func (h *hurt) startUpTo(until int) {
	for ; h.started < min(until, h.runs); h.started++ {
		h.due <- h.started
	}
}

// further waits for so many more calls of the sink, or for all that the runs
// that were started will ever make: a machine may be quick, or the last fault
// have taken long.
func (h *hurt) further(calls int) {
	h.t.Helper()
	h.progress(min(h.calls()+calls, h.started*killSteps))
}

// produce publishes starts as a producer does who wants every one of them
// taken: what is not acknowledged is sent again.
func (h *hurt) produce() error {
	for i := range h.due {
		m := nats.NewMsg("pawl.start.kitchensink")
		m.Header["Pawl-Run-Id"] = []string{fmt.Sprintf("kill-%d", i)}
		m.Data = []byte(killScript(h.sink.URL, i))
		var err error
		if !waits(60*time.Second, func() bool { _, err = h.js.PublishMsg(context.Background(), m); return err == nil }) {
			return fmt.Errorf("publish the start of run %d: %w", i, err)
		}
	}
	return nil
}

// faults lists what happens in a round, in its order.
func (h *hurt) faults(round int) []fault {
	var all []fault
	add := func(name string, happen func()) { all = append(all, fault{name, happen}) }
	kill := func(i int) {
		i = (i + round) % len(h.workers)
		add(fmt.Sprintf("worker %d killed", i), func() { h.kill(i); h.begin(i) })
	}
	kill(0)
	for i, s := range h.streams() {
		add("step-down of "+s, func() { h.stepDown("STREAM", s) })
		if i == 4 {
			add("Redis killed, with its data", func() { h.redis.Kill(); h.redis.Again(h.t) })
		}
	}
	led := []string{"PAWL_HISTORY", "PAWL_START", "PAWL_EFFECTS"}[round%3]
	add("the node that leads "+led+" stopped", func() { h.halt(led) })
	kill(1)
	add("Redis killed, without its data", func() { h.redis.Kill(); h.becomes(""); h.redis.Again(h.t) })
	for i, c := range []string{"PAWL_START.start", "PAWL_EFFECTS.effect-http+post", "PAWL_EVENTS.event", "PAWL_TIMERS.due", "PAWL_SIGNAL.signal"} {
		add("step-down of "+c, func() { h.stepDown("CONSUMER", c) })
		if i == 0 {
			add("Redis copied", func() { h.copied() })
		}
	}
	add("Redis killed, with old data", func() { h.redis.Kill(); h.becomes(h.earlier); h.redis.Again(h.t) })
	last := (2 + round) % len(h.workers)
	add(fmt.Sprintf("Redis and worker %d killed, without data", last), func() {
		h.redis.Kill()
		h.kill(last)
		h.becomes("")
		h.redis.Again(h.t)
		h.begin(last)
	})
	return all
}

// streams lists the streams there are.
func (h *hurt) streams() []string {
	var all []string
	names := h.js.StreamNames(context.Background()) // also at the end of the test
	for s := range names.Name() {
		all = append(all, s)
	}
	if err := names.Err(); err != nil || len(all) < 11 {
		h.t.Fatalf("streams %v, %v", all, err)
	}
	slices.Sort(all)
	return all
}

func (h *hurt) kill(i int) {
	h.workers[i].kill()
	h.killed(h.fleet, 1)
}

// stepDown has the leader of a stream or a consumer step down, and waits until
// another leads.
func (h *hurt) stepDown(kind, name string) {
	h.t.Helper()
	before := ""
	eventually(h.t, 30*time.Second, "the step-down of "+name, func() bool { // nodes that come back know nothing at first
		var answer struct{ Success bool }
		if before = h.leader(kind, name); before != "" {
			h.asks("$JS.API."+kind+".LEADER.STEPDOWN."+name, &answer)
		}
		return answer.Success
	})
	eventually(h.t, 30*time.Second, "another leader of "+name, func() bool {
		now := h.leader(kind, name)
		return now != "" && now != before
	})
}

// leader is the node that leads a stream or a consumer; "" if none does.
func (h *hurt) leader(kind, name string) string {
	var info struct{ Cluster struct{ Leader string } }
	h.asks("$JS.API."+kind+".INFO."+name, &info)
	return info.Cluster.Leader
}

// asks requests something of JetStream.
func (h *hurt) asks(subject string, answer any) {
	m, err := h.nc.Request(subject, nil, 500*time.Millisecond)
	if err != nil {
		return // without a leader nobody answers
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		h.t.Fatalf("%s answered %s", subject, m.Data)
	}
}

// halt stops the node that leads a stream until runs have gone on without, and
// others have begun.
func (h *hurt) halt(stream string) {
	n := h.cluster.Leader(stream)
	n.Stop()
	h.startUpTo(h.started + 3)
	h.further(2 * killSteps)
	n.Start()
}

// copied notes what Redis knows.
func (h *hurt) copied() {
	h.earlier = h.t.TempDir()
	h.copy(h.earlier, h.redis.Dir)
}

// becomes gives a dead Redis the data of an earlier time; none for "".
func (h *hurt) becomes(earlier string) {
	if err := os.RemoveAll(filepath.Join(h.redis.Dir, "appendonlydir")); err != nil {
		h.t.Fatal(err)
	}
	if earlier != "" {
		h.copy(h.redis.Dir, earlier)
	}
}

func (h *hurt) copy(to, from string) {
	if err := os.CopyFS(filepath.Join(to, "appendonlydir"), os.DirFS(filepath.Join(from, "appendonlydir"))); err != nil {
		h.t.Fatal(err)
	}
}

// describe logs how full the queues are, who leads them, and where their
// consumers stand: a message at or below the floor of its consumer is one that
// nobody will be given again.
func (h *hurt) describe() {
	for _, stream := range h.streams() {
		var s struct {
			State struct {
				Messages int
				First    uint64 `json:"first_seq"`
				Last     uint64 `json:"last_seq"`
			}
		}
		h.asks("$JS.API.STREAM.INFO."+stream, &s)
		h.t.Logf("%s: %+v, led by %q", stream, s.State, h.leader("STREAM", stream))
		var names struct{ Consumers []string }
		h.asks("$JS.API.CONSUMER.NAMES."+stream, &names)
		for _, name := range names.Consumers {
			m, err := h.nc.Request("$JS.API.CONSUMER.INFO."+stream+"."+name, nil, 2*time.Second)
			if err != nil {
				h.t.Logf("  %s: %v", name, err)
				continue
			}
			var c struct {
				Delivered json.RawMessage
				AckFloor  json.RawMessage `json:"ack_floor"`
				Pending   int             `json:"num_pending"`
				InHand    int             `json:"num_ack_pending"`
				Pulls     int             `json:"num_waiting"`
				Cluster   struct{ Leader string }
			}
			if err := json.Unmarshal(m.Data, &c); err != nil {
				h.t.Logf("  %s: %s", name, m.Data)
			}
			h.t.Logf("  %s: %d pending, %d in hand, %d pulls, delivered %s, floor %s, led by %q",
				name, c.Pending, c.InHand, c.Pulls, c.Delivered, c.AckFloor, c.Cluster.Leader)
		}
		if s.State.Messages == 0 || s.State.Messages > 20 {
			continue
		}
		for seq := s.State.First; seq <= s.State.Last; seq++ {
			var answer struct{ Message struct{ Subject string } }
			m, err := h.nc.Request("$JS.API.STREAM.MSG.GET."+stream, fmt.Appendf(nil, `{"seq":%d}`, seq), time.Second)
			if err == nil && json.Unmarshal(m.Data, &answer) == nil && answer.Message.Subject != "" {
				h.t.Logf("  message %d: %s", seq, answer.Message.Subject)
			}
		}
	}
}
