package deadletter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/statemachine"
)

// yard is a fleet in memory: what is sent to it stays in its queue until work
// is called, and is applied once by its id, as workers do.
type yard struct {
	mu      sync.Mutex
	letters map[uint64]Letter
	runs    map[string]*statemachine.Stored
	queue   []func()
	did     map[string]int // what was performed, by run
	blobs   map[string]string
	crash   int // the step at which everything ends; 0: none
	step    int
}

var errCrash = errors.New("killed")

// do takes a step, which a crash may come before or after.
func (y *yard) do(f func()) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	for range 2 {
		if y.step++; y.crash > 0 && y.step >= y.crash {
			return errCrash
		}
		if f != nil {
			f()
			f = nil
		}
	}
	return nil
}

func (y *yard) Last(_ context.Context, runs []string) ([]*statemachine.Stored, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	out := make([]*statemachine.Stored, len(runs))
	for i, r := range runs {
		if s := y.runs[r]; s != nil {
			copied := *s.Record
			out[i] = &statemachine.Stored{Record: &copied}
		}
	}
	return out, nil
}

func (y *yard) Blob(_ context.Context, _, hash string) ([]byte, error) {
	if b, ok := y.blobs[hash]; ok {
		return []byte(b), nil
	}
	return nil, &bulk.RefusedError{Reason: "no such blob"}
}

func (y *yard) Registered(_ context.Context, machine string, version int) (bool, error) {
	return machine == "invoice" && version <= 1, nil
}

func (y *yard) Command(_ context.Context, run, id string, c statemachine.Command) error {
	return y.do(func() {
		y.queue = append(y.queue, func() {
			r := y.runs[run]
			id := statemachine.CommandEventID(id)
			if r == nil || slices.Contains(r.Applied, id) {
				return
			}
			r.Applied = append(r.Applied, id)
			if p := pending(r, c.Effect); p != nil && p.Place == statemachine.Parked && p.Try == c.Try {
				r.Pending = nil
				y.did[run]++
				if c.Input != nil {
					y.did[run+" "+string(c.Input)]++
				}
			}
		})
	})
}

func (y *yard) Redrive(_ context.Context, l Letter) error {
	return y.do(func() {
		y.queue = append(y.queue, func() {
			switch {
			case l.Kind == KindSignal:
				r, id := y.runs[l.Run], statemachine.SignalEventID(l.SignalID())
				if !slices.Contains(r.Applied, id) {
					r.Applied = append(r.Applied, id)
					y.did[l.Run]++
				}
			case y.runs[l.Run] == nil:
				y.runs[l.Run] = &statemachine.Stored{Record: &statemachine.Record{Run: l.Run, Machine: l.Machine, Input: statemachine.Fingerprint(l.Machine, l.Body)}}
				y.did[l.Run]++
			}
		})
	})
}

func (y *yard) Remove(_ context.Context, l Letter) error {
	return y.do(func() { delete(y.letters, l.Seq) })
}

func (y *yard) Next(context.Context, Letter) (string, error) { return "next", nil }
func (y *yard) Known(context.Context, string) (bool, error)  { return false, nil }

// work applies what is in the queue.
func (y *yard) work() {
	for _, f := range y.queue {
		f()
	}
	y.queue = nil
}

func (y *yard) cases() iter.Seq2[*Case, error] {
	var all []*Case
	for _, l := range y.letters {
		all = append(all, &Case{Letter: l})
	}
	return func(yield func(*Case, error) bool) {
		for _, c := range all {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// redrive has all letters tried anew.
func (y *yard) redrive(t *testing.T, edit string) (*bulk.Report, error) {
	t.Helper()
	r := Redriver{Fleet: y, By: "anna", Reason: "mended", Edit: []byte(edit)}
	j := bulk.Job[*Case]{Items: y.cases(), Name: (*Case).Name, Decide: r.Decide, Do: r.Do, Outcome: r.Outcome}
	return j.Run(t.Context())
}

func parkedAt(run, effect string, try int) *statemachine.Stored {
	return &statemachine.Stored{Record: &statemachine.Record{
		Run: run, Machine: "invoice", Version: 1, Status: statemachine.StatusParked,
		Pending: []statemachine.Pending{{ID: effect, Effect: "email.send", Place: statemachine.Parked, Try: try}},
	}}
}

// newYard has letters of all kinds.
func newYard(n int) *yard {
	y := &yard{letters: map[uint64]Letter{}, runs: map[string]*statemachine.Stored{}, did: map[string]int{}}
	for i := range n {
		run, seq := fmt.Sprint("run-", i), uint64(i+1)
		l := Letter{Seq: seq, Kind: KindEffect, Machine: "invoice", Run: run, Effect: "email.send", EffectID: "e", ID: "e:3", Body: []byte(`{"to":"a"}`)}
		switch i % 3 {
		case 0:
			y.runs[run] = parkedAt(run, "e", 3)
		case 1:
			l = Letter{Seq: seq, Kind: KindStart, Machine: "invoice", Run: run, ID: fmt.Sprint("start-", i), Body: []byte(`{"to":"a"}`)}
		case 2:
			y.runs[run] = parkedAt(run, "e", 1)
			l = Letter{Seq: seq, Kind: KindSignal, Run: run, ID: fmt.Sprint("signal-", i), Body: []byte(`{}`)}
		}
		y.letters[seq] = l
	}
	return y
}

// A redrive that ends at any of its steps, with workers fast or slow, and is
// given again, has done each thing once.
func TestRedriveSurvivesACrashAtEachStep(t *testing.T) {
	t.Parallel()
	const letters = 9
	for _, fast := range []bool{false, true} {
		for _, edit := range []string{"", `{"to":"b"}`} {
			for crash := 1; ; crash++ {
				y := newYard(letters)
				y.crash = crash
				_, err := y.redrive(t, edit)
				if fast {
					y.work()
				}
				y.crash = 0
				if err != nil && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				if r, again := y.redrive(t, edit); again != nil || err != nil && r.Refused > 0 {
					t.Fatalf("after a crash at step %d: %+v, %v", crash, r, again)
				}
				y.work()
				for i := range letters {
					if n := y.did[fmt.Sprint("run-", i)]; n != 1 {
						t.Errorf("crash at step %d, fast %v: run-%d was done %d times", crash, fast, i, n)
					}
				}
				if len(y.letters) > 0 {
					t.Errorf("crash at step %d: %d letters are left", crash, len(y.letters))
				}
				if err == nil {
					if crash < letters*4 {
						t.Errorf("only %d steps were tried", crash)
					}
					break
				}
			}
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	effect := Letter{Kind: KindEffect, Machine: "invoice", Run: "r", Effect: "email.send", EffectID: "e", ID: "e:3", Body: []byte(`{"a":1,"b":{"d":1,"c":2}}`)}
	start := Letter{Kind: KindStart, Machine: "invoice", Run: "r", ID: "s", Body: []byte(`{"a": 1}`)}
	signal := Letter{Kind: KindSignal, Run: "r", ID: "g", Headers: map[string]string{"Pawl-Signal-Id": "s1"}}
	with := func(l Letter, f func(*Letter)) Letter { f(&l); return l }
	run := func(f func(*statemachine.Record)) *statemachine.Stored {
		r := parkedAt("r", "e", 3)
		f(r.Record)
		return r
	}
	began := func(machine, input string) *statemachine.Stored {
		return run(func(r *statemachine.Record) {
			r.Machine, r.Input = machine, statemachine.Fingerprint(machine, []byte(input))
		})
	}
	parked := parkedAt("r", "e", 3)
	// of a sleep from which its machine could not go on
	timer := Letter{Kind: KindEffect, Machine: "invoice", Run: "r", State: "nap", Effect: statemachine.TimerEffect, EffectID: "w", ID: "w:1", Body: []byte("null")}
	asleep := func(try int, cause *statemachine.Cause) *statemachine.Stored {
		return run(func(r *statemachine.Record) {
			r.Pending, r.Waits = nil, []statemachine.Wait{{ID: "w", Kind: statemachine.WaitSleep, Due: new(time.Time), Try: try, Cause: cause}}
		})
	}
	large := Letter{Kind: KindEffect, Machine: "invoice", Run: "r", Effect: "email.send", EffectID: "e", ID: "e:3", Body: []byte(`{"$blob":"h","size":9000}`)}
	tests := []struct {
		name   string
		letter Letter
		run    *statemachine.Stored
		edit   string
		want   string
	}{
		{"parked", effect, parked, "", "+perform email.send again"},
		{"edited", effect, parked, `{"a":2}`, "+perform email.send again, edited"},
		{"edited to what it was", effect, parked, `{"b":{"c":2}}`, "+perform email.send again"},
		{"edited, with a business key", effect, run(func(r *statemachine.Record) { r.Pending[0].Key = "k" }), `{"a":2}`, "it has a business key, which stands for the input that it was asked with: it cannot be edited"},
		{"edited to what it was, with a business key", effect, run(func(r *statemachine.Record) { r.Pending[0].Key = "k" }), `{"a":1}`, "+perform email.send again"},
		{"edited, of a blob", large, parked, `{"a":2}`, "+perform email.send again, edited"},
		{"edited, of a blob that is gone", with(large, func(l *Letter) { l.Body = []byte(`{"$blob":"gone","size":9000}`) }), parked, `{"a":2}`, "its input cannot be read"},
		{"edited, too large", effect, parked, `{"a":"` + strings.Repeat("x", mostInput) + `"}`, "its edited input is over 524288 bytes"},
		{"run gone", effect, nil, "", "its run is gone"},
		{"run ended", effect, run(func(r *statemachine.Record) { r.Status = statemachine.StatusCancelled }), "", "its run has ended (cancelled)"},
		{"re-driven already", effect, run(func(r *statemachine.Record) {
			r.Status, r.Applied = statemachine.StatusSucceeded, []string{"cmd:redrive-e:3"}
		}), "", "+remove the letter of what was re-driven already"},
		{"has its result", effect, run(func(r *statemachine.Record) { r.Pending = nil }), "", "its run has moved on, and waits for the effect no more"},
		{"is tried", effect, run(func(r *statemachine.Record) { r.Pending[0].Place, r.Pending[0].Try = statemachine.Queued, 4 }), "", "its run has moved on: the effect is being tried"},
		{"given up again", effect, parkedAt("r", "e", 8), "", "it was tried anew since, and given up again: there is a newer letter"},
		{"restored", effect, parkedAt("r", "e", 2), "", "its run is not yet where the letter was written: what was read is old, or was restored"},
		{"machine gone", effect, run(func(r *statemachine.Record) { r.Version = 2 }), "", "no worker has registered machine invoice version 2"},
		{"no try", with(effect, func(l *Letter) { l.ID = "x" }), parked, "", "the letter does not say which try it is about"},

		{"timer", timer, asleep(1, &statemachine.Cause{}), "", "+let the run go on from nap again"},
		{"timer, edited", timer, asleep(1, &statemachine.Cause{}), `{"a":2}`, "it is a timer, which has no input"},
		{"timer that runs again", timer, asleep(2, nil), "", "its run has moved on: the effect is being tried"},
		{"timer given up again", timer, asleep(2, &statemachine.Cause{}), "", "it was tried anew since, and given up again: there is a newer letter"},
		{"timer of a state that was left", timer, run(func(r *statemachine.Record) { r.Pending = nil }), "", "its run has moved on, and waits for the effect no more"},

		{"start", start, nil, "", "+start invoice again"},
		{"start, edited", start, nil, `{"a":2}`, "+start invoice again, edited"},
		{"start that has begun", start, began("invoice", `{"a":1}`), "", "+remove the letter of what was re-driven already"},
		{"edited start that has begun", start, began("invoice", `{"a":2}`), `{"a":2}`, "+remove the letter of what was re-driven already"},
		{"start of another's id", start, began("invoice", `{"a":2}`), "", "a run of its id exists, with another input or of another machine"},
		{"start of another machine's id", start, began("report", `{"a":1}`), "", "a run of its id exists, with another input or of another machine"},
		{"start of no machine", with(start, func(l *Letter) { l.Machine = "late" }), nil, "", "no worker has registered its machine late"},
		{"start of no version", with(start, func(l *Letter) { l.Headers = map[string]string{"Pawl-Machine-Version": "7"} }), nil, "", "no worker has registered version 7 of its machine invoice"},
		{"start that is not JSON", with(start, func(l *Letter) { l.Body = []byte("{") }), nil, "", "its body is not JSON: have it sent anew, and discard the letter"},
		{"start without a run", with(start, func(l *Letter) { l.Run = "" }), nil, "", "it names no run: have it sent anew, and discard the letter"},

		{"signal", signal, parked, "", "+signal the run again"},
		{"signal to nobody", signal, nil, "", "there is no such run"},
		{"signal to an ended run", signal, run(func(r *statemachine.Record) { r.Status = statemachine.StatusFailed }), "", "its run has ended (failed)"},
		{"signal that the run has", signal, run(func(r *statemachine.Record) { r.Applied = []string{"signal:s1"} }), "", "+remove the letter of what was re-driven already"},
		{"command", Letter{Kind: KindOther, Run: "r"}, parked, "", "it is a message of a kind that is not re-driven: send it anew, or discard it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			y := &yard{runs: map[string]*statemachine.Stored{}, blobs: map[string]string{"h": `{"a":1}`}}
			if tt.run != nil {
				y.runs["r"] = tt.run
			}
			r := Redriver{Fleet: y, Edit: []byte(tt.edit)}
			d, err := r.Decide(t.Context(), []*Case{{Letter: tt.letter}})
			if err != nil {
				t.Fatal(err)
			}
			got := d[0].Reason
			if d[0].Do {
				got = "+" + d[0].What
			}
			if got != tt.want {
				t.Errorf("Decide = %q, want %q", got, tt.want)
			}
		})
	}
	d, err := (&Redriver{Fleet: &yard{}}).Decide(t.Context(), []*Case{{Letter: effect, Err: errors.New("odd")}})
	if err != nil || d[0].Do || d[0].Reason != "the letter cannot be read: odd" {
		t.Errorf("a letter that cannot be read: %+v, %v", d, err)
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	effect := Letter{Kind: KindEffect, Run: "r", EffectID: "e", ID: "e:3"}
	start, signal := Letter{Kind: KindStart, Run: "r"}, Letter{Kind: KindSignal, Run: "r", Headers: map[string]string{"Pawl-Signal-Id": "s1"}}
	of := func(status statemachine.Status, place statemachine.Place, try int) *statemachine.Stored {
		r := parkedAt("r", "e", try)
		if r.Status = status; place == "" {
			r.Pending = nil
		} else {
			r.Pending[0].Place = place
		}
		r.Applied = []string{"signal:s1"}
		return r
	}
	const running, parked, failed = statemachine.StatusRunning, statemachine.StatusParked, statemachine.StatusFailed
	for i, tt := range []struct {
		letter Letter
		run    *statemachine.Stored
		want   bulk.Outcome
	}{
		{effect, of(parked, statemachine.Parked, 3), bulk.Open}, // it has not heard yet
		{effect, of(running, statemachine.Queued, 4), bulk.Open},
		{effect, of(running, statemachine.Retry, 5), bulk.Open},
		{effect, of(parked, statemachine.Parked, 8), bulk.Bad},
		{effect, of(running, "", 0), bulk.Good},
		{effect, of(parked, "", 0), bulk.Good}, // of another effect
		{effect, of(failed, "", 0), bulk.Bad},
		{effect, nil, bulk.Open},
		{start, nil, bulk.Open},
		{start, of(running, statemachine.Inline, 1), bulk.Good},
		{start, of(parked, statemachine.Parked, 5), bulk.Bad},
		{start, of(failed, "", 0), bulk.Bad},
		{signal, of(failed, "", 0), bulk.Good},
	} {
		y := &yard{runs: map[string]*statemachine.Stored{}}
		if tt.run != nil {
			y.runs["r"] = tt.run
		}
		got, err := (&Redriver{Fleet: y}).Outcome(t.Context(), []*Case{{Letter: tt.letter}})
		if err != nil || got[0] != tt.want {
			t.Errorf("outcome %d = %v, %v, want %v", i, got, err, tt.want)
		}
	}
}
