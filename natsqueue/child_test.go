package natsqueue

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// TestChildMessages sends what parents and children tell each other, and
// postpones it: it comes as it was, whatever the ids are like.
func TestChildMessages(t *testing.T) {
	t.Parallel()
	f := one(t)
	large := `"` + strings.Repeat("x", 20<<10) + `"`
	hash := statemachine.BlobHash([]byte(large))
	for _, run := range []string{"child-1", strings.Repeat("a \u0085 long\nname ", 12)} {
		parent := "parent of " + run[:7]
		if err := f.q.Blobs.Put(t.Context(), parent, map[string][]byte{hash: []byte(large)}); err != nil {
			t.Fatal(err)
		}
		r := &statemachine.Record{Run: parent, Machine: "study", Tenant: "Żółw & co", Pending: []statemachine.Pending{{
			ID: "E", Effect: statemachine.ChildEffect, Input: json.RawMessage(`{"$blob":"` + hash + `","size":20482}`), Child: &statemachine.ChildRef{Run: run, Machine: "visit"},
		}}}
		child := &statemachine.Record{Run: run, Machine: "visit", Status: statemachine.StatusSucceeded, Data: json.RawMessage(`{"a":"<1>","log":{"$log":"log","to":1}}`),
			Logs: map[string]statemachine.LogRef{"log": {Count: 1}}, Parent: &statemachine.Parent{Run: parent, Effect: "E", Asked: 7, Level: 1}}
		refused := []byte(`{"run":` + quotedJSON(t, parent) + `,"effect":"E","asked":7,"child":` + quotedJSON(t, run) + `,"cause":{"class":"refused","message":"no"}}`)
		item := func(r *statemachine.Record, kind statemachine.EntryKind, body []byte) outbox.Item {
			return outbox.Item{Run: r.Run, Machine: r.Machine, Seq: 7, Record: r, Entry: statemachine.Entry{Kind: kind, ID: "E", Effect: statemachine.ChildEffect, Body: body}}
		}
		stop, err := json.Marshal(statemachine.Stop{Run: run, Kind: statemachine.EventTerminate, Reason: "over"})
		if err != nil {
			t.Fatal(err)
		}
		from := &queue.Parent{Run: parent, Effect: "E", Asked: 7, Level: 1}
		for _, c := range []struct {
			item outbox.Item
			want queue.Message
		}{
			{item(r, statemachine.EntryChild, nil), queue.Message{Kind: queue.Start, Run: run, Machine: "visit", Tenant: "Żółw & co", Priority: queue.Normal, Parent: from, Body: []byte(large)}},
			{item(r, statemachine.EntryStop, stop), queue.Message{Kind: queue.Event, Run: run, Name: "terminate", ID: "terminate:E", Parent: from, Body: []byte(`{"by":"its parent","reason":"over"}`)}},
			{item(child, statemachine.EntryAnswer, nil), queue.Message{Kind: queue.Child, Run: parent, Name: run, ID: "E", Asked: 7}},
			{item(child, statemachine.EntryAnswer, refused), queue.Message{Kind: queue.Child, Run: parent, Name: run, ID: "E", Asked: 7, Body: refused}},
		} {
			f.publishAll(c.item)
			m := f.fetch1(ConsumerEvent)
			if err := f.q.Source.Postpone(t.Context(), m, time.Now(), 1); err != nil {
				t.Fatal(err)
			}
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
			again := f.fetch1(ConsumerDue)
			if err := again.Ack(); err != nil {
				t.Fatal(err)
			}
			if diff := diffMessage(m, again); diff != "" {
				t.Errorf("postponed, it changed (-before +after):\n%s", diff)
			}
			if m.Kind == queue.Child && c.want.Body == nil {
				var a statemachine.Answer
				if err := json.Unmarshal(m.Body, &a); err != nil || string(a.Result) != `{"a":"<1>"}` || a.Cause != nil {
					t.Errorf("the answer is %s, %v", m.Body, err)
				}
				c.want.Body = m.Body
			}
			m.Subject, m.Headers, m.Seq = "", nil, 0
			if diff := diffMessage(c.want, m); diff != "" {
				t.Errorf("%s of %q (-want +got):\n%s", c.item.Entry.Kind, run, diff)
			}
		}
	}
	bad := outbox.Item{Run: "p", Record: &statemachine.Record{Run: "p"}, Entry: statemachine.Entry{Kind: statemachine.EntryChild, ID: "E"}}
	for _, kind := range []statemachine.EntryKind{statemachine.EntryChild, statemachine.EntryStop, statemachine.EntryAnswer} {
		bad.Entry.Kind = kind
		if err := f.q.Publisher.Publish(t.Context(), []outbox.Item{bad})[0]; err == nil {
			t.Errorf("an entry %s of a record that has no child was published", kind)
		}
	}
	// A producer is nobody's parent.
	f.publish("pawl.start.visit", map[string]string{"Pawl-Run-Id": "r", "Pawl-Parent": `{"run":"p","effect":"E"}`}, `{}`)
	if m := f.fetch1(ConsumerStart); m.Parent != nil || m.Fault != nil {
		t.Errorf("a start that says it has a parent: %+v, %v", m.Parent, m.Fault)
	}
	for name, h := range map[string]map[string]string{
		"no parent":  {"Pawl-Event-Name": "start", "Pawl-Machine": "visit"},
		"odd parent": {"Pawl-Event-Name": "start", "Pawl-Machine": "visit", "Pawl-Parent": "p"},
		"no answer":  {"Pawl-Event-Name": "child"},
	} {
		f.publish(f.q.link.subj.event("r"), h, `[]`)
		if m := f.fetch1(ConsumerEvent); m.Fault == nil {
			t.Errorf("%s: it has no fault", name)
		}
	}
}

func quotedJSON(t *testing.T, s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
