package natsqueue

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

// A start in line is the one that it was: under the same id, also where one was
// made, of the same time, with the same letter; only what the broker would act
// on is left out.
func TestLineUpKeepsAStartAsItWas(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		redriven := map[string]string{"Pawl-Run-Id": "r 2", "Pawl-Redrive": redriveValue("letter 7", 2)}
		for i, header := range []map[string]string{
			{},
			{"Nats-Msg-Id": "m1", "traceparent": "00-1-2-01", "Pawl-Machine-Version": "3"},
			{"Pawl-Run-Id": "合同 1", "Pawl-Priority": "low", "Pawl-Tenant": "Ä"},
			redriven,
			{"Pawl-Place": "1 2 3", "Pawl-Before": "9"}, // a producer's say nothing
		} {
			f.publish("pawl.start.sink", header, `{"a": 1}`)
			was := f.fetch1(ConsumerStart)
			line := queue.Lines()[i]
			if err := f.q.Source.LineUp(t.Context(), []queue.Message{was}, []queue.Line{line})[0]; err != nil {
				t.Fatalf("line up: %v", err)
			}
			if err := was.Ack(); err != nil {
				t.Fatal(err)
			}
			is := f.fetch1(line.Consumer())
			delete(was.Headers, "Nats-Msg-Id")
			if was.Fault == nil { // the id is written down
				if was.Headers == nil {
					was.Headers = map[string]string{}
				}
				was.Headers["Pawl-Run-Id"] = was.Run
			}
			if diff := cmp.Diff(was, is, cmpopts.IgnoreFields(queue.Message{}, "Delivery"), cmpopts.EquateApproxTime(0)); diff != "" {
				t.Errorf("start with %v in line (-was +is):\n%s", header, diff)
			}
			if was.LetterID() != is.LetterID() {
				t.Errorf("its letter is %s, then %s", was.LetterID(), is.LetterID())
			}
			if err := is.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		natstest.Await(t, "an empty START", func() bool { return f.messages(streamStart) == 0 })
	})
}

// A start that killed who took it has as many deliveries in line as before; the
// letter of one is found by the start that was published.
func TestLineUpCountsDeliveries(t *testing.T) {
	t.Parallel()
	f := one(t)
	seq := f.publish("pawl.start.sink", nil, `{}`)
	m := f.fetch1(ConsumerStart)
	if err := m.Nak(0); err != nil {
		t.Fatal(err)
	}
	m = f.fetch1(ConsumerStart)
	line := queue.Line{Priority: queue.Normal, Class: 4}
	if err := f.q.Source.LineUp(t.Context(), []queue.Message{m}, []queue.Line{line})[0]; err != nil {
		t.Fatal(err)
	}
	if m = f.fetch1(line.Consumer()); m.Delivered != 2 {
		t.Errorf("delivery %d, want 2", m.Delivered)
	}
	err := f.q.Source.DeadLetter(t.Context(), deadletter.Letter{
		ID: m.LetterID(), Kind: deadletter.KindStart, Machine: m.Machine, Run: m.Run, Source: m.Subject, SrcSeq: m.Seq, Body: m.Body, First: m.Time, Last: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if l, ok, err := f.q.Letters.OfStart(t.Context(), "sink", seq); err != nil || !ok || l.Run != m.Run {
		t.Errorf("letter of start %d: %+v, %v, %v, want that of %s", seq, l, ok, err, m.Run)
	}
}

// When START is full, the starts that find no room say so, and stay where they
// are. What is forged in a line becomes a fault.
func TestLineUpInAFullStream(t *testing.T) {
	t.Parallel()
	f := newFleet(t, natstest.One(t).Conn(), Topology{Limits: Limits{StartMsgs: 2}}, brisk())
	f.publish("pawl.start.sink", nil, `{}`)
	m := f.fetch1(ConsumerStart)
	line := queue.Line{Priority: queue.High, Class: 1}
	f.publish(f.q.link.subj.line(line, "sink"), nil, `{}`)
	if err := f.q.Source.LineUp(t.Context(), []queue.Message{m}, []queue.Line{line})[0]; !errors.Is(err, worker.ErrFull) || errors.Is(err, worker.ErrUnavailable) {
		t.Errorf("line up in a full stream: %v, want ErrFull", err)
	}
	if forged := f.fetch1(line.Consumer()); forged.Fault == nil {
		t.Errorf("a start that nobody put in line has no fault: %+v", forged)
	}
}

// Many starts go as one batch where the queue groups; what finds no room says
// so, one by one, and the rest is in line.
func TestLineUpAsABatch(t *testing.T) {
	t.Parallel()
	opts := brisk()
	opts.Group = GroupAlways
	f := newFleet(t, natstest.One(t).Conn(), Topology{Limits: Limits{StartMsgs: 50}}, opts)
	line := queue.Line{Priority: queue.Low, Class: 1}
	var all []queue.Message
	for range 30 {
		f.publish("pawl.start.sink", nil, `{}`)
	}
	for len(all) < 30 {
		msgs, err := f.q.Source.Fetch(t.Context(), ConsumerStart, 30, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, msgs...)
	}
	lineUp := func(msgs []queue.Message) (full int) {
		t.Helper()
		for i, err := range f.q.Source.LineUp(t.Context(), msgs, slices.Repeat([]queue.Line{line}, len(msgs))) {
			switch {
			case errors.Is(err, worker.ErrFull):
				full++
			case err != nil:
				t.Errorf("line up: %v", err)
			default:
				if err := msgs[i].Ack(); err != nil {
					t.Error(err)
				}
			}
		}
		return full
	}
	if n := lineUp(all[:15]); n != 0 {
		t.Errorf("%d of 15 find no room beside 30 in a stream of 50", n)
	}
	natstest.Await(t, "the acks", func() bool { return f.messages(streamStart) == 30 })
	f.publish("pawl.start.sink", nil, `{}`)
	for range 9 {
		f.publish("pawl.start.other", nil, `{}`)
	}
	if n := lineUp(all[15:]); n != 5 {
		t.Errorf("%d of 15 find no room beside 40 in a stream of 50, want 5", n)
	}
	runs := map[string]bool{}
	for len(runs) < 25 {
		msgs, err := f.q.Source.Fetch(t.Context(), line.Consumer(), 30, 10*time.Second)
		if err != nil || len(msgs) == 0 {
			t.Fatalf("%d in line, %v, want 25", len(runs), err)
		}
		for _, m := range msgs {
			runs[m.Run] = true
		}
	}
}
