package natsqueue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// someLetters are letters of all kinds, with everything a header cannot carry.
func someLetters() map[string]deadletter.Letter {
	at := time.Date(2026, 11, 29, 12, 34, 56, 123456789, time.UTC)
	full := deadletter.Letter{
		ID: "L1", Kind: deadletter.KindEffect, Machine: "sink", Run: "合同-1", State: "work", Effect: "http.post",
		EffectID: "E1", Key: "renewal:4412:1", Class: "timeout", Cause: "no answer\r\nafter \x00 30 s", Attempts: 5,
		Print: "abc", First: at, Last: at.Add(time.Hour), Build: "v1.2.3", Redrives: 2, Source: "pawl.effect.http+post.1.x.E1", SrcSeq: 42,
		Headers: map[string]string{"traceparent": "00-1", "Nats-Msg-Id": "m", "Nats-TTL": "1s", "X": "a\xff\r\nb", "Odd ": " v "},
		Body:    []byte(`{"a":1}`),
	}
	all := map[string]deadletter.Letter{
		"full":              full,
		"empty":             {ID: "L2"},
		"no machine's name": {ID: "L3", Kind: deadletter.KindStart, Machine: "a.*.>", Cause: "unknown"},
		"binary":            {ID: "L4", Kind: deadletter.KindSignal, Body: []byte{0, 1, 2, 255}},
		"odd id":            {ID: " \n*.>", Kind: deadletter.KindOther, Cause: " blank at its ends "},
		"looks encoded":     {ID: "L6", Kind: deadletter.KindOther, Cause: "base64:!", Class: "base64:YQ=="},
	}
	big := full
	big.ID, big.Body = "L7", []byte(strings.Repeat("x", 900<<10))
	all["large body"] = big
	many := full
	many.ID, many.Headers = "L8", map[string]string{}
	for i := range 60 {
		many.Headers[fmt.Sprint("H", i)] = strings.Repeat("y", 1000)
	}
	all["large headers"] = many
	both := many
	both.ID, both.Body, both.Run = "L9"+strings.Repeat("z", 5000), big.Body, strings.Repeat("r", 5000)
	all["large everything"] = both
	return all
}

func TestLettersRoundTrip(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		want := map[string]deadletter.Letter{}
		for name, l := range someLetters() {
			for range 2 { // the same letter again is one
				if err := f.q.Source.DeadLetter(t.Context(), l); err != nil {
					t.Fatalf("dead-letter %s: %v", name, err)
				}
			}
			if l.Source != "" { // of which stream, see TestLettersOfAStreamMadeAnew
				l.ID = f.incarnation(streamEffects) + "-" + l.ID
			}
			want[l.ID] = l
		}
		got := 0
		for l, err := range f.q.Letters.All(t.Context()) {
			if err != nil {
				t.Fatalf("letters: %v", err)
			}
			got++
			w, ok := want[l.ID]
			w.Seq = l.Seq
			if diff := cmp.Diff(w, l, cmp.Comparer(bytes.Equal)); !ok || diff != "" {
				t.Errorf("letter %.20q (-put +got):\n%.2000s", l.ID, diff)
			}
			one, found, err := f.q.Letters.Get(t.Context(), l.Seq)
			if diff := cmp.Diff(l, one, cmp.Comparer(bytes.Equal)); err != nil || !found || diff != "" {
				t.Errorf("get letter %d: %v, %v\n%.2000s", l.Seq, found, err, diff)
			}
		}
		if got != len(want) {
			t.Errorf("%d letters, want %d", got, len(want))
		}
	})
}

func TestLettersBySubject(t *testing.T) {
	t.Parallel()
	f := one(t)
	for i := range 90 {
		l := deadletter.Letter{ID: fmt.Sprint("L", i), Kind: deadletter.KindStart, Machine: "sink"}
		if i%3 == 1 {
			l.Kind = deadletter.KindEffect
		}
		if i%3 == 2 {
			l.Machine = ""
		}
		if err := f.q.Source.DeadLetter(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	count := func(kind deadletter.Kind, machine string, after uint64) int {
		n := 0
		for l, err := range f.q.Letters.Of(t.Context(), kind, machine, after) {
			if err != nil || l.Seq <= after || kind != "" && l.Kind != kind {
				t.Errorf("letters of %q and %q: %+v, %v", kind, machine, l, err)
			}
			n++
		}
		return n
	}
	for _, tt := range []struct {
		kind    deadletter.Kind
		machine string
		after   uint64
		want    int
	}{
		{"", "", 0, 90}, {"", "", 2 * 80, 10}, {deadletter.KindStart, "", 0, 60}, {deadletter.KindStart, "sink", 0, 30},
		{deadletter.KindEffect, "sink", 0, 30}, {"", "_", 0, 30}, {deadletter.KindSignal, "", 0, 0}, {"", "other", 0, 0},
	} {
		if got := count(tt.kind, tt.machine, tt.after); got != tt.want {
			t.Errorf("%d letters of %q and %q after %d, want %d", got, tt.kind, tt.machine, tt.after, tt.want)
		}
	}
	for _, err := range f.q.Letters.Of(t.Context(), "", "*.>", 0) {
		if err == nil {
			t.Error("a pattern was taken for a machine")
		}
	}
}

func TestLettersAreRemoved(t *testing.T) {
	t.Parallel()
	f := one(t)
	for _, l := range someLetters() {
		if err := f.q.Source.DeadLetter(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	for l, err := range f.q.Letters.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.q.Letters.Drop(t.Context(), l), f.q.Letters.Drop(t.Context(), l), f.q.Letters.Remove(t.Context(), l.Seq)); err != nil {
			t.Errorf("remove letter %d: %v", l.Seq, err)
		}
		if _, found, err := f.q.Letters.Get(t.Context(), l.Seq); found || err != nil {
			t.Errorf("letter %d after its removal: %v, %v", l.Seq, found, err)
		}
	}
	if n := f.messages(streamBlobs); n != 0 {
		t.Errorf("%d chunks are left", n)
	}
	if n := f.messages(streamDLQ); n != uint64(len(someLetters())) {
		t.Errorf("%d messages are left, want the index alone", n)
	}
}

// TestPublishLetters has an outbox hold the letter of an effect.
func TestPublishLetters(t *testing.T) {
	t.Parallel()
	f := one(t)
	at := time.Date(2026, 11, 29, 1, 2, 3, 4, time.UTC)
	l := statemachine.Letter{
		ID: "E1:5", Run: "a b", Machine: "sink", State: "work", Effect: "http.post", EffectID: "E1", Key: "E1",
		Input: json.RawMessage(`{"url":"http://x"}`), Class: "http_4xx", Cause: "404", Attempts: 5, Print: "p", First: at, Last: at, Build: "b",
	}
	body, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	item := outbox.Item{Run: "a b", Machine: "sink", Seq: 77, Entry: statemachine.Entry{Kind: statemachine.EntryLetter, ID: l.ID, Body: body}}
	f.publishAll(item)
	f.publishAll(item)
	want := deadletter.Letter{
		ID: "E1:5", Seq: 1, Kind: deadletter.KindEffect, Machine: "sink", Run: "a b", State: "work", Effect: "http.post", EffectID: "E1", Key: "E1",
		Class: "http_4xx", Cause: "404", Attempts: 5, Print: "p", First: at, Last: at, Build: "b",
		Source: f.q.link.subj.history("a b"), SrcSeq: 77, Body: []byte(`{"url":"http://x"}`),
	}
	n := 0
	for got, err := range f.q.Letters.All(t.Context()) {
		n++
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("letter: %v (-want +got)\n%s", err, diff)
		}
	}
	if n != 1 {
		t.Errorf("%d letters, want 1", n)
	}
}

// TestLetterOfAForgedStart keeps the headers of the original from steering the
// broker when its letter is stored.
func TestLetterOfAForgedStart(t *testing.T) {
	t.Parallel()
	f := one(t)
	f.publish("pawl.start.sink", map[string]string{"Pawl-Run-Id": strings.Repeat("x", 300), "Nats-Expected-Last-Sequence": "0", "Pawl-Dlq-Id": "forged"}, `{}`)
	m := f.fetch1(ConsumerStart)
	if m.Kind != queue.Start || m.Fault == nil {
		t.Fatalf("fetched %+v, want a fault", m)
	}
	l := deadletter.Letter{ID: "real", Kind: deadletter.KindStart, Machine: m.Machine, Cause: m.Fault.Error(), Source: m.Subject, SrcSeq: m.Seq, Headers: m.Headers, Body: m.Body}
	if err := f.q.Source.DeadLetter(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	for got, err := range f.q.Letters.All(t.Context()) {
		want := l
		want.Seq, want.ID = got.Seq, f.incarnation(streamStart)+"-real"
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("letter: %v\n%s", err, diff)
		}
	}
}
