package natsqueue

import (
	"context"
	"testing"
	"time"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// watched starts watching, until the test ends.
func watched(t *testing.T, q *Queue) *flow.Board {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- q.Flow.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch: %v", err)
		}
	})
	return q.Flow.Board()
}

// boards waits until a board says what is wanted of a subject.
func boards(t *testing.T, b *flow.Board, s flow.Subject, held bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		changed := b.Changed()
		if _, ok := b.Get(s); ok == held {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%s: held up is not %v", s, held)
		}
	}
}

// Notices are told to every process, are read by one that comes later, and the
// last word counts.
func TestNoticesReachEveryBoard(t *testing.T) {
	t.Parallel()
	server := natstest.One(t)
	a := newFleet(t, server.Conn(), Topology{}, brisk())
	b, err := Open(t.Context(), server.Conn(), brisk())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	early := watched(t, b)
	now := time.Now().UTC()
	notices := []flow.Notice{
		{Kind: flow.KindEffect, Effect: "http.post", Held: true, At: now, By: "anna", Reason: "why"},
		{Kind: flow.KindState, Machine: "sink", State: "perform", Held: true, At: now},
		{Kind: flow.KindKey, Effect: "http.post", Key: "api.example.com:443 *.>", Held: true, At: now, Until: now.Add(time.Hour)},
	}
	for _, n := range notices {
		if err := a.q.Flow.Post(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		boards(t, early, n.Subject(), true)
	}
	got, all, err := a.q.Flow.List(t.Context())
	if err != nil || !all || len(got) != 3 || got[0].By != "anna" || got[1].Key != notices[2].Key {
		t.Errorf("List = %+v, %v, %v", got, all, err)
	}
	c, err := Open(t.Context(), server.Conn(), brisk())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Flow.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range notices {
		boards(t, c.Flow.Board(), n.Subject(), true)
		n.Held, n.Until = false, time.Time{}
		if err := c.Flow.Post(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		boards(t, early, n.Subject(), false)
	}
	if err := a.q.Flow.Post(t.Context(), flow.Notice{Kind: "worker"}); err == nil {
		t.Error("a notice about nothing is posted")
	}
}

// A postponed effect goes back to the queue of its type as the message it was,
// and says how often it was postponed.
func TestRequeueGivesAnEffectBackToItsQueue(t *testing.T) {
	t.Parallel()
	f := one(t)
	for _, err := range f.q.Publisher.Publish(t.Context(), []outbox.Item{{Run: "r", Machine: "sink", Seq: 7, Entry: statemachine.Entry{Kind: statemachine.EntryEffect, ID: "E1", Effect: "http.post"}}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	consumer := EffectConsumer("http.post")
	m := f.fetch1(consumer)
	if err := m.Nak(0); err != nil {
		t.Fatal(err)
	}
	m = f.fetch1(consumer) // for the second time: somebody may have died of it
	if err := f.q.Source.Postpone(t.Context(), m, time.Now(), 3); err != nil {
		t.Fatal(err)
	}
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	due := f.fetch1(ConsumerDue)
	for _, err := range f.q.Source.Requeue(t.Context(), []queue.Message{due}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := due.Ack(); err != nil {
		t.Fatal(err)
	}
	again := f.fetch1(consumer)
	if again.Kind != queue.Effect || again.Run != m.Run || again.ID != m.ID || again.Asked != m.Asked || again.Name != m.Name || again.Tries != 3 || again.Delivered != 2 || again.Fault != nil {
		t.Errorf("came back as %+v, was %+v", again, m)
	}
}
