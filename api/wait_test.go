package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// users is how many wait for a run.
func (w *watchers) users(run string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.runs[run]; r != nil {
		return r.users
	}
	return 0
}

// oneBell rings by hand, and counts the looks at a run.
type oneBell struct {
	Log
	mu    sync.Mutex
	ring  map[string]func(statemachine.Status)
	looks atomic.Int64
	moved *statemachine.Stored // the last record from now on
}

func (b *oneBell) Bell(run string, f func(statemachine.Status)) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring[run] = f
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.ring, run)
	}, nil
}

func (b *oneBell) Look(ctx context.Context, run string) (*statemachine.Stored, error) {
	b.looks.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.moved != nil {
		return b.moved, nil
	}
	return b.Log.Look(ctx, run)
}

func (b *oneBell) bells() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ring)
}

// Many who wait for one run cost one bell and the looks of one; records that
// do not end the run cost those who wait for its end nothing.
func TestWaitsShareTheirLooks(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	d := counting("counter")
	w.drive(d, "run-1", 1, 0)
	a := w.answers()
	b := &oneBell{Log: a.Log, ring: map[string]func(statemachine.Status){}}
	a.Log, a.Bell = b, b
	s := newServer(t, a, ServerOptions{})
	const waits = 500
	errs := make(chan error, waits)
	for range waits {
		go func() {
			answer, err := s.Do(context.Background(), Caller{Role: RoleView}, RunsWait, []byte(`{"id":"run-1"}`))
			if err == nil && !strings.Contains(string(answer), `"ended":true`) {
				err = fmt.Errorf("answer %s", answer)
			}
			errs <- err
		}()
	}
	await(t, "all waits", func() bool {
		return s.verbs[RunsWait].lanes.held.Load() == waits && b.looks.Load() > 0 && s.watch.users("run-1") == waits
	})
	b.mu.Lock()
	ring := b.ring["run-1"]
	b.mu.Unlock()
	for range 10_000 {
		ring(statemachine.StatusRunning)
	}
	if n := b.looks.Load(); n > 20 || b.bells() != 1 {
		t.Errorf("%d looks by %d bells, want few by one", n, b.bells())
	}
	end := w.apply(d, "run-1", statemachine.Event{Kind: statemachine.EventResult, Effect: w.runs["run-1"][0].Pending[0].ID, Body: json.RawMessage(`1`)})
	b.mu.Lock()
	b.moved = end
	b.mu.Unlock()
	ring(statemachine.StatusSucceeded)
	for range waits {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if b.bells() != 0 {
		t.Error("a bell is left")
	}
}

// Waits beyond their number are refused at once, and reads go on.
func TestTooManyWaitsAreBusy(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 1, 0)
	s := newServer(t, w.answers(), ServerOptions{Waits: 3})
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			_, err := s.Do(context.Background(), Caller{Role: RoleView}, RunsWait, []byte(`{"id":"run-1"}`))
			errs <- err
		}()
	}
	if err := <-errs; !isClass(err, ClassBusy) {
		t.Errorf("a wait too many = %v, want busy", err)
	}
	if _, err := do[Run](t, s, RunsGet, RunQuery{ID: "run-1"}); err != nil {
		t.Errorf("a read while waits are many: %v", err)
	}
	s.Hurry()
	for range 3 {
		if err := <-errs; err != nil {
			t.Errorf("a wait in a hurry: %v", err)
		}
	}
}

// What looks at a run, or for a letter, beside the request brings out a fault:
// who asked is answered, and the process lives.
func TestFaultBesideARequestHarmsNobody(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "there", 1, 0)
	a := w.answers()
	faulty := &faultyLooks{Log: a.Log}
	faulty.on.Store(true)
	a.Log, a.Letters, a.Sender = faulty, nil, &mailer{w: w, seq: 7} // nil: who looks for letters panics
	s := newServer(t, a, ServerOptions{})
	if _, err := do[Waited](t, s, RunsWait, WaitQuery{ID: "there"}); !isClass(err, ClassInternal) {
		t.Errorf("a wait = %v, want internal", err)
	}
	faulty.on.Store(false)
	if _, err := do[Waited](t, s, RunsWait, WaitQuery{ID: "there", Timeout: new(statemachine.Duration(time.Millisecond))}); err != nil {
		t.Errorf("the next wait = %v", err)
	}
	soon := statemachine.Duration(200 * time.Millisecond)
	if r, err := do[Started](t, s, RunsStart, StartRequest{Machine: "counter", Timeout: &soon}); err != nil || r.Outcome != OutcomeAccepted {
		t.Errorf("start = %+v, %v, want accepted", r, err)
	}
}

type faultyLooks struct {
	Log
	on atomic.Bool
}

func (l *faultyLooks) Look(ctx context.Context, run string) (*statemachine.Stored, error) {
	if l.on.Load() {
		panic("as the test wants it")
	}
	return l.Log.Look(ctx, run)
}

// A wait of no time is answered at once with what there is, as with every other
// verb that takes a time.
func TestWaitOfNoTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTwin(t)
		w.drive(counting("counter"), "there", 1, 0)
		s := newServer(t, w.answers(), ServerOptions{})
		began := time.Now()
		none := statemachine.Duration(0)
		got, err := do[Waited](t, s, RunsWait, WaitQuery{ID: "there", Timeout: &none})
		if err != nil || got.Ended || got.Run.Revision != 1 {
			t.Errorf("wait = %+v, %v, want the run as it is", got, err)
		}
		var e *Error
		if _, err := do[Waited](t, s, RunsWait, WaitQuery{ID: "none", Timeout: &none}); !errors.As(err, &e) || e.Class != ClassNotFound {
			t.Errorf("wait for a run that is not there = %v, want not_found", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("they took %v", took)
		}
	})
}

// A run that moves all the time is not looked at all the time, even for one
// who wants to hear of each record.
func TestHotRunIsLookedAtInMeasure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testHotRun)
}

func testHotRun(t *testing.T) {
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 1, 0)
	a := w.answers()
	b := &oneBell{Log: a.Log, ring: map[string]func(statemachine.Status){}}
	a.Log, a.Bell = b, b
	s := newServer(t, a, ServerOptions{})
	const long = 500 * time.Millisecond
	done := make(chan error, 1)
	go func() {
		_, err := s.Do(context.Background(), Caller{Role: RoleView}, RunsWait, []byte(`{"id":"run-1","revision":1,"timeout":"500ms"}`))
		done <- err
	}()
	synctest.Wait() // until it listens
	b.mu.Lock()
	ring := b.ring["run-1"]
	b.mu.Unlock()
	for open := true; open; {
		select {
		case err := <-done:
			if open = false; err != nil {
				t.Error(err)
			}
		default:
			ring(statemachine.StatusRunning)
			time.Sleep(100 * time.Microsecond) // of a virtual clock
		}
	}
	if n := b.looks.Load(); n > int64(long/mostLeast)+20 {
		t.Errorf("%d looks in %s, want at most one every %s", n, long, mostLeast)
	}
}
