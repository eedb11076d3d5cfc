package natsqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// messages counts what a stream holds.
func (f *fleet) messages(stream string) uint64 {
	f.t.Helper()
	info, err := f.q.link.streamInfo(f.t.Context(), stream)
	if err != nil {
		f.t.Fatal(err)
	}
	return info.State.Msgs
}

// incarnation is a stream's.
func (f *fleet) incarnation(stream string) string {
	f.t.Helper()
	info, err := f.q.link.streamInfo(f.t.Context(), stream)
	if err != nil {
		f.t.Fatal(err)
	}
	return info.Config.Metadata[metaIncarnation]
}

// letters are all there are.
func (f *fleet) letters() []deadletter.Letter {
	f.t.Helper()
	var all []deadletter.Letter
	for l, err := range f.q.Letters.All(f.t.Context()) {
		if err != nil {
			f.t.Fatalf("letters: %v", err)
		}
		all = append(all, l)
	}
	return all
}

// letterItem is the entry of a letter in an outbox.
func letterItem(t *testing.T, run, id string, input json.RawMessage) outbox.Item {
	t.Helper()
	body, err := json.Marshal(statemachine.Letter{ID: id, Run: run, Machine: "sink", Input: input})
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Item{Run: run, Machine: "sink", Seq: 1, Entry: statemachine.Entry{Kind: statemachine.EntryLetter, ID: id, Body: body}}
}

// TestLettersAreOneForEver publishes letters again after the broker's own
// window, as the sweep does after a loss of Redis, and after their removal.
func TestLettersAreOneForEver(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		large := json.RawMessage(`"` + strings.Repeat("x", mostLetterBody) + `"`)
		publish := func() {
			t.Helper()
			f.publishAll(letterItem(t, "r", "E1:5", nil), letterItem(t, "r", "E2:5", large), letterItem(t, "r", "E1:5", nil))
			if err := f.q.Source.DeadLetter(t.Context(), deadletter.Letter{ID: "start-1-malformed", Kind: deadletter.KindStart, Source: "pawl.start.sink", Body: large}); err != nil {
				t.Fatal(err)
			}
		}
		publish()
		time.Sleep(3 * shortWindow)
		publish()
		all := f.letters()
		if len(all) != 3 {
			t.Fatalf("%d letters, want 3", len(all))
		}
		for seq := range f.messages(streamDLQ) {
			l, found, err := f.q.Letters.Get(t.Context(), seq+1)
			if err != nil || found && l.ID == "" {
				t.Errorf("get %d = %+v, %v", seq+1, l, err)
			}
			if !found { // an entry of the index, which is no letter
				if err := f.q.Letters.Remove(t.Context(), seq+1); err != nil {
					t.Errorf("remove of no letter: %v", err)
				}
			}
		}
		for _, l := range all {
			if err := f.q.Letters.Remove(t.Context(), l.Seq); err != nil {
				t.Fatal(err)
			}
		}
		publish()
		if all := f.letters(); len(all) != 0 {
			t.Errorf("%d letters came again after their removal", len(all))
		}
		if n := f.messages(streamBlobs); n != 0 {
			t.Errorf("%d chunks came again after their removal", n)
		}
		if n := f.messages(streamDLQ); n != 3 {
			t.Errorf("DLQ holds %d messages, want the index of 3", n)
		}
		m, err := f.q.link.lead(t.Context(), streamDLQ, map[string]any{"last_by_subj": f.q.link.subj.letterIndex(hashToken("E1:5"))})
		if err != nil || m == nil || m.headers().Get(headerTTL) != ttl(f.q.link.opts.LedgerTTL) {
			t.Errorf("entry of the index = %+v, %v", m, err)
		}
	})
}

func TestLettersRace(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		const n, ids = 24, 5
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				var items []outbox.Item
				for id := range ids {
					items = append(items, letterItem(t, "r", fmt.Sprint("E", id), nil))
				}
				for _, err := range f.q.Publisher.Publish(t.Context(), items) {
					if err != nil {
						t.Errorf("publish: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if all := f.letters(); len(all) != ids {
			t.Errorf("%d letters, want %d", len(all), ids)
		}
	})
}

// TestLetterWithALostAnswer loses the acknowledgement of a letter that was
// stored: the index says so.
func TestLetterWithALostAnswer(t *testing.T) {
	t.Parallel()
	lost := func(t *testing.T, direct *fleet, n *natstest.Node) {
		proxy := natstest.NewProxy(t, n.Addr())
		nc, err := Connect(Config{URL: proxy.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		opts := brisk()
		opts.Patience = time.Minute
		q := opened(t, nc, opts)
		proxy.Deafen()
		got := make(chan error, 1)
		go func() { got <- q.Publisher.Publish(t.Context(), []outbox.Item{letterItem(t, "r", "E1:5", nil)})[0] }()
		natstest.Await(t, "the letter to be stored", func() bool { return direct.messages(streamDLQ) == 2 })
		proxy.Cut()
		if err := <-got; err != nil {
			t.Errorf("publish: %v", err)
		}
		if all := direct.letters(); len(all) != 1 {
			t.Errorf("%d letters, want 1", len(all))
		}
	}
	t.Run("one replica", func(t *testing.T) {
		t.Parallel()
		n := natstest.One(t)
		lost(t, newFleet(t, n.Conn(), Topology{}, brisk()), n)
	})
	t.Run("three replicas", func(t *testing.T) {
		t.Parallel()
		c := natstest.Three(t)
		lost(t, newFleet(t, c.Conn(), Topology{Replicas: 3}, brisk()), c.Nodes[0])
	})
}

// TestLetterOfWhichHalfIsStored has a crash leave a letter without its entry
// in the index, and the other way round is not possible: a letter may come
// twice, and is never lost.
func TestLetterOfWhichHalfIsStored(t *testing.T) {
	t.Parallel()
	f := one(t)
	m, err := f.q.link.letter(t.Context(), deadletter.Letter{ID: "L", Kind: deadletter.KindEffect, Machine: "sink"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.q.link.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.q.link.post(t.Context(), []deadletter.Letter{{ID: "L", Kind: deadletter.KindEffect, Machine: "sink"}})[0]; err != nil {
			t.Fatal(err)
		}
	}
	if all := f.letters(); len(all) != 2 {
		t.Errorf("%d letters, want the half one and a whole one", len(all))
	}
}

// TestLettersAcrossARestart keeps publishing while the server goes and comes.
func TestLettersAcrossARestart(t *testing.T) {
	t.Parallel()
	n := natstest.One(t)
	opts := brisk()
	opts.Patience = time.Minute
	f := newFleet(t, n.Conn(), Topology{}, opts)
	var items []outbox.Item
	const many = 200
	for i := range many {
		items = append(items, letterItem(t, "r", fmt.Sprint("E", i), nil))
	}
	got := make(chan []error, 1)
	go func() { got <- f.q.Publisher.Publish(t.Context(), items) }()
	natstest.Await(t, "some to be stored", func() bool { return f.messages(streamDLQ) > 20 })
	n.Stop()
	n.Start()
	for i, err := range <-got {
		if err != nil {
			t.Errorf("publish %d: %v", i, err)
		}
	}
	seen := map[string]int{}
	for _, l := range f.letters() {
		seen[l.ID]++
	}
	if len(seen) != many {
		t.Errorf("%d different letters, want %d", len(seen), many)
	}
}

// TestLetterForAFullStream is not stored, and not remembered as if it were.
func TestLetterForAFullStream(t *testing.T) {
	t.Parallel()
	f := newFleet(t, natstest.One(t).Conn(), Topology{Limits: Limits{DLQBytes: 64 << 10}}, brisk())
	body := json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)
	errs := f.q.Publisher.Publish(t.Context(), []outbox.Item{letterItem(t, "r", "large", body), letterItem(t, "r", "small", nil)})
	if !errors.Is(errs[0], worker.ErrUnavailable) || errs[1] != nil {
		t.Errorf("publish to a full stream: %v", errs)
	}
	if all := f.letters(); len(all) != 1 || all[0].ID != "small" {
		t.Errorf("letters = %+v", all)
	}
	provisioned(t, f.nc, Topology{Limits: Limits{DLQBytes: 1 << 20}})
	f.publishAll(letterItem(t, "r", "large", body))
	if all := f.letters(); len(all) != 2 {
		t.Errorf("%d letters once there is room, want 2", len(all))
	}
}

// TestLettersWithoutAServer end when Patience does, all of them.
func TestLettersWithoutAServer(t *testing.T) {
	t.Parallel()
	n := natstest.One(t)
	opts := brisk()
	opts.Patience = 200 * time.Millisecond
	f := newFleet(t, n.Conn(), Topology{}, opts)
	n.Stop()
	var items []outbox.Item
	for i := range 3 * letterFlight {
		items = append(items, letterItem(t, "r", fmt.Sprint("E", i), nil))
	}
	for i, err := range f.q.Publisher.Publish(t.Context(), items) {
		if !errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("publish %d: %v", i, err)
		}
	}
}

// TestLettersOfAStreamMadeAnew have ids of their own, though the sequences
// begin again: the first stream's letters must not swallow the second's.
func TestLettersOfAStreamMadeAnew(t *testing.T) {
	t.Parallel()
	f := one(t)
	for consumer, subject := range map[string]string{ConsumerStart: "pawl.start.sink", ConsumerSignal: "pawl.signal.r.go"} {
		stream, err := streamOf(consumer)
		if err != nil {
			t.Fatal(err)
		}
		have := len(f.letters())
		for range 2 {
			f.publish(subject, nil, `{}`)
			m := f.fetch1(consumer)
			l := deadletter.Letter{ID: fmt.Sprintf("%s-%d-malformed", m.Kind, m.Seq), Kind: deadletter.KindOther, Source: m.Subject, SrcSeq: m.Seq}
			for range 2 {
				if err := f.q.Source.DeadLetter(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			last := f.letters()
			if id := last[len(last)-1].ID; id != f.incarnation(stream)+"-"+l.ID {
				t.Errorf("letter %s is not of the incarnation %s", id, f.incarnation(stream))
			}
			// No fetch is there to notice.
			if err := f.q.link.js.DeleteStream(t.Context(), f.q.link.subj.stream(stream)); err != nil {
				t.Fatal(err)
			}
			provisioned(t, f.nc, Topology{})
		}
		if n := len(f.letters()) - have; n != 2 {
			t.Errorf("%d letters of two streams, want 2", n)
		}
	}
}

// TestLettersWithoutAnIndex documents what a stream without the index does:
// nothing is stored, and it is not passed over.
func TestLettersWithoutAnIndex(t *testing.T) {
	t.Parallel()
	opts := brisk()
	opts.Patience = time.Second
	f := newFleet(t, natstest.One(t).Conn(), Topology{}, opts)
	config := (Topology{}).withDefaults().streams()
	for _, c := range config {
		if c.Name != "PAWL_DLQ" {
			continue
		}
		c.Subjects = []string{"pawl.dlq.*.*"} // as older fleets provisioned it
		if _, err := f.q.link.js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.q.Publisher.Publish(t.Context(), []outbox.Item{letterItem(t, "r", "E", nil)})[0]; !errors.Is(err, worker.ErrUnavailable) {
		t.Errorf("publish: %v", err)
	}
	if all := f.letters(); len(all) != 0 {
		t.Errorf("letters = %+v", all)
	}
	provisioned(t, f.nc, Topology{})
	f.publishAll(letterItem(t, "r", "E", nil))
	if all := f.letters(); len(all) != 1 {
		t.Errorf("letters = %+v", all)
	}
}

// TestLettersOfManyCallers go together: the broker takes 50 batches at a time.
func TestLettersOfManyCallers(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		const callers, each = 64, 25
		var wg sync.WaitGroup
		began := time.Now()
		for c := range callers {
			wg.Go(func() {
				for i := range each {
					if err := f.q.Source.DeadLetter(t.Context(), deadletter.Letter{ID: fmt.Sprint(c, "-", i), Kind: deadletter.KindStart, Machine: "sink"}); err != nil {
						t.Errorf("letter %d of caller %d: %v", i, c, err)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d letters of %d callers in %s", callers*each, callers, time.Since(began))
		seen := map[string]bool{}
		all := f.letters()
		for _, l := range all {
			seen[l.ID] = true
		}
		if len(all) != callers*each || len(seen) != len(all) {
			t.Errorf("%d letters with %d ids, want %d", len(all), len(seen), callers*each)
		}
	})
}
