package natsqueue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
)

// TestTriesAreTheFleets has a producer forge them: they are what the fleet
// counted, and go with no message or letter.
func TestTriesAreTheFleets(t *testing.T) {
	t.Parallel()
	f := one(t)
	forged := map[string]string{"Pawl-Tries": "99", "pawl-tries": "98", "PAWL-TRIES": "97", "X": "kept"}
	clean := func(h map[string]string) bool { return len(h) == 1 && h["X"] == "kept" }
	f.publish("pawl.start.sink", forged, `{}`)
	f.publish("pawl.signal.r.go", forged, `{}`)
	for _, consumer := range []string{ConsumerStart, ConsumerSignal} {
		m := f.fetch1(consumer)
		if m.Tries != 0 || !clean(m.Headers) {
			t.Errorf("%s: %d tries, headers %v", consumer, m.Tries, m.Headers)
		}
		m.Headers = forged // nor if somebody puts them back
		if err := f.q.Source.Postpone(t.Context(), m, time.Now(), 3); err != nil {
			t.Fatal(err)
		}
		again := f.fetch1(ConsumerDue)
		if again.Tries != 3 || !clean(again.Headers) || again.Kind != m.Kind {
			t.Errorf("%s postponed: %d tries, headers %v", consumer, again.Tries, again.Headers)
		}
		if err := again.Ack(); err != nil {
			t.Fatal(err)
		}
		for _, l := range []deadletter.Letter{
			{ID: consumer, Headers: forged},
			{ID: consumer + " large", Headers: forged, Run: strings.Repeat("r", 2*mostLetterHeader)},
		} {
			if err := f.q.Source.DeadLetter(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := f.letters()
	if len(all) != 4 {
		t.Errorf("%d letters, want 4", len(all))
	}
	for _, l := range all {
		if !clean(l.Headers) {
			t.Errorf("letter %s has headers %v", l.ID, l.Headers)
		}
	}
	f.publishAll(effectItem("r", "E", 1))
	if m := f.fetch1(EffectConsumer("http.post")); m.Tries != 0 {
		t.Errorf("an effect has %d tries", m.Tries)
	}
}

// TestPostponedWakesMerge postpones copies of the same wake-up, each with a
// sequence and a count of its own: one comes again. Those of another effect,
// try or kind are others.
func TestPostponedWakesMerge(t *testing.T) {
	t.Parallel()
	f := one(t)
	const copies = 4
	take := func(consumer string, n int) []queue.Message {
		t.Helper()
		var all []queue.Message
		for len(all) < n {
			msgs, err := f.q.Source.Fetch(t.Context(), consumer, 100, 10*time.Second)
			if err != nil || len(msgs) == 0 {
				t.Fatalf("fetch from %s: %d of %d, %v", consumer, len(all), n, err)
			}
			all = append(all, msgs...)
		}
		return all
	}
	for i := range uint64(copies) {
		f.publishAll(effectItem("r", "E", i+1), timerItem("r", "E", 1, time.Now(), i+1))
		for _, m := range take(ConsumerDue, 1) { // a schedule that is pending would replace
			if err := f.q.Source.Postpone(t.Context(), m, time.Now().Add(time.Second), int(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.publishAll(effectItem("r", "F", 1), effectItem("r2", "E", 1), timerItem("r", "E", 2, time.Now(), 1))
	for i, m := range append(take(EffectConsumer("http.post"), copies+2), take(ConsumerDue, 1)...) {
		if err := f.q.Source.Postpone(t.Context(), m, time.Now().Add(time.Second), i+1); err != nil {
			t.Fatal(err)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	for _, m := range take(ConsumerDue, 5) {
		seen[fmt.Sprint(m.Kind, m.Run, m.ID, m.Try)]++
	}
	if len(seen) != 5 {
		t.Errorf("came again: %v", seen)
	}
	f.none(ConsumerDue)
}

// TestPostponedMessagesOfAStreamMadeAnew have the same places, and replace no
// others.
func TestPostponedMessagesOfAStreamMadeAnew(t *testing.T) {
	t.Parallel()
	f := one(t)
	for range 2 {
		f.publish("pawl.signal.r.go", nil, `{}`)
		m := f.fetch1(ConsumerSignal)
		for tries := range 3 { // as often as it likes
			if err := f.q.Source.Postpone(t.Context(), m, time.Now().Add(time.Hour), tries); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.q.link.js.DeleteStream(t.Context(), "PAWL_SIGNAL"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.q.Source.Fetch(t.Context(), ConsumerSignal, 1, 0); !errors.Is(err, ErrMissing) {
			t.Errorf("fetch from a stream that is gone: %v", err)
		}
		provisioned(t, f.nc, Topology{})
	}
	if n := f.messages(streamTimers); n != 2 {
		t.Errorf("%d messages are postponed, want 2", n)
	}
}

// TestStoredWhilePostponed finds a message that was postponed, so that the
// sweep makes no further copy of it.
func TestStoredWhilePostponed(t *testing.T) {
	t.Parallel()
	f := one(t)
	items := []outbox.Item{effectItem("r", "E", 1), timerItem("r", "E", 2, time.Now(), 1)}
	f.publishAll(items...)
	stored := func(want bool) bool {
		t.Helper()
		got, err := f.q.Publisher.Stored(t.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		return got[0] == want && got[1] == want
	}
	for _, m := range []queue.Message{f.fetch1(EffectConsumer("http.post")), f.fetch1(ConsumerDue)} {
		if err := f.q.Source.Postpone(t.Context(), m, time.Now().Add(time.Second), 1); err != nil {
			t.Fatal(err)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Await(t, "the originals to be gone", func() bool { return f.messages(streamEffects) == 0 && f.messages(streamTimers) == 2 })
	if !stored(true) {
		t.Error("what is postponed is not stored")
	}
	next := func() queue.Message { // both may be due in the same tick of the server
		t.Helper()
		msgs, err := f.q.Source.Fetch(t.Context(), ConsumerDue, 1, 10*time.Second)
		if err != nil || len(msgs) != 1 {
			t.Fatalf("fetch one from due: %d messages, %v", len(msgs), err)
		}
		return msgs[0]
	}
	msgs := []queue.Message{next()}
	if !stored(true) {
		t.Error("what is due is not stored")
	}
	msgs = append(msgs, next())
	for _, m := range msgs {
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Await(t, "them to be gone", func() bool { return stored(false) })
}
