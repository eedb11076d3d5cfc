package statemachine_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sm "github.com/pawlrun/pawl/statemachine"
)

// TestRefold checks that the first field which differs is named.
func TestRefold(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	from := before(sm.Inline)
	f := d.Begin("r1", from, env())
	if _, err := f.Apply(resultEvent()); err != nil {
		t.Fatal(err)
	}
	good := seal(t, f).Record
	tests := []struct {
		name   string
		change func(r *sm.Record)
		want   sm.Difference // without run and revision
	}{
		{"data", func(r *sm.Record) {
			r.Data = json.RawMessage(`{"id":"o1","total":13,"paid":true,"seen":"2026-01-02T03:04:06Z"}`)
		}, sm.Difference{Field: "data.total", Recorded: "13", Refolded: "12"}},
		{"a field more", func(r *sm.Record) {
			r.Data = json.RawMessage(`{"id":"o1","total":12,"paid":true,"seen":"2026-01-02T03:04:06Z","x":1}`)
		}, sm.Difference{Field: "data.x", Recorded: "1"}},
		{"another state", func(r *sm.Record) { r.To = "done" },
			sm.Difference{Field: "to", Recorded: `"done"`, Refolded: `"ship"`}},
		{"another input", func(r *sm.Record) {
			p := r.Pending[0]
			p.Input = json.RawMessage(`"o2"`)
			r.Pending = []sm.Pending{p}
		}, sm.Difference{Field: "pending.0.input", Recorded: `"o2"`, Refolded: `"o1"`}},
		{"nothing pending", func(r *sm.Record) { r.Pending = nil }, sm.Difference{Field: "pending", Recorded: "null"}},
		{"an event that is not taken", func(r *sm.Record) { r.Events = []sm.Event{dueEvent(2, t1)} },
			sm.Difference{Field: "events", Recorded: "", Refolded: "outcome stale"}},
		{"another definition", func(r *sm.Record) { r.Def, r.Txid = "other", "other" }, sm.Difference{}},
		{"order of fields", func(r *sm.Record) {
			r.Data = json.RawMessage(`{"total":12,"id":"o1","paid":true,"seen":"2026-01-02T03:04:06Z"}`)
		}, sm.Difference{}},
	}
	for _, tt := range tests {
		r := *good
		tt.change(&r)
		err := d.Refold(from, &r, nil)
		var got *sm.Difference
		if !errors.As(err, &got) {
			if err != nil || tt.want.Field != "" {
				t.Errorf("%s: Refold = %v, want %+v", tt.name, err, tt.want)
			}
			continue
		}
		tt.want.Run, tt.want.Rev = "r1", 4
		if tt.want.Field == "pending" {
			tt.want.Refolded = got.Refolded
		}
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if !strings.HasPrefix(err.Error(), "run r1, revision 4: "+tt.want.Field+" is ") {
			t.Errorf("%s: %q", tt.name, err.Error())
		}
	}
}

// TestRefoldOfBefore checks that what builds before did not note, or noted in
// another way, is no difference.
func TestRefoldOfBefore(t *testing.T) {
	t.Parallel()
	read := func(name string) *sm.Stored {
		b, err := os.ReadFile("testdata/records/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		r, err := sm.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		return &sm.Stored{Record: r, Bytes: b}
	}
	d := orders().Definitions()[0]
	for _, pair := range [][2]string{{"queued", "parked_digits"}, {"queued", "parked"}, {"parked_digits", "redriven_digits"}, {"parked", "redriven"}} {
		prev, next := read(pair[0]), read(pair[1])
		prev.Seq = next.Prev
		if err := d.Refold(prev, next.Record, nil); err != nil {
			t.Errorf("%s after %s: %v", pair[1], pair[0], err)
		}
	}
}

// TestRefoldBlobs checks that bodies by reference are read.
func TestRefoldBlobs(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	from := before(sm.Inline)
	e := signalEvent("s1")
	e.Body = json.RawMessage(`"` + strings.Repeat("x", 9000) + `"`)
	f := d.Begin("r1", from, env())
	if _, err := f.Apply(e); err != nil {
		t.Fatal(err)
	}
	s := seal(t, f)
	read := func(hash string) ([]byte, error) { return s.Blobs[hash], nil }
	if err := d.Refold(from, s.Record, read); err != nil {
		t.Errorf("Refold: %v", err)
	}
	if err := d.Refold(from, s.Record, nil); err == nil {
		t.Error("Refold without blobs gave no error")
	}
	gone := errors.New("gone")
	if err := d.Refold(from, s.Record, func(string) ([]byte, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("Refold = %v, want %v", err, gone)
	}
}

// TestTombstone checks what a run answers that has been removed.
func TestTombstone(t *testing.T) {
	t.Parallel()
	tomb := &sm.Stored{Record: records(t)["entombed"], Seq: 200}
	d := orders().Definitions()[0]
	for _, tt := range []struct {
		event sm.Event
		want  sm.Outcome
	}{
		{startEvent(`{"id":"o1","total":12,"note":"für \"Anna\" <a&b>"}`), sm.Duplicate},
		{startEvent(`{"id":"o1"}`), sm.Conflict},
		{signalEvent("s9"), sm.Ended},
		{resultEvent(), sm.Stale},
		{queueEvent(), sm.Stale},
		{commandEvent(sm.EventCancel, "c1", sm.Command{}), sm.Ended},
	} {
		if got, err := d.Begin("order-1", tomb, env()).Apply(tt.event); got != tt.want || err != nil {
			t.Errorf("Apply(%s) = %v, %v, want %v", tt.event.Kind, got, err, tt.want)
		}
	}
}
