package statemachine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	sm "github.com/pawlrun/pawl/statemachine"
)

// limitOf returns the limit an error is about, nil if it is about none.
func limitOf(err error) *sm.LimitError {
	var l *sm.LimitError
	errors.As(err, &l)
	return l
}

type bag struct {
	Data  string `json:"data,omitempty"`
	Input string `json:"input,omitempty"`
	Field string `json:"field,omitempty"`
	Key   string `json:"key,omitempty"`
}

func (b *bag) input() string { return strings.Repeat("i", len(b.Input)*1024) }
func (b *bag) key() string   { return b.Key }
func (b *bag) field() string { return b.Field }

func bags() *sm.Definition {
	m := sm.New[bag]("bag", 1)
	m.Index("field", (*bag).field)
	m.State("a", sm.Call(ship, (*bag).input, func(b *bag, n int) { b.Data = strings.Repeat("d", n) }).Key((*bag).key))
	m.State("b", sm.Call(ship, (*bag).input, nil))
	m.Succeed("z")
	return m.Definitions()[0]
}

func begun(t *testing.T, d *sm.Definition, input string) *sm.Stored {
	t.Helper()
	f := d.Begin("r1", nil, env())
	if o, err := f.Apply(startEvent(input)); o != sm.Applied || err != nil {
		t.Fatalf("Apply(start) = %v, %v", o, err)
	}
	s := seal(t, f).Stored
	s.Seq = 1
	return &s
}

// TestLimits checks that every limit is named, and that the event which breaks
// it leaves the fold as it was.
func TestLimits(t *testing.T) {
	t.Parallel()
	d := bags()
	from := begun(t, d, `{}`)
	result := func(body string) sm.Event {
		return sm.Event{Kind: sm.EventResult, At: t1, Effect: from.Pending[0].ID, Body: json.RawMessage(body)}
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	full := *from
	r := *from.Record
	full.Record = &r
	for i := range 15 {
		r.Inbox = append(r.Inbox, sm.InboxSignal{ID: fmt.Sprint("signal:f", i), Name: "f", Body: json.RawMessage(`"` + long(8<<10) + `"`)})
	}
	busy := *from
	q := *from.Record
	busy.Record = &q
	for i := range 45 {
		p := from.Pending[0]
		p.ID, p.Input = fmt.Sprint("f", i), json.RawMessage(`"`+long(8<<10)+`"`)
		q.Pending = append(slices.Clip(q.Pending), p)
	}
	parked := sm.Event{Kind: sm.EventFailure, At: t1, Effect: "f0", Try: 1, Cause: &sm.Cause{Class: "x", Message: long(1 << 20)}}
	signal, huge := signalEvent("s1"), signalEvent("s2")
	huge.Body = json.RawMessage(`"` + long(64<<10) + `"`)
	signal.Body = json.RawMessage(`"` + long(8000) + `"`)
	tests := []struct {
		name  string
		from  *sm.Stored
		event sm.Event
		want  sm.LimitError // Size 0: any above Max
	}{
		{"data", from, result(fmt.Sprint(100<<10 - 10)), sm.LimitError{What: "data", Size: 100<<10 + 1, Max: 100 << 10}},
		{"data, at the limit", from, result(fmt.Sprint(100<<10 - 11)), sm.LimitError{}},
		{"signal", from, huge, sm.LimitError{What: "signal", Size: 64<<10 + 2, Max: 64 << 10}},
		{"input", nil, startEvent(`{"input":"` + long(32<<10) + `"}`), sm.LimitError{What: "value", Max: 32 << 20}},
		{"index", nil, startEvent(`{"field":"` + long(257) + `"}`), sm.LimitError{What: "index field", Size: 257, Max: 256}},
		{"key", nil, startEvent(`{"key":"` + long(257) + `"}`), sm.LimitError{What: "key", Size: 257, Max: 256}},
		{"inbox", &full, signal, sm.LimitError{What: "inbox", Max: 128 << 10}},
		{"pending and outbox", &busy, parked, sm.LimitError{What: "pending and outbox", Max: 384 << 10}},
	}
	for _, tt := range tests {
		f := d.Begin("r1", tt.from, env())
		_, err := f.Apply(tt.event)
		got := limitOf(err)
		switch {
		case tt.want.What == "":
			if err != nil {
				t.Errorf("%s: Apply = %v", tt.name, err)
			}
		case got == nil:
			t.Errorf("%s: Apply = %v, want a LimitError", tt.name, err)
		case got.What != tt.want.What || got.Max != tt.want.Max || got.Size <= got.Max || tt.want.Size > 0 && got.Size != tt.want.Size:
			t.Errorf("%s: Apply = %+v, want %+v", tt.name, *got, tt.want)
		}
	}
	if got, want := (&sm.LimitError{What: "data", Size: 3, Max: 2}).Error(), "data of 3 bytes exceeds the limit of 2 bytes"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

// TestRecordLimit checks that the encoded record has a limit of its own: what
// the parts may hold together, with many additions to a log, is more.
func TestRecordLimit(t *testing.T) {
	t.Parallel()
	d := chats().Definitions()[0]
	items, _ := json.Marshal(slices.Repeat([]string{strings.Repeat("m", 8000)}, 120))
	f := d.Begin("r1", nil, env())
	if _, err := f.Apply(startEvent(`{"messages":` + string(items) + `}`)); err != nil {
		t.Fatal(err)
	}
	_, err := f.Seal()
	if got := limitOf(err); got == nil || got.What != "record" || got.Max != 900<<10 {
		t.Errorf("Seal = %v, want a LimitError of the record", err)
	}
}

// TestApplied checks that the ids of the last 1,024 signals are remembered.
func TestApplied(t *testing.T) {
	t.Parallel()
	d := orders().Definitions()[0]
	from := before(sm.Parked)
	from.Applied, from.Inbox = nil, nil
	for i := range sm.MaxApplied {
		from.Applied = append(from.Applied, fmt.Sprint("signal:", i))
	}
	f := d.Begin("r1", from, env())
	for _, id := range []string{"0", "1023"} {
		if o, err := f.Apply(signalEvent(id)); o != sm.Duplicate || err != nil {
			t.Errorf("Apply(signal %s) = %v, %v, want duplicate", id, o, err)
		}
	}
	if o, err := f.Apply(signalEvent("new")); o != sm.Applied || err != nil {
		t.Fatalf("Apply(new signal) = %v, %v", o, err)
	}
	if o, _ := f.Apply(signalEvent("new")); o != sm.Duplicate {
		t.Errorf("Apply(the same signal) in one fold = %v, want duplicate", o)
	}
	got := seal(t, f).Applied
	if len(got) != sm.MaxApplied || got[0] != "signal:1" || got[len(got)-1] != "signal:new" {
		t.Errorf("applied holds %d ids from %s to %s", len(got), got[0], got[len(got)-1])
	}
}

// TestBlobs checks what stands in a record by reference.
func TestBlobs(t *testing.T) {
	t.Parallel()
	d := bags()
	big := `"` + strings.Repeat("b", 9000) + `"`
	small := `{"$blob":"not a blob","size":1}`
	from := begun(t, d, `{"input":"`+strings.Repeat("x", 9)+`"}`)
	ref, ok := sm.AsBlobRef(from.Pending[0].Input)
	if want := 9*1024 + 2; !ok || ref.Size != want {
		t.Errorf("the input of %d bytes stands as %s", want, from.Pending[0].Input)
	}
	for _, body := range []string{big, small} {
		f := d.Begin("r1", from, env())
		s := signalEvent("s1")
		s.Body = json.RawMessage(body)
		if _, err := f.Apply(s); err != nil {
			t.Fatal(err)
		}
		got := seal(t, f)
		ref, ok := sm.AsBlobRef(got.Events[0].Body)
		if !ok || ref.Size != len(body) || ref.Hash != sm.BlobHash([]byte(body)) {
			t.Errorf("the body stands as %s", got.Events[0].Body)
		}
		if string(got.Blobs[ref.Hash]) != body {
			t.Errorf("the blob is %.40q, want the body", got.Blobs[ref.Hash])
		}
		if string(got.Inbox[0].Body) != body {
			t.Errorf("the inbox holds %.40q, want the body itself", got.Inbox[0].Body)
		}
	}
	for _, v := range []string{`{}`, `null`, ``, `{"$blob":"h"} 1`, `{"$blob":"h","size":1,"more":2}`, `["$blob"]`, `{"$blob":7}`} {
		if ref, ok := sm.AsBlobRef(json.RawMessage(v)); ok {
			t.Errorf("AsBlobRef(%s) = %v, want none", v, ref)
		}
	}
}
