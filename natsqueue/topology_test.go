package natsqueue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
)

func lines(changes []Change) string {
	var all []string
	for _, c := range changes {
		all = append(all, c.String())
	}
	return strings.Join(all, "\n")
}

func TestProvisionIsIdempotent(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]struct {
		conn func(*testing.T) *nats.Conn
		n    int
	}{
		"one replica":    {func(t *testing.T) *nats.Conn { return natstest.One(t).Conn() }, 1},
		"three replicas": {func(t *testing.T) *nats.Conn { return natstest.Three(t).Conn() }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := start.conn(t)
			want := Topology{Replicas: start.n, Effects: []string{"noop", "http.post", "noop"}}
			plan, err := Plan(t.Context(), nc, want)
			if err != nil || len(plan) != len(streamNames)+5+len(queue.Lines())+2 {
				t.Fatalf("plan for nothing = %v, %v", lines(plan), err)
			}
			made, err := Provision(t.Context(), nc, want)
			if err != nil || lines(made) != lines(plan) {
				t.Fatalf("provision = %v, %v, want what was planned", lines(made), err)
			}
			first := opened(t, nc, brisk())
			id, err := first.Incarnation(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Provision(t.Context(), nc, want); err != nil || len(again) != 0 {
				t.Errorf("provision again = %v, %v, want nothing", lines(again), err)
			}
			want.Effects = append(want.Effects, "email.send")
			more, err := Provision(t.Context(), nc, want)
			if err != nil || lines(more) != "create consumer PAWL_EFFECTS/effect-email+send" {
				t.Errorf("provision one more = %v, %v", lines(more), err)
			}
			if same, err := opened(t, nc, brisk()).Incarnation(t.Context()); err != nil || same != id {
				t.Errorf("incarnation = %s, %v, want %s as before", same, err, id)
			}
		})
	}
}

func TestProvisionChangesAndHolds(t *testing.T) {
	t.Parallel()
	nc := natstest.One(t).Conn()
	had := Topology{Effects: []string{"noop"}, Limits: Limits{StartMsgs: 1000, DLQBytes: 1 << 20}}
	if _, err := Provision(t.Context(), nc, had); err != nil {
		t.Fatal(err)
	}
	id, err := opened(t, nc, brisk()).Incarnation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := had
	want.AckWait = 20 * time.Second
	want.Limits = Limits{StartMsgs: 500, DLQBytes: 2 << 20, HistoryBytes: 1 << 30}
	const grown = `change maximum bytes of stream PAWL_DLQ from 1048576 to 2097152
change ack wait of consumer PAWL_START/start from 10s to 20s
change ack wait of consumer PAWL_SIGNAL/signal from 10s to 20s
change ack wait of consumer PAWL_SIGNAL/result from 10s to 20s
change ack wait of consumer PAWL_EVENTS/event from 10s to 20s
change ack wait of consumer PAWL_TIMERS/due from 10s to 20s`
	const shrunk = `change maximum messages of stream PAWL_START from 1000 to 500 (not made: it would shrink; allow it if you mean it)
change maximum bytes of stream PAWL_HISTORY from none to 1073741824 (not made: it would shrink; allow it if you mean it)`
	both := func(got []Change) bool {
		for _, l := range strings.Split(grown+"\n"+shrunk, "\n") {
			if !strings.Contains("\n"+lines(got)+"\n", "\n"+l+"\n") {
				return false
			}
		}
		return len(got) == 8+len(queue.Lines())
	}
	plan, err := Plan(t.Context(), nc, want)
	if err != nil || !both(plan) {
		t.Errorf("plan = %v, %v", lines(plan), err)
	}
	made, err := Provision(t.Context(), nc, want)
	if err != nil || !both(made) {
		t.Errorf("provision = %v, %v", lines(made), err)
	}
	left, err := Plan(t.Context(), nc, want)
	if err != nil || lines(left) != shrunk {
		t.Errorf("left = %v, %v, want only what would shrink", lines(left), err)
	}
	want.Shrink = true
	if _, err := Provision(t.Context(), nc, want); err != nil {
		t.Fatalf("provision, shrinking: %v", err)
	}
	if left, err := Plan(t.Context(), nc, want); err != nil || len(left) != 0 {
		t.Errorf("left = %v, %v, want nothing", lines(left), err)
	}
	if same, err := opened(t, nc, brisk()).Incarnation(t.Context()); err != nil || same != id {
		t.Errorf("incarnation = %s, %v, want %s as before", same, err, id)
	}
}

func TestProvisionReportsWhatCannotChange(t *testing.T) {
	t.Parallel()
	nc := natstest.One(t).Conn()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PAWL_DLQ", Subjects: []string{"pawl.dlq.*.*"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	made, err := Provision(t.Context(), nc, Topology{})
	if err != nil {
		t.Fatalf("provision: %v", err)
	}
	if !strings.Contains(lines(made), "change storage of stream PAWL_DLQ from Memory to File (not made: it cannot be changed") {
		t.Errorf("provision = %v, want the storage held", lines(made))
	}
}

func TestTopologyIsChecked(t *testing.T) {
	t.Parallel()
	for _, topology := range []Topology{{Prefix: "a.b"}, {Replicas: -1}, {Replicas: 9}, {Effects: []string{"noop", "A"}}} {
		if _, err := Plan(t.Context(), nil, topology); err == nil {
			t.Errorf("Plan took %+v", topology)
		}
	}
}

// TestQueuesTakeOnlyWhatTheyAreFor publishes what must not get in.
func TestQueuesTakeOnlyWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	f := one(t)
	publish := func(subject string, size int) error {
		_, err := f.q.link.js.Publish(t.Context(), subject, make([]byte, size), jetstream.WithRetryAttempts(1))
		return err
	}
	for _, subject := range []string{"pawl.start.a.b", "pawl.start", "pawl.signal.run.a.b", "pawl.signal.run"} {
		if err := publish(subject, 1); !errors.Is(err, jetstream.ErrNoStreamResponse) {
			t.Errorf("publish on %s: %v, want no stream", subject, err)
		}
	}
	for _, subject := range []string{"pawl.start.sink", "pawl.signal.run.go"} {
		if err := publish(subject, 901<<10); err == nil {
			t.Errorf("publish of 901 KB on %s was taken", subject)
		}
		if err := publish(subject, 800<<10); err != nil {
			t.Errorf("publish of 800 KB on %s: %v", subject, err)
		}
	}
}

// TestTimersHaveNoLimit documents why: the broker refuses to discard new
// messages where there are schedules, and old ones would be timers.
func TestTimersHaveNoLimit(t *testing.T) {
	t.Parallel()
	f := one(t)
	for _, c := range (Topology{}).withDefaults().streams() {
		if c.Name != "PAWL_TIMERS" {
			continue
		}
		if c.MaxMsgs != -1 || c.MaxBytes != -1 || c.MaxAge != 0 {
			t.Errorf("TIMERS has limits: %+v", c)
		}
		c.Discard = jetstream.DiscardNew
		if _, err := f.q.link.js.UpdateStream(t.Context(), c); err == nil {
			t.Error("the broker takes DiscardNew on TIMERS now: use it")
		}
	}
}

// TestWorkQueuesRefuseASecondConsumer documents that one consumer has one
// filter, for ever.
func TestWorkQueuesRefuseASecondConsumer(t *testing.T) {
	t.Parallel()
	f := one(t)
	_, err := f.q.link.js.CreateConsumer(t.Context(), "PAWL_EFFECTS", jetstream.ConsumerConfig{
		Durable: "all", FilterSubject: "pawl.effect.>", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err == nil {
		t.Error("a catch-all consumer was made beside those of effect types")
	}
}
