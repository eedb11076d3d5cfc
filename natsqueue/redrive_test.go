package natsqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
)

// A start and a signal go back as what they were, under their ids, and however
// often they do, what is given up again is one letter.
func TestRedrive(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		odd := map[string]string{"traceparent": "00-1", "Nats-Msg-Id": "m1", "Nats-TTL": "1s", "Pawl-Tries": "4", "pawl-redrive": "7 x", "X": "a\r\nb"}
		for i, l := range []deadletter.Letter{
			{Kind: deadletter.KindStart, Machine: "sink", Run: "合同 1", Source: "pawl.start.sink", Headers: odd, Body: []byte(`{"a":1}`)},
			{Kind: deadletter.KindStart, Machine: "sink", Run: "large", Source: "pawl.start.sink", Body: []byte(strings.Repeat("x", 800<<10))},
			{Kind: deadletter.KindSignal, Run: "r-1", Source: "pawl.signal.r-1.hurry", Headers: odd, Body: []byte(`{}`)},
			{Kind: deadletter.KindSignal, Run: "合同 " + strings.Repeat("r", 200), Source: "pawl.signal._.hurry", Headers: map[string]string{"Pawl-Signal-Id": "s 1"}},
		} {
			l.ID, l.SrcSeq, l.First, l.Last = queue.LetterID(queue.Kind(l.Kind), uint64(i)), uint64(i), time.Now().UTC(), time.Now().UTC()
			if err := f.q.Source.DeadLetter(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			var stored deadletter.Letter
			natstest.Await(t, "letter "+l.ID, func() bool { // any replica answers
				for l, err := range f.q.Letters.All(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					stored = l
				}
				return stored.ID != "" && stored.Run == l.Run
			})
			next, err := f.q.Letters.Next(t.Context(), stored)
			if err != nil {
				t.Fatal(err)
			}
			if known, err := f.q.Letters.Known(t.Context(), next); known || err != nil {
				t.Errorf("before it is given up again: %v, %v", known, err)
			}
			for range 2 {
				if err := f.q.Sender.Redrive(t.Context(), stored); err != nil {
					t.Fatalf("redrive %s: %v", l.ID, err)
				}
				consumer := map[deadletter.Kind]string{deadletter.KindStart: ConsumerStart, deadletter.KindSignal: ConsumerSignal}[l.Kind]
				m := f.fetch1(consumer)
				if m.Fault != nil || m.Run != l.Run || m.Machine != l.Machine || string(m.Body) != string(l.Body) || m.Letter != stored.ID || m.Redrives != 1 || m.Tries != 0 {
					t.Errorf("%s came back as %.300s", l.ID, fmt.Sprintf("%+v", m))
				}
				if l.Kind == deadletter.KindSignal && (m.Name != "hurry" || m.ID != stored.SignalID()) {
					t.Errorf("%s came back as signal %q with id %q", l.ID, m.Name, m.ID)
				}
				for name := range m.Headers {
					if l := strings.ToLower(name); strings.HasPrefix(l, "nats-") || l == "pawl-redrive" || l == "x" {
						t.Errorf("%s came back with header %s", stored.ID, name)
					}
				}
				again := deadletter.Letter{ID: m.LetterID(), Kind: l.Kind, Machine: m.Machine, Run: m.Run, Source: m.Subject, SrcSeq: m.Seq, Redrives: m.Redrives, Headers: m.Headers, Body: m.Body}
				if err := f.q.Source.DeadLetter(t.Context(), again); err != nil {
					t.Fatal(err)
				}
				if err := m.Ack(); err != nil {
					t.Fatal(err)
				}
			}
			natstest.Await(t, "the letter of what was given up again", func() bool {
				known, err := f.q.Letters.Known(t.Context(), next)
				if err != nil {
					t.Fatalf("given up again, letter %s: %v", next, err)
				}
				return known
			})
			natstest.Await(t, "both letters", func() bool {
				n := 0
				for range f.q.Letters.All(t.Context()) {
					n++
				}
				return n == 2
			})
			back := 0
			for l, err := range f.q.Letters.All(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if l.ID == next {
					if back++; l.Redrives != 1 {
						t.Errorf("it comes back with %d redrives, want 1", l.Redrives)
					}
				}
				for range 2 { // the second finds it gone
					if err := f.q.Letters.Drop(t.Context(), l); err != nil {
						t.Fatal(err)
					}
				}
			}
			if back != 1 {
				t.Errorf("%s came back as %d letters, want 1", l.ID, back)
			}
			natstest.Await(t, "no letter", func() bool {
				for range f.q.Letters.All(t.Context()) {
					return false
				}
				return true
			})
		}
		for _, l := range []deadletter.Letter{
			{Kind: deadletter.KindEffect, Run: "r"}, {Kind: deadletter.KindStart, Machine: "A", Run: "r"}, {Kind: deadletter.KindStart, Machine: "sink"},
			{Kind: deadletter.KindStart, Machine: "sink", Run: " r"}, {Kind: deadletter.KindSignal, Run: "r", Source: "other.signal.r.x"},
		} {
			if err := f.q.Sender.Redrive(t.Context(), l); err == nil {
				t.Errorf("redrive of %+v gave no error", l)
			}
		}
	})
}

// What was re-driven is so as well after it was postponed.
func TestPostponedRedrive(t *testing.T) {
	t.Parallel()
	f := one(t)
	l := deadletter.Letter{ID: "l1", Kind: deadletter.KindSignal, Run: "r", Source: "pawl.signal.r.hurry", Redrives: 2, Body: []byte(`{}`)}
	if err := f.q.Sender.Redrive(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	m := f.fetch1(ConsumerSignal)
	if err := f.q.Source.Postpone(t.Context(), m, time.Now(), 1); err != nil {
		t.Fatal(err)
	}
	later := f.fetch1(ConsumerDue)
	if later.Letter != "l1" || later.Redrives != 3 || later.LetterID() != m.LetterID() {
		t.Errorf("it came later as %+v", later)
	}
}

func TestRedriveOf(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "a b", " \n", "base64:x"} {
		if l, n := redriveOf(redriveValue(id, 3)); l != id || n != 3 {
			t.Errorf("%q is read as %q, %d", id, l, n)
		}
	}
	for _, v := range []string{"", "x", "3", "0 a", "-1 a", "3 ", "x a", "3 base64:!", "3 " + strings.Repeat("x", 600)} {
		if l, n := redriveOf(v); l != "" || n != 0 {
			t.Errorf("%q is read as %q, %d", v, l, n)
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	f := one(t)
	var want []bulk.Entry
	for i, step := range []string{bulk.StepBegin, bulk.StepItems, bulk.StepEnd} {
		e := bulk.Entry{ID: "c1", Step: step, At: time.Unix(int64(i), 0).UTC(), What: "redrive letters", By: "unverified:anna", Reason: "why", Items: []string{"letter 1"}}
		if err := f.q.Audit.Write(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		want = append(want, e)
	}
	var got []bulk.Entry
	for e, err := range f.q.Audit.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit record (-want +got):\n%s", diff)
	}
}
