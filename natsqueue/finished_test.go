package natsqueue

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/statemachine"
)

// endItem is the end of a run.
func endItem(run, txid string) outbox.Item {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &statemachine.Record{
		Run: run, Machine: "sink", Version: 2, Rev: 7, Txid: txid, To: "done", Status: statemachine.StatusCancelled,
		Data: json.RawMessage(`{"a":"<b>","l":{"$log":"l","to":2}}`), Started: at, At: at.Add(time.Minute),
		Cause: &statemachine.Cause{Class: "cancelled", Message: "why", State: "done", By: "anna"},
	}
	return outbox.Item{Run: run, Machine: "sink", Seq: 9, Txid: txid, Record: r, Entry: statemachine.Entry{Kind: statemachine.EntryFinished, ID: "finished"}}
}

// TestPublishEnds checks what is told of the end of a run, and that it is
// there once however often it is published, alone, in a batch, or both.
func TestPublishEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		group Group
	}{{"one by one", GroupNever}, {"batches", GroupAlways}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := brisk()
			o.Group = tt.group
			f := newFleet(t, natstest.One(t).Conn(), Topology{}, o)
			var items []outbox.Item
			for i := range 30 {
				run := strings.Repeat("r", i+1)
				items = append(items, endItem(run, "tx"+run), effectItem(run, "E", 9))
			}
			f.publishAll(items[:20]...)
			f.publishAll(items...)
			f.publishAll(items...)
			if n := f.messages(streamFinished); n != 30 {
				t.Errorf("%d ends, want 30", n)
			}
			s, err := f.q.link.js.Stream(t.Context(), "PAWL_FINISHED")
			if err != nil {
				t.Fatal(err)
			}
			m, err := s.GetLastMsgForSubject(t.Context(), "pawl.finished.sink")
			if err != nil {
				t.Fatal(err)
			}
			const want = `{"run":"rrrrrrrrrrrrrrrrrrrrrrrrrrrrrr","machine":"sink","version":2,"status":"cancelled","state":"done","revision":7,` +
				`"data":{"a":"<b>","l":{"$log":"l","to":2}},"error":{"class":"cancelled","message":"why","state":"done","by":"anna"},` +
				`"started":"2026-01-02T03:04:05Z","ended":"2026-01-02T03:05:05Z"}`
			if string(m.Data) != want || m.Header.Get(headerRun) != strings.Repeat("r", 30) {
				t.Errorf("end of run %s:\n%s, want\n%s", m.Header.Get(headerRun), m.Data, want)
			}
		})
	}
}

// TestEndOfARunThatHasNot checks that an entry which is in no ended record is
// an error, not a message.
func TestEndOfARunThatHasNot(t *testing.T) {
	t.Parallel()
	f := one(t)
	item := endItem("r", "t")
	item.Record.Status = statemachine.StatusPaused
	lost := endItem("r", "t")
	lost.Record = nil
	for _, err := range f.q.Publisher.Publish(t.Context(), []outbox.Item{item, lost}) {
		if err == nil {
			t.Error("published the end of a run that has not ended")
		}
	}
}

// TestEndsExpire checks that ends are dropped by age, never refused.
func TestEndsExpire(t *testing.T) {
	t.Parallel()
	f := newFleet(t, natstest.One(t).Conn(), Topology{FinishedFor: time.Second}, brisk())
	info, err := f.q.link.streamInfo(t.Context(), streamFinished)
	if err != nil {
		t.Fatal(err)
	}
	if c := info.Config; c.MaxAge != time.Second || c.Duplicates != time.Second || c.Discard != jetstream.DiscardOld || !c.AllowDirect {
		t.Errorf("stream of ends: %+v", c)
	}
}
