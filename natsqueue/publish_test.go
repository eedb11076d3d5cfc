package natsqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

func effectItem(run, id string, seq uint64) outbox.Item {
	return outbox.Item{Run: run, Machine: "sink", Seq: seq, Entry: statemachine.Entry{Kind: statemachine.EntryEffect, ID: id, Effect: "http.post"}}
}

func timerItem(run, id string, try int, at time.Time, seq uint64) outbox.Item {
	return outbox.Item{Run: run, Machine: "sink", Seq: seq, Entry: statemachine.Entry{Kind: statemachine.EntryTimer, ID: id, Effect: "http.post", Try: try, Due: &at}}
}

// publishAll publishes items that must all be stored.
func (f *fleet) publishAll(items ...outbox.Item) {
	f.t.Helper()
	for i, err := range f.q.Publisher.Publish(f.t.Context(), items) {
		if err != nil {
			f.t.Fatalf("publish item %d: %v", i, err)
		}
	}
}

func TestPublishEffects(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		runs := append(slices.Clone(oddRuns), strings.Repeat("z", 250))
		var items []outbox.Item
		for i, run := range runs {
			items = append(items, effectItem(run, fmt.Sprint("E", i), uint64(100+i)))
		}
		f.publishAll(items...)
		seen := map[string]bool{}
		for len(seen) < len(runs) {
			msgs, err := f.q.Source.Fetch(t.Context(), EffectConsumer("http.post"), 100, 10*time.Second)
			if err != nil || len(msgs) == 0 {
				t.Fatalf("fetch: %d messages, %v", len(msgs), err)
			}
			for _, m := range msgs {
				i := slices.Index(runs, m.Run)
				if i < 0 || m.Fault != nil || m.Kind != queue.Effect || m.Name != "http.post" || m.ID != fmt.Sprint("E", i) || m.Asked != uint64(100+i) {
					t.Errorf("message of run %q: %+v", m.Run, m)
				}
				seen[m.Run] = true
				if err := m.Ack(); err != nil {
					t.Fatal(err)
				}
			}
		}
		f.none(EffectConsumer("noop"))
	})
}

// TestPublishTimers arms timers, and none fires before its time, loses what it
// carries, or fires twice.
func TestPublishTimers(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		now := time.Now()
		want := map[string]time.Time{}
		var items []outbox.Item
		for i, run := range oddRuns {
			// Not on whole seconds: a time that is cut would be early.
			at := now.Add(time.Second + time.Duration(i)*77_777_777)
			want[run] = at
			items = append(items, timerItem(run, "E", i+1, at, uint64(200+i)))
		}
		f.publishAll(items...)
		f.publishAll(items...) // again: it replaces
		for fired := 0; fired < len(oddRuns); {
			msgs, err := f.q.Source.Fetch(t.Context(), ConsumerDue, 100, 10*time.Second)
			if err != nil || len(msgs) == 0 {
				t.Fatalf("fetch: %d messages, %v, after %d fired", len(msgs), err, fired)
			}
			for _, m := range msgs {
				i := slices.Index(oddRuns, m.Run)
				if i < 0 || m.Fault != nil || m.Kind != queue.Due || m.ID != "E" || m.Try != i+1 || m.Name != "http.post" || m.Asked != uint64(200+i) {
					t.Errorf("due message: %+v", m)
				}
				if m.Time.Before(want[m.Run]) {
					t.Errorf("run %q: fired %v early", m.Run, want[m.Run].Sub(m.Time))
				}
				delete(want, m.Run)
				fired++
				if err := m.Ack(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(want) > 0 {
			t.Errorf("did not fire: %v", want)
		}
		natstest.Await(t, "no schedule to be left", func() bool {
			info, err := f.q.link.streamInfo(t.Context(), streamTimers)
			return err == nil && info.State.Msgs == 0
		})
	})
}

// TestTimersSurviveARestart has one timer become due while the server is away.
func TestTimersSurviveARestart(t *testing.T) {
	t.Parallel()
	n := natstest.One(t)
	f := newFleet(t, n.Conn(), Topology{}, brisk())
	f.publishAll(timerItem("soon", "E", 1, time.Now().Add(50*time.Millisecond), 1), timerItem("later", "E", 1, time.Now().Add(2*time.Second), 1))
	n.Stop()
	n.Start()
	natstest.Await(t, "the connection", f.nc.IsConnected)
	var runs []string
	for len(runs) < 2 {
		msgs, err := f.q.Source.Fetch(t.Context(), ConsumerDue, 10, 10*time.Second)
		if err != nil || len(msgs) == 0 {
			t.Fatalf("fetch: %v after %v", err, runs)
		}
		for _, m := range msgs {
			runs = append(runs, m.Run)
		}
	}
	slices.Sort(runs)
	if !slices.Equal(runs, []string{"later", "soon"}) {
		t.Errorf("fired: %v", runs)
	}
}

// TestPublishByBatch publishes as batches what may be, with some in it that
// no batch takes.
func TestPublishByBatch(t *testing.T) {
	t.Parallel()
	opts := brisk()
	opts.Group = GroupAlways
	f := newFleet(t, natstest.One(t).Conn(), Topology{}, opts)
	letter, err := json.Marshal(statemachine.Letter{ID: "L", Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	var items []outbox.Item
	for i := range 2500 {
		items = append(items, effectItem(fmt.Sprint("run ", i), "E", 1), timerItem(fmt.Sprint("run ", i), "E", 1, time.Now().Add(time.Hour), 1))
	}
	items = append(items, outbox.Item{Run: "r", Entry: statemachine.Entry{Kind: statemachine.EntryLetter, ID: "L", Body: letter}}, effectItem("r", "", 1))
	for i, err := range f.q.Publisher.Publish(t.Context(), items) {
		if good := i < len(items)-1; (err == nil) != good {
			t.Errorf("publish item %d: %v", i, err)
		}
	}
	for stream, want := range map[string]uint64{streamEffects: 2500, streamTimers: 2500, streamDLQ: 2} {
		if info, err := f.q.link.streamInfo(t.Context(), stream); err != nil || info.State.Msgs != want {
			t.Errorf("%s has %d messages, want %d (%v)", stream, info.State.Msgs, want, err)
		}
	}
	timers := timerItem("soon", "E", 1, time.Now(), 1)
	batch := []outbox.Item{timers}
	for i := range leastBatch {
		batch = append(batch, timerItem("soon", "E", i+2, time.Now(), 1))
	}
	f.publishAll(batch...)
	for fired := 0; fired < len(batch); {
		msgs, err := f.q.Source.Fetch(t.Context(), ConsumerDue, 100, 10*time.Second)
		if err != nil || len(msgs) == 0 {
			t.Fatalf("fetch: %v after %d fired", err, fired)
		}
		fired += len(msgs)
	}
}

func TestPublishRefusesWhatNoQueueTakes(t *testing.T) {
	t.Parallel()
	f := one(t)
	items := []outbox.Item{
		effectItem("r", "", 1),
		{Run: "r", Entry: statemachine.Entry{Kind: statemachine.EntryEffect, ID: "E", Effect: "No Name"}},
		{Run: "r", Entry: statemachine.Entry{Kind: statemachine.EntryTimer, ID: "E"}},
		{Run: "r", Entry: statemachine.Entry{Kind: statemachine.EntryLetter, ID: "E", Body: json.RawMessage(`[`)}},
		{Run: "r", Entry: statemachine.Entry{Kind: "other", ID: "E"}},
		effectItem("r", "E", 1),
	}
	for i, err := range f.q.Publisher.Publish(t.Context(), items) {
		if good := i == len(items)-1; (err == nil) != good {
			t.Errorf("publish item %d: %v", i, err)
		}
	}
}

func TestStored(t *testing.T) {
	t.Parallel()
	f := one(t)
	there := []outbox.Item{effectItem("a.b", "E", 1), timerItem("r", "E", 1, time.Now().Add(time.Hour), 1), timerItem("r", "F", 1, time.Now(), 1)}
	gone := []outbox.Item{effectItem("a.b", "F", 1), timerItem("r", "E", 2, time.Now().Add(time.Hour), 1), {Run: "r", Entry: statemachine.Entry{Kind: statemachine.EntryLetter, ID: "L"}}}
	f.publishAll(there...)
	check := func(items []outbox.Item, want ...bool) {
		t.Helper()
		got, err := f.q.Publisher.Stored(t.Context(), items)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("stored = %v, %v, want %v", got, err, want)
		}
	}
	check(append(slices.Clone(there), gone...), true, true, true, false, false, false)
	m := f.fetch1(ConsumerDue) // fired, and still stored until it is acked
	check(there, true, true, true)
	e := f.fetch1(EffectConsumer("http.post"))
	check(there, true, true, true)
	if err := errors.Join(m.Ack(), e.Ack()); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the acked ones to be gone", func() bool {
		got, err := f.q.Publisher.Stored(t.Context(), there)
		return err == nil && slices.Equal(got, []bool{false, true, false})
	})
}

// TestPostpone postpones messages of all kinds, twice, and they come again as
// they were.
func TestPostpone(t *testing.T) {
	t.Parallel()
	f := one(t)
	s := f.q.link.subj
	f.publish(s.start("sink"), map[string]string{"traceparent": "00-1", "X-Odd": "a: b\xff"}, "{\n}")
	f.publish(s.start("sink"), map[string]string{"Pawl-Run-Id": "r 1", "Pawl-Machine-Version": "7", "Pawl-Priority": "high", "Pawl-Tenant": "Żółw & co"}, ``)
	f.publish(s.signal("a.b", "go"), nil, `{}`)
	f.publish(s.event("a.b"), map[string]string{"Pawl-Event-Id": "e"}, `{}`)
	f.publishAll(effectItem("合同", "E", 9), timerItem("r", "E", 3, time.Now(), 9))
	consumers := map[string]int{ConsumerStart: 2, ConsumerSignal: 1, ConsumerEvent: 1, EffectConsumer("http.post"): 1, ConsumerDue: 1}
	type key struct {
		subject string
		seq     uint64
	}
	want := map[key]queue.Message{}
	for consumer, n := range consumers {
		for got := 0; got < n; {
			msgs, err := f.q.Source.Fetch(t.Context(), consumer, 10, 10*time.Second)
			if err != nil || len(msgs) == 0 {
				t.Fatalf("fetch from %s: %d messages, %v", consumer, len(msgs), err)
			}
			for _, m := range msgs {
				got++
				want[key{m.Subject, m.Seq}] = m
			}
		}
	}
	at := map[key]time.Time{}
	later := func(m queue.Message, tries int) {
		k := key{m.Subject, m.Seq}
		at[k] = time.Now().Add(300 * time.Millisecond)
		for range 2 { // the same postponement again is one
			if err := f.q.Source.Postpone(t.Context(), m, at[k], tries); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range want {
		later(m, 1)
	}
	for tries := 1; tries <= 2; tries++ {
		for got := 0; got < len(want); {
			msgs, err := f.q.Source.Fetch(t.Context(), ConsumerDue, 10, 10*time.Second)
			if err != nil || len(msgs) == 0 {
				t.Fatalf("fetch what was postponed: %d messages, %v", len(msgs), err)
			}
			for _, m := range msgs {
				k := key{m.Subject, m.Seq}
				if m.Time.Before(at[k]) {
					t.Errorf("%v came %v early", k, at[k].Sub(m.Time))
				}
				if m.Tries != tries {
					t.Errorf("%v has %d tries, want %d", k, m.Tries, tries)
				}
				if diff := diffMessage(want[k], m); diff != "" {
					t.Errorf("%v changed (-before +after):\n%s", k, diff)
				}
				got++
				if tries == 1 {
					later(m, 2)
				}
			}
		}
	}
}

// diffMessage compares what a message says, not how it was delivered.
func diffMessage(a, b queue.Message) string {
	strip := func(m queue.Message) queue.Message {
		m.Time, m.Tries, m.Behind, m.Delivered, m.Delivery = time.Time{}, 0, 0, 0, nil
		if len(m.Headers) == 0 {
			m.Headers = nil
		}
		return m
	}
	return cmp.Diff(strip(a), strip(b))
}

func TestPostponeTheLargestStart(t *testing.T) {
	t.Parallel()
	f := one(t)
	header := map[string]string{"Pawl-Run-Id": "r", "X-Much": strings.Repeat("h", 60<<10)}
	body := strings.Repeat("b", outsideMsgSize-61<<10)
	f.publish("pawl.start.sink", header, body)
	m := f.fetch1(ConsumerStart)
	if err := f.q.Source.Postpone(t.Context(), m, time.Now(), 1); err != nil {
		t.Fatal(err)
	}
	got := f.fetch1(ConsumerDue)
	if string(got.Body) != body || got.Headers["X-Much"] != header["X-Much"] || got.Run != "r" {
		t.Errorf("it came again with %d bytes, want %d", len(got.Body), len(body))
	}
}
