package pawltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// maxEvents is how many events a run may have that is tried with every fault:
// there are several runs for each.
const maxEvents = 300

// CrashEverywhere runs a machine once as it should go, and then once for each
// thing that may befall it at each of its events:
//
//   - the worker dies before the event is recorded, and another gets it again:
//     an effect that was performed is performed again, under the same key;
//   - the worker dies after the event is recorded: what it was about to perform
//     is handed to the fleet;
//   - the event is delivered twice, or again when everything is over;
//   - of several pending effects, the last is performed first;
//   - a signal of the script comes before it is waited for.
//
// The test fails with the shortest run in which an effect, or what a
// [Provider] does, is doubled or dropped, in which the run is stuck or ends
// elsewhere, or in which the script finds a fault. The script is what happens
// to the run from outside, with [Run.Signal], [Run.Decide], [Run.Advance] and
// so on, and what the author wants to hold; it may be nil. It is called for
// every run and reports to the testing.TB that it is given.
//
// Time moves by a second when a worker dies. Functions given to [On] are called
// once for each key, as those behind a provider are; handlers of a catalog are
// called as often as workers call them. At most 300 events are tried.
func CrashEverywhere(t testing.TB, m sm.Machines, input any, script func(testing.TB, *Run), options ...Option) {
	t.Helper()
	plain := trial(t, fault{}, m, input, script, options)
	if plain.failed() {
		t.Fatalf("with nothing amiss:\n%s", plain)
	}
	if n := len(plain.events); n > maxEvents {
		t.Fatalf("the run has %d events, at most %d are tried with every fault: give it less to do", n, maxEvents)
	}
	tried := map[faultKind]int{}
	for at := range plain.events {
		for _, f := range plain.faultsAt(at) {
			got := trial(t, f, m, input, script, options)
			if !got.hit {
				continue // another event has this place
			}
			tried[f.kind]++
			got.compare(plain)
			if got.failed() {
				t.Fatalf("%s\n%s", f, got)
			}
		}
	}
	t.Logf("%d events; tried: %s", len(plain.events), counts(tried))
}

// faultKind is something that may befall a run.
type faultKind string

const (
	diesBefore faultKind = "the worker dies before the record"
	diesAfter  faultKind = "the worker dies after the record"
	twice      faultKind = "the event is delivered twice"
	late       faultKind = "the event is delivered again in the end"
	lastFirst  faultKind = "the last pending effect is performed first"
	early      faultKind = "a signal comes early"
)

// fault is what befalls a run at its event number at, from 0.
type fault struct {
	kind   faultKind
	at     int
	signal *sm.Event // that comes early
}

func (f fault) String() string {
	if f.signal != nil {
		return fmt.Sprintf("after event %d: signal %s comes early", f.at+1, f.signal.Name)
	}
	return fmt.Sprintf("at event %d: %s", f.at+1, f.kind)
}

// history is what happened in a run with at most one fault. It is shared with
// the run's children.
type history struct {
	fault  fault
	hit    bool // the fault happened
	doubt  bool // an effect was given up because nobody knows what came of it
	quiet  bool // the fault is under way: what happens now is none of the events
	events []sm.Event
	lines  []string // of events, for people
	again  func()   // delivers the event again
	came   map[string]bool

	run    *Run
	doings map[string][]string // what was done in the end
	faults []string            // what is wrong
}

// recorder takes what a run and its script report, in place of the test.
type recorder struct {
	testing.TB
	h *history
}

func (r *recorder) Helper()                   {}
func (r *recorder) Error(args ...any)         { r.h.wrong(strings.TrimSpace(fmt.Sprintln(args...))) }
func (r *recorder) Errorf(f string, a ...any) { r.h.wrong(fmt.Sprintf(f, a...)) }
func (r *recorder) Fatal(args ...any)         { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) Fail()                     { r.h.wrong("the script failed") }
func (r *recorder) FailNow()                  { r.Fail(); runtime.Goexit() }
func (r *recorder) Failed() bool              { return r.h.failed() }
func (r *recorder) Log(...any)                {}
func (r *recorder) Logf(string, ...any)       {}

func (h *history) wrong(what string) { h.faults = append(h.faults, what) }
func (h *history) failed() bool      { return len(h.faults) > 0 }

// String is what is wrong, and how it came to it.
func (h *history) String() string {
	return strings.Join(h.faults, "\n") + "\n" + strings.Join(h.lines, "\n")
}

// trial runs the machine with one fault. It has a goroutine of its own, which
// ends where the script gives up.
func trial(t testing.TB, f fault, m sm.Machines, input any, script func(testing.TB, *Run), options []Option) *history {
	t.Helper()
	h := &history{fault: f, came: map[string]bool{}, run: newRun(t, m, options)}
	tb := &recorder{TB: t, h: h}
	h.run.t, h.run.history = tb, h
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.run.start(input); err != nil {
			tb.Fatalf("the start is refused: %v", err)
		}
		h.run.drive()
		if script != nil {
			script(tb, h.run)
		}
		if h.again != nil {
			h.again()
			h.run.drive()
		}
	}()
	<-done
	h.doings = h.run.doings()
	return h
}

// faultsAt are those that are tried at an event, by what happened without.
func (h *history) faultsAt(at int) []fault {
	all := []fault{{kind: diesBefore, at: at}, {kind: diesAfter, at: at}, {kind: twice, at: at}, {kind: late, at: at}, {kind: lastFirst, at: at}}
	for i := range h.events {
		if e := &h.events[i]; e.Kind == sm.EventSignal && i > at+1 {
			all = append(all, fault{early, at, e})
		}
	}
	return all
}

// now reports whether a fault happens at the event that comes next.
func (h *history) now(kind faultKind) bool {
	return h != nil && !h.quiet && h.fault.kind == kind && len(h.events) == h.fault.at
}

// happens notes that the fault does.
func (h *history) happens() {
	h.hit = true
	h.lines = append(h.lines, "     * "+string(h.fault.kind))
}

// fold folds an event in as it would be with the fault that is tried, if any.
func (r *Run) fold(e sm.Event) (sm.Outcome, error) {
	h := r.history
	if h == nil || h.quiet {
		return r.commit(e)
	}
	if h.came[e.ID] && e.Kind == sm.EventSignal { // early; for the script it comes now
		delete(h.came, e.ID)
		return sm.Applied, nil
	}
	if h.now(diesBefore) && e.Kind != sm.EventResult && e.Kind != sm.EventFailure {
		h.happens()
		if _, _, err := r.draft(e); err != nil {
			return r.commit(e)
		}
		r.now = r.now.Add(time.Second)
	}
	f := h.fault
	hit, name := len(h.events) == f.at, r.subject(e)
	o, err := r.commit(e)
	if err != nil {
		return o, err
	}
	h.note(r, e, name, o)
	if !hit {
		return o, nil
	}
	h.quiet = true
	defer func() { h.quiet = false }()
	switch f.kind {
	case twice:
		h.happens()
		r.repeated(e)
	case late:
		h.hit = true
		h.again = func() { h.happens(); r.repeated(e) }
	case diesAfter:
		r.handOver()
	case early:
		h.hit = true
		if o, err := h.run.commit(*f.signal); err == nil && o == sm.Applied {
			h.came[f.signal.ID] = true
			h.lines = append(h.lines, "     * signal "+f.signal.Name)
		}
	}
	return o, nil
}

// note notes an event that was folded in.
func (h *history) note(r *Run, e sm.Event, name string, o sm.Outcome) {
	line := strings.TrimRight(fmt.Sprintf("%6d %s %s", len(h.events)+1, e.Kind, name), " ")
	if r != h.run {
		line += " of child " + r.id
	}
	if o == sm.Applied {
		line += " → " + r.State()
	} else {
		line += ": " + o.String()
	}
	h.events, h.lines = append(h.events, e), append(h.lines, line)
}

// subject is what an event is about: an effect type, or a name.
func (r *Run) subject(e sm.Event) string {
	if last := r.last(); last != nil && e.Name == "" {
		for i := range last.Pending {
			if p := &last.Pending[i]; p.ID == e.Effect {
				return p.Effect
			}
		}
	}
	return e.Name
}

// repeated delivers an event again, which must change nothing.
func (r *Run) repeated(e sm.Event) {
	if o, err := r.commit(e); err == nil && o == sm.Applied {
		r.history.wrong(fmt.Sprintf("the %s was applied twice", e.Kind))
	}
}

// handOver is what the sweeper does for a worker that died: effects that it was
// about to perform are performed by the fleet.
func (r *Run) handOver() {
	for _, p := range r.last().Pending {
		if p.Place != sm.Inline {
			continue
		}
		if !r.history.hit {
			r.history.happens()
		}
		if o, err := r.commit(sm.Event{Kind: sm.EventQueue, Effect: p.ID}); err != nil || o != sm.Applied {
			r.history.wrong(fmt.Sprintf("effect %s cannot be handed to the fleet: %s, %v", p.Effect, o, err))
		}
	}
}

// unrecorded has the worker die between an attempt and its record, if that is
// the fault to try: what the next worker makes of it.
func (r *Run) unrecorded(p *sm.Pending, key string, result json.RawMessage, err error) (json.RawMessage, error) {
	if !r.history.now(diesBefore) {
		return result, err
	}
	r.history.happens()
	r.now = r.now.Add(time.Second)
	switch policy := r.policy(p.Effect); {
	case policy.InDoubt == sm.Halt:
		r.history.doubt = true
		return nil, sm.Terminal(sm.ClassInDoubt, fmt.Errorf("a worker died at %s", p.Effect))
	case policy.InDoubt == sm.Verify && r.catalog != nil:
		if h, ok := r.catalog.Handler(p.Effect); ok && h.Verify != nil {
			found, verr := h.Verify(r.t.Context(), key, r.resolve(p.Input))
			if !errors.Is(verr, sm.ErrNotDone) {
				return found, verr
			}
		}
	}
	if r.scripts[p.Effect] != nil {
		return result, err // what is behind it answers a key as it did before
	}
	return r.call(p, key)
}

// compare finds what differs from a run in which nothing was amiss.
func (h *history) compare(plain *history) {
	if h.failed() || h.doubt {
		return // what a person decides is another story
	}
	got, want := h.run.last(), plain.run.last()
	switch {
	case want.Status.Ended() && !got.Status.Ended():
		h.wrong(fmt.Sprintf("the run is stuck in state %s, %s; it should have ended in %s", got.To, got.Status, want.To))
	case h.fault.kind == lastFirst:
		return // who comes first may win
	case got.Status != want.Status || got.To != want.To:
		h.wrong(fmt.Sprintf("the run is in state %s, %s; it should be in %s, %s", got.To, got.Status, want.To, want.Status))
	}
	for _, what := range slices.Sorted(maps.Keys(plain.doings)) {
		h.count(what, h.doings[what], plain.doings[what])
	}
	for _, what := range slices.Sorted(maps.Keys(h.doings)) {
		if plain.doings[what] == nil {
			h.count(what, h.doings[what], nil)
		}
	}
}

// count compares how often something was done.
func (h *history) count(what string, got, want []string) {
	if n := len(want); len(got) > n {
		h.wrong(fmt.Sprintf("%s: done %d times, under the keys %q; it should be done %d times", what, len(got), got, n))
	} else if len(got) < n {
		h.wrong(fmt.Sprintf("%s: done %d times, under the keys %q; it should be done %d times, under %q", what, len(got), got, n, want))
	}
}

// doings are the keys under which effects were asked for, and providers did
// something, of the run and its children.
func (r *Run) doings() map[string][]string {
	all := map[string][]string{}
	r.asked(all)
	for i, p := range r.providers {
		all[fmt.Sprintf("provider %d", i+1)] = p.Performed()
	}
	return all
}

func (r *Run) asked(all map[string][]string) {
	for effect, calls := range r.calls {
		for _, c := range calls {
			if name := "effect " + effect; !slices.Contains(all[name], c.Key) {
				all[name] = append(all[name], c.Key)
			}
		}
	}
	for _, c := range r.children {
		c.asked(all)
	}
}

// counts lists how many faults of each kind were tried.
func counts(of map[faultKind]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, of[k]))
	}
	return strings.Join(parts, ", ")
}
