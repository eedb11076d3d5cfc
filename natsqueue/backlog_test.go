package natsqueue

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// What waits, and since when, is seen for each consumer, and letters are
// counted without their index.
func TestBacklog(t *testing.T) {
	t.Parallel()
	f := newFleet(t, natstest.One(t).Conn(), Topology{}, brisk())
	for range 3 {
		f.publish("pawl.start.m", nil, "{}")
	}
	in := queue.Line{Priority: queue.Low, Class: 2}
	f.publish(f.q.link.subj.line(in, "m"), nil, "{}")
	taken, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 2, time.Second)
	if err != nil || len(taken) == 0 {
		t.Fatalf("fetch: %d messages, %v", len(taken), err)
	}
	due := time.Now().Add(50 * time.Millisecond)
	for i, err := range f.q.Publisher.Publish(t.Context(), []outbox.Item{
		{Run: "a", Seq: 1, Entry: statemachine.Entry{Kind: statemachine.EntryEffect, ID: "E-1", Effect: "http.post"}},
		{Run: "a", Seq: 1, Entry: statemachine.Entry{Kind: statemachine.EntryTimer, ID: "E-2", Effect: "noop", Due: &due, Try: 1}},
		letterItem(t, "a", "L-1", nil), letterItem(t, "b", "L-2", nil),
	}) {
		if err != nil {
			t.Fatalf("publish item %d: %v", i, err)
		}
	}
	var b Backlog
	waiting := map[string]int{}
	natstest.Await(t, "the timer", func() bool {
		var err error
		if b, err = f.q.Backlog(t.Context()); err != nil {
			t.Fatal(err)
		}
		clear(waiting)
		for _, s := range b.Streams {
			for _, c := range s.Consumers {
				waiting[c.Name] = int(c.Lag) + c.InHand
			}
		}
		return waiting[ConsumerDue] == 1
	})
	want := map[string]int{"due": 1, "effect-http+post": 1, "effect-noop": 0, "event": 0, "result": 0, "signal": 0, "start": 3}
	for _, l := range queue.Lines() {
		want[l.Consumer()] = 0
	}
	want[in.Consumer()] = 1
	if diff := cmp.Diff(want, waiting); diff != "" {
		t.Errorf("what waits (-want +got):\n%s", diff)
	}
	for name, n := range waiting {
		if old := b.Oldest[name]; n > 0 != (old > 0) || old > time.Minute {
			t.Errorf("%s: %d wait, oldest %s", name, n, old)
		}
	}
	// The schedule of a timer is older than what it fires, and waits for nobody.
	if b.Oldest["due"] >= b.Oldest["effect-http+post"] {
		t.Errorf("the timer that has fired is %s old, the effect asked before it %s", b.Oldest["due"], b.Oldest["effect-http+post"])
	}
	if diff := cmp.Diff(map[string]int{"effect": 2}, b.Letters); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	if len(b.Streams) != len(streamNames) {
		t.Errorf("%d streams, want %d", len(b.Streams), len(streamNames))
	}
	if name := f.q.Name(b.Streams[0].Name); name != streamStart {
		t.Errorf("the first stream is %s", name)
	}
}
