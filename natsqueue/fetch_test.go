package natsqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

// publish publishes one message as anybody would.
func (f *fleet) publish(subject string, header map[string]string, body string) uint64 {
	f.t.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	for k, v := range header {
		m.Header[k] = []string{v}
	}
	a, err := f.q.link.js.PublishMsg(f.t.Context(), m)
	if err != nil {
		f.t.Fatalf("publish on %s: %v", subject, err)
	}
	return a.Sequence
}

// fetch1 fetches the one message there is.
func (f *fleet) fetch1(consumer string) queue.Message {
	f.t.Helper()
	msgs, err := f.q.Source.Fetch(f.t.Context(), consumer, 10, 10*time.Second)
	if err != nil || len(msgs) != 1 {
		f.t.Fatalf("fetch from %s: %d messages, %v, want one", consumer, len(msgs), err)
	}
	return msgs[0]
}

// none checks that a consumer has nothing.
func (f *fleet) none(consumer string) {
	f.t.Helper()
	if msgs, err := f.q.Source.Fetch(f.t.Context(), consumer, 10, 0); err != nil || len(msgs) != 0 {
		f.t.Errorf("fetch from %s: %d messages, %v, want none", consumer, len(msgs), err)
	}
}

func TestFetchStarts(t *testing.T) {
	t.Parallel()
	f := one(t)
	incarnation, err := f.q.link.incarnation(t.Context(), streamStart)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 5000)
	tests := []struct {
		name    string
		machine string
		header  map[string]string
		run     string // "%d" is the sequence
		version int
		fault   string

		priority queue.Priority // default: normal
		tenant   string
	}{
		{name: "run id", machine: "sink", header: map[string]string{"Pawl-Run-Id": "r 1", "Nats-Msg-Id": "m1"}, run: "r 1"},
		{name: "message id", machine: "sink", header: map[string]string{"Nats-Msg-Id": "m2"}, run: "m2"},
		{name: "no id", machine: "sink", run: "sink-" + incarnation[:4] + "-%d"},
		{name: "version", machine: "sink", header: map[string]string{"Pawl-Run-Id": "r", "Pawl-Machine-Version": "3"}, run: "r", version: 3},
		{name: "odd id", machine: "sink", header: map[string]string{"Pawl-Run-Id": "合同.*>}"}, run: "合同.*>}"},
		{name: "long id", machine: "sink", header: map[string]string{"Pawl-Run-Id": long}, fault: "Pawl-Run-Id is 5000 bytes long; at most 256 are allowed"},
		{name: "long message id", machine: "sink", header: map[string]string{"Nats-Msg-Id": long}, fault: "Nats-Msg-Id is 5000 bytes long; at most 256 are allowed"},
		{name: "empty id", machine: "sink", header: map[string]string{"Pawl-Run-Id": ""}, fault: "Pawl-Run-Id is empty"},
		{name: "not UTF-8", machine: "sink", header: map[string]string{"Pawl-Run-Id": "\xff"}, fault: "Pawl-Run-Id is not UTF-8"},
		{name: "no version", machine: "sink", header: map[string]string{"Pawl-Run-Id": "r", "Pawl-Machine-Version": "new"}, run: "r", fault: `Pawl-Machine-Version is "new", not a version from 1`},
		{name: "priority and tenant", machine: "sink", header: map[string]string{"Pawl-Run-Id": "r", "Pawl-Priority": "low", "Pawl-Tenant": "Ä & Sons"}, run: "r", priority: queue.Low, tenant: "Ä & Sons"},
		{name: "no priority", machine: "sink", header: map[string]string{"Pawl-Run-Id": "r", "Pawl-Priority": "urgent"}, run: "r", fault: `Pawl-Priority: priority "urgent" is not high, normal or low`},
		{name: "long tenant", machine: "sink", header: map[string]string{"Pawl-Run-Id": "r", "Pawl-Tenant": long[:300]}, run: "r", fault: "Pawl-Tenant: tenant is 300 bytes long; at most 256 are allowed"},
		{name: "no machine name", machine: "Sink!", header: map[string]string{"Pawl-Run-Id": "r"}, run: "r", fault: `machine name "Sink!" is not [a-z][a-z0-9_-]{0,63}`},
	}
	for _, tt := range tests {
		seq := f.publish("pawl.start."+tt.machine, tt.header, `{"a":1}`)
		m := f.fetch1(ConsumerStart)
		run := strings.ReplaceAll(tt.run, "%d", fmt.Sprint(seq))
		if m.Kind != queue.Start || m.Machine != tt.machine || m.Run != run || m.Seq != seq || m.Delivered != 1 ||
			string(m.Body) != `{"a":1}` || m.Subject != "pawl.start."+tt.machine || time.Since(m.Time).Abs() > time.Minute {
			t.Errorf("%s: %+v, want run %q", tt.name, m, run)
		}
		if tt.fault == "" && (m.Fault != nil || m.Version != tt.version) || tt.fault != "" && (m.Fault == nil || m.Fault.Error() != tt.fault) {
			t.Errorf("%s: version %d, fault %v, want %d, %q", tt.name, m.Version, m.Fault, tt.version, tt.fault)
		}
		if want := cmp.Or(tt.priority, queue.Normal); tt.fault == "" && (m.Priority != want || m.Tenant != tt.tenant) {
			t.Errorf("%s: priority %s, tenant %q, want %s, %q", tt.name, m.Priority, m.Tenant, want, tt.tenant)
		}
		for k, v := range tt.header {
			if m.Headers[k] != v {
				t.Errorf("%s: header %s = %q, want %q", tt.name, k, m.Headers[k], v)
			}
		}
		if err := m.Ack(); err != nil {
			t.Errorf("ack: %v", err)
		}
	}
}

func TestFetchSignals(t *testing.T) {
	t.Parallel()
	f := one(t)
	incarnation, err := f.q.link.incarnation(t.Context(), streamSignal)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("é", 128) // its token is a hash
	tests := []struct {
		name, token string
		header      map[string]string
		run, id     string
		fault       string
	}{
		{name: "plain", token: "r1", header: map[string]string{"Pawl-Signal-Id": "s", "Nats-Msg-Id": "m"}, run: "r1", id: "s"},
		{name: "message id", token: "r1", header: map[string]string{"Nats-Msg-Id": "m1"}, run: "r1", id: "m1"},
		{name: "no id", token: "r1", run: "r1", id: "sig-" + incarnation[:4] + "-%d"},
		{name: "escaped", token: queue.Token("a.b"), run: "a.b", id: "sig-" + incarnation[:4] + "-%d"},
		{name: "by header", token: "_", header: map[string]string{"Pawl-Run-Id": "a b\t合同", "Pawl-Signal-Id": "s"}, run: "a b\t合同", id: "s"},
		{name: "hashed", token: queue.Token(long), header: map[string]string{"Pawl-Run-Id": long, "Pawl-Signal-Id": "s"}, run: long, id: "s"},
		{name: "hashed, another's", token: queue.Token(long), header: map[string]string{"Pawl-Run-Id": "r", "Pawl-Signal-Id": "s"}, id: "s", fault: "Pawl-Run-Id is not the run of token"},
		{name: "nobody", token: "_", header: map[string]string{"Pawl-Signal-Id": "s"}, id: "s", fault: `token "_" names no run, and Pawl-Run-Id is missing`},
		{name: "long id", token: "r1", header: map[string]string{"Pawl-Signal-Id": strings.Repeat("s", 300)}, run: "r1", fault: "Pawl-Signal-Id is 300 bytes long; at most 256 are allowed"},
		{name: "long run", token: "_", header: map[string]string{"Pawl-Run-Id": strings.Repeat("s", 300), "Pawl-Signal-Id": "s"}, id: "s", fault: "Pawl-Run-Id is 300 bytes long; at most 256 are allowed"},
	}
	for _, tt := range tests {
		seq := f.publish("pawl.signal."+tt.token+".decision", tt.header, `true`)
		m := f.fetch1(ConsumerSignal)
		id := strings.ReplaceAll(tt.id, "%d", fmt.Sprint(seq))
		if m.Kind != queue.Signal || m.Name != "decision" || m.Run != tt.run && tt.fault == "" || m.ID != id || string(m.Body) != `true` {
			t.Errorf("%s: %+v, want run %q and id %q", tt.name, m, tt.run, id)
		}
		if tt.fault == "" && m.Fault != nil || tt.fault != "" && (m.Fault == nil || !strings.Contains(m.Fault.Error(), tt.fault)) {
			t.Errorf("%s: fault %v, want %q", tt.name, m.Fault, tt.fault)
		}
		if err := m.Ack(); err != nil {
			t.Errorf("ack: %v", err)
		}
	}
}

func TestFetchEvents(t *testing.T) {
	t.Parallel()
	f := one(t)
	f.publish(f.q.link.subj.event("a.b"), map[string]string{"Pawl-Event-Id": "e1", "Pawl-Event-Name": "other"}, `{}`)
	m := f.fetch1(ConsumerEvent)
	if m.Kind != queue.Event || m.Run != "a.b" || m.ID != "e1" || m.Name != "other" || m.Fault != nil {
		t.Errorf("event = %+v", m)
	}
	f.publish(f.q.link.subj.event("r"), nil, `{}`)
	if msgs, err := f.q.Source.Fetch(t.Context(), ConsumerEvent, 1, 5*time.Second); err != nil || len(msgs) != 1 || msgs[0].Fault == nil {
		t.Errorf("an event without an id: %+v, %v", msgs, err)
	}
}

// TestFetchForgeries publishes wake-ups whose body and subject disagree.
func TestFetchForgeries(t *testing.T) {
	t.Parallel()
	f := one(t)
	s := f.q.link.subj
	for subject, body := range map[string]string{
		s.effect("noop", "r1", "E"):      `{"run":"r2","effect":"E","type":"noop","asked":1}`,
		s.effect("noop", "r1", "F"):      `{"run":"r1","effect":"E","type":"noop","asked":1}`,
		s.effect("noop", "r1", "G"):      `{"run":"r1","effect":"G","type":"http.post","asked":1}`,
		s.effect("noop", "r1", "H"):      `nonsense`,
		s.effect("noop", "r1", "I"):      ``,
		"pawl.due.later.X":               `no line`,
		"pawl.due.later.Y":               "no JSON\nbody",
		s.due("r1", "E", 1):              `{"run":"r1","effect":"E","try":2,"asked":1}`,
		"pawl.due.0." + "r1" + ".E.x.y":  `{}`,
		s.due("r1", "F", 1) + "":         `[]`,
		"pawl.due.what.is.this.supposed": `{}`,
	} {
		f.publish(subject, nil, body)
		consumer := ConsumerDue
		if strings.HasPrefix(subject, "pawl.effect") {
			consumer = EffectConsumer("noop")
		}
		m := f.fetch1(consumer)
		if m.Fault == nil || m.Subject != subject || strings.Contains(m.Fault.Error(), "\n") {
			t.Errorf("%s with %s: fault %v", subject, body, m.Fault)
		}
		if err := m.Ack(); err != nil {
			t.Error(err)
		}
	}
}

func TestFetchReturnsWithTheFirst(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		f.none(ConsumerStart)
		const wait = time.Minute
		got := make(chan queue.Message, 1)
		go func() {
			msgs, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 100, wait)
			if err != nil || len(msgs) != 1 {
				t.Errorf("fetch: %d messages, %v", len(msgs), err)
			}
			for _, m := range msgs {
				got <- m
			}
			close(got)
		}()
		f.publish("pawl.start.sink", map[string]string{"Pawl-Run-Id": "r"}, `{}`)
		m, ok := <-got // long before the wait is over, or the test runs out of time
		if !ok || m.Run != "r" {
			t.Fatalf("fetched %+v", m)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFetchTakesWhatThereIs(t *testing.T) {
	t.Parallel()
	f := one(t)
	const n = 250
	for i := range n {
		f.publish("pawl.start.sink", map[string]string{"Pawl-Run-Id": fmt.Sprint(i)}, strings.Repeat(" ", 1000)+`{}`)
	}
	seen := map[string]bool{}
	for got := 0; got < n; { // fewer than asked, if the server is slow
		msgs, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 100, 10*time.Second)
		if err != nil || len(msgs) == 0 || len(msgs) > 100 {
			t.Fatalf("fetch: %d messages, %v, after %d", len(msgs), err, got)
		}
		got += len(msgs)
		for _, m := range msgs {
			seen[m.Run] = true
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.none(ConsumerStart)
	if len(seen) != n {
		t.Errorf("%d different messages, want %d", len(seen), n)
	}
}

// TestFetchByManyLanes lets lanes share a queue: nothing is lost or doubled,
// though the broker turns pulls away while others wait.
func TestFetchByManyLanes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, natstest.One(t).Conn(), Topology{AckWait: time.Hour}, brisk()) // acks may be late under a burst of synced writes
	const n, lanes = 2000, 8
	var mu sync.Mutex
	seen := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for ctx.Err() == nil {
				msgs, err := f.q.Source.Fetch(ctx, ConsumerStart, 50, time.Second)
				if err != nil && ctx.Err() == nil {
					t.Errorf("fetch: %v", err)
				}
				mu.Lock()
				for _, m := range msgs {
					seen[m.Run]++
					if err := m.Ack(); err != nil {
						t.Error(err)
					}
				}
				if len(seen) == n {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		m := &nats.Msg{Subject: "pawl.start.sink", Header: nats.Header{"Pawl-Run-Id": {fmt.Sprint(i)}}}
		if _, err := f.q.link.js.PublishMsgAsync(m); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	for run, times := range seen {
		if times != 1 {
			t.Errorf("run %s was delivered %d times", run, times)
		}
	}
}

// TestFetchGivenUp returns what is on its way when ctx ends: nothing lies about
// until its AckWait is over.
func TestFetchGivenUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, natstest.One(t).Conn(), Topology{AckWait: time.Hour}, brisk())
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan []queue.Message, 1)
		go func() {
			msgs, err := f.q.Source.Fetch(ctx, ConsumerStart, 10, time.Minute)
			if len(msgs) == 0 && !errors.Is(err, context.Canceled) {
				t.Errorf("fetch given up: %v", err)
			}
			got <- msgs
		}()
		f.publish("pawl.start.sink", map[string]string{"Pawl-Run-Id": "r"}, `{}`)
		cancel()
		msgs := <-got
		if len(msgs) == 0 { // then it is still there
			msgs = []queue.Message{f.fetch1(ConsumerStart)}
		}
		if err := msgs[0].Ack(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeliveryIsAnswered(t *testing.T) {
	t.Parallel()
	const ackWait = time.Second
	f := newFleet(t, natstest.One(t).Conn(), Topology{AckWait: ackWait}, brisk())
	f.publish("pawl.start.sink", map[string]string{"Pawl-Run-Id": "r"}, `{}`)
	m := f.fetch1(ConsumerStart)
	if err := m.Nak(0); err != nil {
		t.Fatal(err)
	}
	if m = f.fetch1(ConsumerStart); m.Delivered != 2 {
		t.Errorf("delivery %d after a nak, want 2", m.Delivered)
	}
	asked := time.Now()
	const delay = 300 * time.Millisecond
	if err := m.Nak(delay); err != nil {
		t.Fatal(err)
	}
	if m = f.fetch1(ConsumerStart); m.Delivered != 3 || time.Since(asked) < delay {
		t.Errorf("delivery %d after %v, want the third after %v", m.Delivered, time.Since(asked), delay)
	}
	// Beats hold it beyond its wait; without them it comes again.
	for held := time.Now(); time.Since(held) < 2*ackWait; {
		if err := m.Beat(); err != nil {
			t.Fatal(err)
		}
		if msgs, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 1, ackWait/4); err != nil || len(msgs) != 0 {
			t.Fatalf("a message that is held came again: %v, %v", msgs, err)
		}
	}
	if m = f.fetch1(ConsumerStart); m.Delivered != 4 {
		t.Errorf("delivery %d after silence, want 4", m.Delivered)
	}
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "an empty queue", func() bool {
		info, err := f.q.link.streamInfo(t.Context(), streamStart)
		return err == nil && info.State.Msgs == 0
	})
}

// TestFetchWithoutAServer returns soon, and works again with one.
func TestFetchWithoutAServer(t *testing.T) {
	t.Parallel()
	n := natstest.One(t)
	f := newFleet(t, n.Conn(), Topology{}, brisk())
	f.none(ConsumerStart)
	failed := make(chan error, 1)
	go func() {
		_, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 1, time.Hour)
		failed <- err
	}()
	natstest.Await(t, "the pull", func() bool {
		c, err := f.q.link.js.Consumer(t.Context(), "PAWL_START", ConsumerStart)
		return err == nil && c.CachedInfo().NumWaiting == 1
	})
	n.Stop()
	if err := <-failed; !errors.Is(err, worker.ErrUnavailable) {
		t.Errorf("fetch while the server went away: %v", err)
	}
	n.Start()
	natstest.Await(t, "the connection", f.nc.IsConnected)
	f.publish("pawl.start.sink", map[string]string{"Pawl-Run-Id": "r"}, `{}`)
	if m := f.fetch1(ConsumerStart); m.Run != "r" {
		t.Errorf("fetched %+v", m)
	}
}

// TestFetchInTurn has two workers wait: the broker deals out to both in turn,
// however few messages there are, and whoever fetches first.
func TestFetchInTurn(t *testing.T) {
	t.Parallel()
	f := one(t)
	workers := []*Queue{f.q, opened(t, f.nc, brisk())}
	const n = 40
	fetch := func(q *Queue) int {
		msgs, err := q.Source.Fetch(t.Context(), ConsumerStart, 100, time.Minute)
		if err != nil {
			t.Error(err)
		}
		for _, m := range msgs {
			if err := m.Ack(); err != nil {
				t.Error(err)
			}
		}
		return len(msgs)
	}
	var got [2]int
	var first sync.WaitGroup
	for i, q := range workers {
		first.Go(func() { got[i] = fetch(q) })
	}
	natstest.Await(t, "both pulls", func() bool {
		c, err := f.q.link.js.Consumer(t.Context(), "PAWL_START", ConsumerStart)
		return err == nil && c.CachedInfo().NumWaiting == 2
	})
	for i := range n {
		f.publish("pawl.start.sink", map[string]string{"Pawl-Run-Id": fmt.Sprint(i)}, `{}`)
	}
	first.Wait()
	for i, q := range workers {
		for got[i] < n/2 {
			got[i] += fetch(q)
		}
	}
	if got != [2]int{n / 2, n / 2} {
		t.Errorf("got %v of %d, want half each", got, n)
	}
}

// TestFetchGivenUpBetweenFetches returns what came for a fetch that had
// returned: who makes no more gets nothing more.
func TestFetchGivenUpBetweenFetches(t *testing.T) {
	t.Parallel()
	f := newFleet(t, natstest.One(t).Conn(), Topology{AckWait: time.Hour}, brisk())
	publish := func(run string) {
		f.publish("pawl.start.sink", map[string]string{"Pawl-Run-Id": run}, `{}`)
	}
	publish("first")
	if msgs, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 10, time.Minute); err != nil || len(msgs) != 1 {
		t.Fatalf("fetch: %d messages, %v", len(msgs), err)
	}
	publish("second") // for the pull that is open
	over := contextEnded(t)
	runs := map[string]bool{}
	for {
		msgs, _ := f.q.Source.Fetch(over, ConsumerStart, 10, time.Minute)
		if len(msgs) == 0 {
			break
		}
		for _, m := range msgs {
			runs[m.Run] = true
		}
	}
	publish("third")
	if msgs, err := f.q.Source.Fetch(over, ConsumerStart, 10, time.Minute); len(msgs) != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("fetch: %d messages, %v", len(msgs), err)
	}
	other := opened(t, f.nc, brisk())
	for !runs["second"] || !runs["third"] {
		msgs, err := other.Source.Fetch(t.Context(), ConsumerStart, 10, 10*time.Second)
		if err != nil || len(msgs) == 0 {
			t.Fatalf("another gets %d messages, %v, after %v", len(msgs), err, runs)
		}
		for _, m := range msgs {
			runs[m.Run] = true
		}
	}
}

// TestFetchWithoutALeader has the one node stop that has a consumer, while the
// others answer: an election takes its time, so for a while that is no trouble
// to tell of, and each fetch takes the time it was given.
func TestFetchWithoutALeader(t *testing.T) {
	t.Parallel()
	c := natstest.Three(t)
	f := newFleet(t, c.Conn(), Topology{}, brisk())
	hasty := opened(t, f.nc, brisk())
	f.none(ConsumerStart)
	if _, err := hasty.Source.Fetch(t.Context(), ConsumerStart, 1, 0); err != nil {
		t.Fatal(err)
	}
	hasty.link.opts.Patience = time.Millisecond // only now: it is less than opening and the first fetch take
	n := c.Leader("PAWL_START")
	n.Stop()
	natstest.Await(t, "the connection", func() bool { return f.nc.IsConnected() && f.nc.FlushTimeout(time.Second) == nil })
	const wait = 300 * time.Millisecond
	for range 3 {
		began := time.Now()
		if msgs, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 1, wait); err != nil || len(msgs) != 0 || time.Since(began) < wait {
			t.Errorf("fetch: %d messages, %v, after %v", len(msgs), err, time.Since(began))
		}
	}
	if _, err := hasty.Source.Fetch(t.Context(), ConsumerStart, 1, wait); !errors.Is(err, worker.ErrUnavailable) {
		t.Errorf("fetch without patience: %v", err)
	}
	n.Start()
	natstest.Await(t, "the start", func() bool {
		_, _ = f.q.link.js.PublishMsg(t.Context(), &nats.Msg{Subject: "pawl.start.sink", Header: nats.Header{"Pawl-Run-Id": {"r"}}, Data: []byte(`{}`)})
		msgs, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 1, wait)
		return err == nil && len(msgs) > 0 && msgs[0].Run == "r"
	})
}

// TestFetchFromAStreamMadeAnew makes ids of the new incarnation, since the
// sequences begin again.
func TestFetchFromAStreamMadeAnew(t *testing.T) {
	t.Parallel()
	f := one(t)
	f.publish("pawl.start.sink", nil, `{}`)
	before := f.fetch1(ConsumerStart)
	if err := f.q.link.js.DeleteStream(t.Context(), "PAWL_START"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 1, 0); !errors.Is(err, ErrMissing) {
		t.Errorf("fetch from a stream that is gone: %v", err)
	}
	provisioned(t, f.nc, Topology{})
	f.publish("pawl.start.sink", nil, `{}`)
	after := f.fetch1(ConsumerStart)
	if before.Seq != after.Seq || before.Run == after.Run {
		t.Errorf("sequences %d and %d made runs %s and %s", before.Seq, after.Seq, before.Run, after.Run)
	}
}

func TestFetchFromNobody(t *testing.T) {
	t.Parallel()
	f := one(t)
	if _, err := f.q.Source.Fetch(t.Context(), "starts", 1, 0); err == nil {
		t.Error("fetch from a consumer that no fleet has gave no error")
	}
}

// contextEnded is a context that has ended.
func contextEnded(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestFetchNeverReturnsMoreThanAsked has a pull for ten be open when three are
// asked for, and the connection break, or the caller give up: what is more
// comes with the next fetch, long before its AckWait is over.
func TestFetchNeverReturnsMoreThanAsked(t *testing.T) {
	t.Parallel()
	const many = 10
	setup := func(t *testing.T) (*fleet, *Queue, *natstest.Proxy) {
		n := natstest.One(t)
		f := newFleet(t, n.Conn(), Topology{AckWait: time.Hour}, brisk())
		proxy := natstest.NewProxy(t, n.Addr())
		nc, err := Connect(Config{URL: proxy.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		q := opened(t, nc, brisk())
		if msgs, err := q.Source.Fetch(t.Context(), ConsumerStart, 1, 0); err != nil || len(msgs) != 0 {
			t.Fatalf("fetch of nothing: %v, %v", msgs, err)
		}
		for i := range many {
			f.publish("pawl.start.sink", map[string]string{"Pawl-Run-Id": fmt.Sprint(i)}, `{}`)
		}
		p, _, err := q.Source.puller(ConsumerStart, "PAWL_START", many)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.request(2*many, time.Minute); err != nil {
			t.Fatal(err)
		}
		natstest.Await(t, "the messages", func() bool { return len(p.msgs) >= many })
		q.Source.release(ConsumerStart, p, true)
		return f, q, proxy
	}
	all := func(t *testing.T, q *Queue, seen map[string]bool) {
		t.Helper()
		for len(seen) < many {
			msgs, err := q.Source.Fetch(t.Context(), ConsumerStart, 3, 5*time.Second)
			if err != nil || len(msgs) == 0 || len(msgs) > 3 {
				t.Fatalf("fetch: %d messages after %d, %v", len(msgs), len(seen), err)
			}
			for _, m := range msgs {
				if seen[m.Run] {
					t.Errorf("run %s came twice", m.Run)
				}
				seen[m.Run] = true
				if err := m.Ack(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	t.Run("disconnected", func(t *testing.T) {
		t.Parallel()
		f, q, proxy := setup(t)
		cut := q.link.mux.broken()
		proxy.Cut()
		<-cut
		natstest.Await(t, "the connection", q.link.nc.IsConnected)
		all(t, q, map[string]bool{})
		natstest.Await(t, "all to be acked", func() bool { return f.messages(streamStart) == 0 })
	})
	t.Run("given up", func(t *testing.T) {
		t.Parallel()
		_, q, _ := setup(t)
		seen := map[string]bool{}
		for range 4 {
			ctx := contextEnded(t)
			msgs, err := q.Source.Fetch(ctx, ConsumerStart, 3, time.Minute)
			if len(msgs) > 3 || len(msgs) == 0 && err == nil {
				t.Fatalf("fetch given up: %d messages, %v", len(msgs), err)
			}
			for _, m := range msgs {
				seen[m.Run] = true
			}
		}
		all(t, q, seen)
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		f, q, _ := setup(t)
		if err := q.Source.close(); err != nil {
			t.Fatal(err)
		}
		all(t, f.q, map[string]bool{})
	})
	t.Run("closed with a surplus", func(t *testing.T) {
		t.Parallel()
		f, q, _ := setup(t)
		ctx := contextEnded(t)
		seen := map[string]bool{}
		msgs, err := q.Source.Fetch(ctx, ConsumerStart, 3, time.Minute)
		if len(msgs) > 3 {
			t.Fatalf("fetch given up: %d messages, %v", len(msgs), err)
		}
		for _, m := range msgs {
			seen[m.Run] = true
		}
		if err := q.Source.close(); err != nil {
			t.Fatal(err)
		}
		all(t, f.q, seen)
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		_, q, _ := setup(t)
		for _, n := range []int{0, -1} {
			if msgs, err := q.Source.Fetch(t.Context(), ConsumerStart, n, 0); err != nil || len(msgs) != 0 {
				t.Errorf("fetch of %d: %d messages, %v", n, len(msgs), err)
			}
		}
		all(t, q, map[string]bool{})
	})
}
