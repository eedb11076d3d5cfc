package natsqueue

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/statemachine"
)

// What waits, and since when, is seen for each consumer, and letters are
// counted without their index.
func TestBacklog(t *testing.T) {
	t.Parallel()
	f := newFleet(t, natstest.One(t).Conn(), Topology{Limits: Limits{StartBytes: 1 << 20, SignalMsgs: 9}}, brisk())
	for range 3 {
		f.publish("pawl.start.m", nil, "{}")
	}
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
	natstest.Await(t, "the timer", func() bool {
		var err error
		if b, err = f.q.Backlog(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range b.Consumers {
			if c.Name == ConsumerDue && c.Pending == 1 {
				return true
			}
		}
		return false
	})
	want := []ConsumerState{
		{Name: "due", Pending: 1}, {Name: "effect-http+post", Pending: 1}, {Name: "effect-noop"}, {Name: "event"}, {Name: "signal"},
		{Name: "start", Pending: 1, InFlight: 2},
	}
	byName := cmpopts.SortSlices(func(a, b ConsumerState) bool { return a.Name < b.Name })
	if diff := cmp.Diff(want, b.Consumers, byName, cmpopts.IgnoreFields(ConsumerState{}, "Oldest")); diff != "" {
		t.Errorf("consumers (-want +got):\n%s", diff)
	}
	for _, c := range b.Consumers {
		waits := c.Pending+c.InFlight > 0
		if waits != (c.Oldest > 0) || c.Oldest > time.Minute {
			t.Errorf("%s: %d pending, %d in flight, oldest %s", c.Name, c.Pending, c.InFlight, c.Oldest)
		}
	}
	if diff := cmp.Diff(map[string]int{"effect": 2}, b.Letters); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	streams := map[string]StreamState{}
	for _, s := range b.Streams {
		streams[s.Name] = s
	}
	if len(streams) != len(streamNames) {
		t.Errorf("%d streams, want %d", len(streams), len(streamNames))
	}
	if s := streams[streamStart]; s.Messages != 3 || s.Bytes == 0 || s.MaxBytes != 1<<20 {
		t.Errorf("START: %+v", s)
	}
	if s := streams[streamSignal]; s.MaxMessages != 9 || s.Messages != 0 {
		t.Errorf("SIGNAL: %+v", s)
	}
	if s := streams[streamHistory]; s.MaxBytes != 0 || s.MaxMessages != 0 {
		t.Errorf("HISTORY has limits: %+v", s)
	}
}
