package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// vigil is a machine that sleeps, and may take an hour; its call can be undone.
type vigil struct {
	Sleeps bool `json:"sleeps"`
}

const vigilCall statemachine.Effect[int, int] = "vigil.call"

func vigils() *statemachine.Definition {
	m := statemachine.New[vigil]("vigil", 1)
	m.Deadline(time.Hour)
	m.Decide("first").When(func(v *vigil) bool { return !v.Sleeps }, "call")
	m.State("sleep", statemachine.Sleep(func(*vigil) time.Duration { return time.Minute }, nil)).Then("done")
	m.State("call", statemachine.Call[vigil](vigilCall, nil, nil)).Undo(statemachine.Call[vigil](vigilCall, nil, nil)).Then("done")
	m.Succeed("done")
	return m.Definitions()[0]
}

// after is the record after another, by one event.
func after(t *testing.T, from *statemachine.Stored, e statemachine.Event) *statemachine.Stored {
	t.Helper()
	f := vigils().Begin("r", from, statemachine.Env{Now: e.At, Place: func(*statemachine.Pending) statemachine.Place { return statemachine.Inline }})
	if o, err := f.Apply(e); o != statemachine.Applied || err != nil {
		t.Fatalf("Apply(%s) = %v, %v", e.Kind, o, err)
	}
	sealed, err := f.Seal()
	if err != nil {
		t.Fatal(err)
	}
	r := &sealed.Stored
	r.Seq = 1
	if from != nil {
		r.Seq = from.Seq + 1
	}
	return r
}

func waitOf(t *testing.T, r *statemachine.Stored, kind statemachine.WaitKind) statemachine.Wait {
	t.Helper()
	i := slices.IndexFunc(r.Waits, func(w statemachine.Wait) bool { return w.Kind == kind })
	if i < 0 {
		t.Fatalf("no %s among %+v", kind, r.Waits)
	}
	return r.Waits[i]
}

// dueMessage is the message of a wait's timer.
func dueMessage(t *testing.T, w statemachine.Wait, at time.Time) *held {
	t.Helper()
	h, err := admit(queue.Message{Kind: queue.Due, Run: "r", Name: statemachine.TimerEffect, ID: w.ID, Try: w.Try, Asked: 1, Time: at, Delivery: &delivery{}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// postponed is a source that notes until when messages are postponed.
type postponed struct {
	Source
	until []time.Time
}

func (p *postponed) Postpone(_ context.Context, _ queue.Message, at time.Time, _ int) error {
	p.until = append(p.until, at)
	return nil
}

// A timer of a wait that fires before its time, as by a broker whose clock was
// set back, comes again at its time: it would be early for ever, and the sweeper
// finds it stored.
func TestEarlyTimerOfAWaitComesAgain(t *testing.T) {
	r := after(t, nil, statemachine.Event{Kind: statemachine.EventStart, At: time.Now(), Body: []byte(`{"sleeps":true}`)})
	w := waitOf(t, r, statemachine.WaitSleep)
	l, source := bareLane(), &postponed{}
	l.w.ports.Source = source
	h := dueMessage(t, w, w.Due.Add(-time.Second))
	s := &slot{run: "r", known: true, read: true, state: r, flushed: r.Txid, held: []*held{h}}
	f := vigils().Begin("r", r, statemachine.Env{Now: time.Now()})
	out := &folded{}
	l.foldMessage(t.Context(), s, f, out, h, "vigil", false)
	if len(out.held) != 0 || len(source.until) != 1 || !source.until[0].Equal(*w.Due) {
		t.Errorf("%d events applied, postponed to %s, want %s", len(out.held), source.until, w.Due)
	}
	if !s.mayAck(h) {
		t.Error("the original stays, beside its copy")
	}
}

// A deadline lets nothing that a pause holds be queued while its committer may
// be about to call it.
func TestDeadlineLeavesWhatAPauseHeldAlone(t *testing.T) {
	long := time.Now().Add(-2 * time.Hour)
	started := after(t, nil, statemachine.Event{Kind: statemachine.EventStart, At: long, Body: []byte(`{}`)})
	for name, c := range map[string]struct {
		paused time.Time
		taken  int
	}{
		"just now":   {time.Now(), 0},
		"a time ago": {long.Add(time.Minute), 1},
	} {
		r := after(t, started, statemachine.Event{ID: statemachine.CommandEventID("p"), Kind: statemachine.EventPause, At: c.paused})
		if r.Pending[0].Place != statemachine.Held {
			t.Fatalf("%s: the effect is %s", name, r.Pending[0].Place)
		}
		l := bareLane()
		h := dueMessage(t, waitOf(t, r, statemachine.WaitDeadline), time.Now())
		s := &slot{run: "r", known: true, read: true, state: r, flushed: r.Txid, held: []*held{h}}
		f := vigils().Begin("r", r, statemachine.Env{Now: time.Now()})
		out := &folded{}
		l.foldMessage(t.Context(), s, f, out, h, "vigil", false)
		if len(out.held) != c.taken || s.waiting > 0 != (c.taken == 0) || s.mayAck(h) {
			t.Errorf("paused %s: %d events applied, looked at again in %s, may be acked: %t", name, len(out.held), s.waiting, s.mayAck(h))
		}
	}
}

// lastLog answers every look with one record.
type lastLog struct {
	Log
	last *statemachine.Stored
}

func (l lastLog) Look(context.Context, string) (*statemachine.Stored, error) { return l.last, nil }

// A run that went on without its effect holds the effect's key no longer than
// its last handler may be at it, however often the run moves.
func TestKeyOfAnAbandonedEffectIsFree(t *testing.T) {
	now := time.Now()
	moving := func(pending ...statemachine.Pending) *statemachine.Stored {
		return &statemachine.Stored{Record: &statemachine.Record{Run: "r", At: now, Pending: pending}}
	}
	for _, c := range []struct {
		name  string
		last  *statemachine.Stored
		until time.Time
		want  bool
	}{
		{"its handler may be at it", moving(), now.Add(time.Second), false},
		{"its handler is over", moving(), now.Add(-time.Minute), true},
		{"it is pending still", moving(statemachine.Pending{ID: "e1"}), now.Add(-time.Minute), false},
		{"nobody noted until when", moving(), time.Time{}, false},
	} {
		w := bareLane().w
		w.ports.Log, w.handlers = lastLog{last: c.last}, t.Context()
		have := LedgerEntry{Run: "r", Effect: "e1", State: LedgerClaimed, Until: c.until}
		if got := w.deserted(have, 10*time.Minute, nil); got != c.want {
			t.Errorf("%s: deserted is %t", c.name, got)
		}
	}
}
