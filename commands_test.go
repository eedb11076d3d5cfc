package pawl_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// command sends a command to a run.
func (f *fleet) command(kind statemachine.EventKind, run, id string, c statemachine.Command) {
	f.t.Helper()
	if err := f.queue.Sender.Command(f.t.Context(), api.Command{Run: run, Kind: kind, ID: id, Command: c}); err != nil {
		f.t.Fatal(err)
	}
}

// applied waits until a run has applied the command with an id.
func (f *fleet) applied(run, id string) *statemachine.Stored {
	f.t.Helper()
	return f.reaches(run, func(r *statemachine.Stored) bool { return slices.Contains(r.Applied, statemachine.CommandEventID(id)) })
}

// ends counts the messages on FINISHED by run, and checks each against the
// run's last record.
func (f *fleet) ends() map[string]int {
	f.t.Helper()
	s, err := f.js.Stream(f.t.Context(), "PAWL_FINISHED")
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]int{}
	for seq := max(1, s.CachedInfo().State.FirstSeq); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(f.t.Context(), seq)
		if err != nil {
			f.t.Fatal(err)
		}
		var end struct {
			Run, Machine, State string
			Status              statemachine.Status
			Revision            uint64
			Data                json.RawMessage
		}
		if err := json.Unmarshal(m.Data, &end); err != nil {
			f.t.Fatal(err)
		}
		r := f.last(end.Run)
		if all[end.Run]++; end.Status != r.Status || end.Revision != r.Rev || end.State != r.To || string(end.Data) != string(r.Data) || m.Subject != "pawl.finished."+r.Machine {
			f.t.Errorf("end on %s: %s, and %s", m.Subject, m.Data, describe(r))
		}
	}
	return all
}

// toldOnce checks that so many runs have ended and each end was told once.
func (f *fleet) toldOnce(runs int) {
	f.t.Helper()
	ends := f.ends()
	for run, n := range ends {
		if n != 1 {
			f.t.Errorf("the end of %s was told %d times", run, n)
		}
	}
	if len(ends) != runs {
		f.t.Errorf("%d ends, want %d", len(ends), runs)
	}
}

// idle waits until the queues of the fleet are empty: nothing is under way.
func (f *fleet) idle() {
	f.t.Helper()
	for _, s := range []string{"PAWL_START", "PAWL_SIGNAL", "PAWL_EVENTS", "PAWL_EFFECTS", "PAWL_TIMERS"} {
		f.drained(s)
	}
}

// Half of the runs are cancelled while two workers work on all of them: those
// end as cancelled, the others as if nothing had been, and each end is told
// once.
func TestCancelUnderLoadDropsNothingElse(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	told := make(chan struct{})
	release := sync.OnceFunc(func() { close(told) })
	t.Cleanup(release)
	s := newSink(t, func(n int) time.Duration {
		if n > 60 { // what is under way then is so when the cancels come
			<-told
		}
		return 5 * time.Millisecond
	})
	startProcess(t, env(f.env, slowly))
	startProcess(t, env(f.env, slowly))
	const runs = 100
	for i := range runs {
		f.start("kitchensink", fmt.Sprintf("c-%d", i), killScript(s.URL, i))
	}
	eventually(t, 60*time.Second, "some calls", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.total >= 60 })
	for i := 0; i < runs; i += 2 {
		f.command(statemachine.EventCancel, fmt.Sprintf("c-%d", i), "c", statemachine.Command{By: "anna", Reason: "ordered twice"})
	}
	release()
	cancelled := 0
	for i := range runs {
		run := fmt.Sprintf("c-%d", i)
		r := f.ended(run)
		switch {
		case i%2 == 0 && r.Status == statemachine.StatusCancelled:
			cancelled++
			if c := r.Cause; c == nil || c.Class != "cancelled" || c.Message != "ordered twice" || c.By != "anna" || len(r.Pending) != 0 {
				t.Errorf("cancelled as %s", describe(r))
			}
		case r.Status != statemachine.StatusSucceeded:
			t.Errorf("%s: %s", run, describe(r))
		default:
			for step := range killSteps {
				s.mu.Lock()
				keys := len(s.keys[fmt.Sprintf(`{"step":"%d/%d"}`, i, step)])
				s.mu.Unlock()
				if keys != 1 {
					t.Errorf("step %d of %s has %d keys, want 1", step, run, keys)
				}
			}
		}
		f.history(run)
	}
	if cancelled == 0 {
		t.Error("all runs had ended before they were cancelled: the test shows nothing")
	}
	f.idle()
	f.toldOnce(runs)
	for _, l := range f.letters(runs/2 - cancelled) { // of those that had ended before
		if l.Class != "run_ended" {
			t.Errorf("letter %+v", l)
		}
	}
}

// A run is paused while its handler works: the result is recorded, nothing new
// starts, and once it is resumed it goes on, each step under one key.
func TestPauseWhileAHandlerRuns(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"", `,"place":"queued"`} {
		t.Run("place"+strings.Trim(place, `,"`), func(t *testing.T) {
			f := realServers(t)
			release := make(chan struct{})
			p := newProvider(t, func(n int, w http.ResponseWriter) {
				if n == 1 {
					<-release
				}
				fmt.Fprint(w, `{}`)
			})
			startProcess(t, f.env)
			f.start("kitchensink", "p", fmt.Sprintf(`{"steps":[{"do":"http.post","input":{"url":%q,"body":{}},"repeat":2%s}]}`, p.URL, place))
			eventually(t, 30*time.Second, "the first call", func() bool { return len(p.called()) == 1 })
			f.command(statemachine.EventPause, "p", "p1", statemachine.Command{By: "anna", Reason: "look first"})
			r := f.applied("p", "p1")
			if r.Status != statemachine.StatusPaused || len(r.Pending) != 1 || r.Pending[0].Place != statemachine.Held {
				t.Fatalf("paused as %s", describe(r))
			}
			f.idle() // nothing waits for the handler any more
			close(release)
			r = f.reaches("p", func(r *statemachine.Stored) bool { return r.Events[0].Kind == statemachine.EventResult })
			if r.Status != statemachine.StatusPaused || len(r.Pending) != 1 || r.Pending[0].Place != statemachine.Held || r.Pending[0].Try != 1 {
				t.Fatalf("after the result: %s", describe(r))
			}
			f.command(statemachine.EventPause, "p", "p2", statemachine.Command{}) // changes nothing
			r = f.applied("p", "p2")
			f.idle()
			if n := len(p.called()); n != 1 || r.Cause == nil || r.Cause.Message != "look first" {
				t.Fatalf("%d calls while paused, want 1; %s", n, describe(r))
			}
			f.command(statemachine.EventResume, "p", "p3", statemachine.Command{})
			if r := f.ended("p"); r.Status != statemachine.StatusSucceeded {
				t.Errorf("%s", describe(r))
			}
			if keys := p.called(); len(keys) != 2 || len(unique(keys)) != 2 {
				t.Errorf("called with %v, want two keys once each", keys)
			}
			f.idle()
		})
	}
}

// A run is paused and resumed while its handler works: the second performer
// waits for the claim of the first, so nothing is called twice.
func TestPauseAndResumeWhileAHandlerRuns(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	release := make(chan struct{})
	p := newProvider(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			<-release
		}
		fmt.Fprint(w, `{}`)
	})
	startProcess(t, f.env)
	startProcess(t, f.env)
	f.start("kitchensink", "p", postStep(p.URL, ""))
	eventually(t, 30*time.Second, "the first call", func() bool { return len(p.called()) == 1 })
	f.command(statemachine.EventPause, "p", "p1", statemachine.Command{})
	f.applied("p", "p1")
	f.command(statemachine.EventResume, "p", "p2", statemachine.Command{})
	resumed := f.applied("p", "p2")
	all := f.history("p") // a committer that was slow may call what was inline until then
	if d := resumed.At.Sub(all[1].At); all[1].Events[0].Kind != statemachine.EventPause || d < time.Second {
		t.Errorf("resumed %v after the pause, want G at least", d)
	}
	if r := resumed; r.Status != statemachine.StatusRunning || r.Pending[0].Place != statemachine.Queued {
		t.Fatalf("resumed as %s", describe(r))
	}
	f.drained("PAWL_EVENTS")
	close(release)
	if r := f.ended("p"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("%s", describe(r))
	}
	f.idle()
	if n := len(p.called()); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// A wait for the next try that ends while the run is paused is kept for its
// resume.
func TestWaitEndsWhilePaused(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := newProvider(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			http.Error(w, "no", http.StatusInternalServerError)
		}
	})
	startProcess(t, env(f.env, map[string]string{"PAWL_RETRY_INITIAL": "3s"}))
	f.start("kitchensink", "w", postStep(p.URL, ""))
	f.reaches("w", func(r *statemachine.Stored) bool { return r.Pending[0].Place == statemachine.Retry })
	f.command(statemachine.EventPause, "w", "p1", statemachine.Command{})
	f.reaches("w", func(r *statemachine.Stored) bool {
		return r.Status == statemachine.StatusPaused && r.Pending[0].Place == statemachine.Held
	})
	f.idle()
	if n := len(p.called()); n != 1 {
		t.Fatalf("%d calls while paused, want 1", n)
	}
	f.command(statemachine.EventResume, "w", "p2", statemachine.Command{})
	if r := f.ended("w"); r.Status != statemachine.StatusSucceeded || len(p.called()) != 2 {
		t.Errorf("%d calls, %s", len(p.called()), describe(r))
	}
}

// A business key that a cancelled run had claimed is free for others, once a
// handler that may still be at it is over.
func TestCancelledRunsKeyIsTakenOver(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := newProvider(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			http.Error(w, "not today", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, `{"ok":true}`)
	})
	f.env["PAWL_EFFECTS_HTTP_TIMEOUT"], f.env["PAWL_RETRY_MAX"] = "1s", "2s"
	startProcess(t, f.env)
	script := postStep(p.URL, `,"key":"renewal:7"`)
	f.start("kitchensink", "first", script)
	f.reaches("first", func(r *statemachine.Stored) bool {
		return len(r.Pending) == 1 && r.Pending[0].Place == statemachine.Retry
	})
	f.command(statemachine.EventCancel, "first", "c1", statemachine.Command{Reason: "no more"})
	if r := f.ended("first"); r.Status != statemachine.StatusCancelled {
		t.Fatal(describe(r))
	}
	f.start("kitchensink", "second", script)
	if r := f.ended("second"); r.Status != statemachine.StatusSucceeded {
		t.Error(describe(r))
	}
}

// A parked run is redriven: its effect is tried anew under its key, and the
// run finishes. Cancelled while paused, another ends where it is.
func TestRedriveFinishesAParkedRun(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := newProvider(t, func(n int, w http.ResponseWriter) {
		if n <= 2 {
			http.Error(w, "no such thing", http.StatusNotFound)
		}
	})
	startProcess(t, f.env)
	for _, run := range []string{"mends", "ends"} {
		f.start("kitchensink", run, postStep(p.URL, ""))
		f.reaches(run, func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	}
	f.command(statemachine.EventRedrive, "mends", "r1", statemachine.Command{Effect: "another"})
	if r := f.applied("mends", "r1"); r.Status != statemachine.StatusParked {
		t.Errorf("after a redrive of another effect: %s", describe(r))
	}
	f.command(statemachine.EventRedrive, "mends", "r2", statemachine.Command{By: "anna"})
	if r := f.ended("mends"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("%s", describe(r))
	}
	if keys := p.called(); len(keys) != 3 || keys[0] != keys[2] {
		t.Errorf("called with %v, want the first key again", keys)
	}
	f.command(statemachine.EventPause, "ends", "p1", statemachine.Command{})
	f.applied("ends", "p1")
	f.command(statemachine.EventCancel, "ends", "c1", statemachine.Command{})
	if r := f.ended("ends"); r.Status != statemachine.StatusCancelled {
		t.Errorf("%s", describe(r))
	}
	f.idle()
}

// A command that is sent a hundred times is applied once; what no run can take
// is dead-lettered with a line that says why.
func TestCommandIsAppliedOnce(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	release := make(chan struct{})
	p := newProvider(t, func(int, http.ResponseWriter) { <-release })
	startProcess(t, f.env)
	startProcess(t, f.env)
	f.start("kitchensink", "once", postStep(p.URL, ""))
	f.reaches("once", func(r *statemachine.Stored) bool { return true })
	for range 100 {
		f.command(statemachine.EventPause, "once", "p", statemachine.Command{})
	}
	f.command(statemachine.EventResume, "once", "r", statemachine.Command{})
	f.applied("once", "r")
	f.applied("once", "p")
	close(release)
	f.drained("PAWL_EVENTS")
	if r := f.last("once"); r.Status == statemachine.StatusPaused { // the resume was applied first
		f.command(statemachine.EventResume, "once", "r2", statemachine.Command{})
	}
	f.ended("once")
	n := 0
	for _, r := range f.history("once") {
		for _, e := range r.Events {
			if e.Kind == statemachine.EventPause {
				n++
			}
		}
	}
	if n != 1 {
		t.Errorf("applied %d times, want once", n)
	}
	for range 10 { // known to a run that has ended, too
		f.command(statemachine.EventPause, "once", "p", statemachine.Command{})
	}
	f.command(statemachine.EventCancel, "once", "late", statemachine.Command{})
	m := nats.NewMsg("pawl.event.1.once")
	m.Header["Pawl-Event-Id"], m.Header["Pawl-Event-Name"] = []string{"bad"}, []string{"cancel"}
	m.Data = []byte(`{"reson":"x"}`)
	if _, err := f.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	f.command(statemachine.EventCancel, "nobody", "c", statemachine.Command{}) // may yet come to be
	f.drained("PAWL_EVENTS")
	causes := map[string]bool{}
	for _, l := range f.letters(2) {
		causes[l.Class+": "+l.Cause] = true
	}
	if len(causes) != 2 || !causes[`run_ended: run "once" has ended (succeeded): the command cancel was not applied`] || !causes[`malformed: body of a cancel: json: unknown field "reson"`] {
		t.Errorf("letters say %v", causes)
	}
	if s, err := f.js.Stream(t.Context(), "PAWL_TIMERS"); err != nil || s.CachedInfo().State.Msgs != 1 {
		t.Errorf("%v: want the command to a run that is not there to come again", err)
	}
}

// A run of a machine that no worker has any more can be cancelled: by any
// worker, under the definition that it had. Other commands wait for one that
// has the machine.
func TestCancelNeedsNoMachine(t *testing.T) {
	t.Parallel()
	f := served(t)
	must[api.Started](f, api.RunsStart, api.StartRequest{Machine: "gated", ID: "left"})
	f.stop()
	before := f.last("left")
	startProcess(t, f.env) // of another catalogue
	f.command(statemachine.EventPause, "left", "p", statemachine.Command{})
	f.drained("PAWL_EVENTS")
	if r := f.last("left"); r.Seq != before.Seq {
		t.Fatalf("the pause was applied without the machine: %s", describe(r))
	}
	f.command(statemachine.EventCancel, "left", "c", statemachine.Command{By: "anna", Reason: "the machine is gone"})
	r := f.ended("left")
	if r.Status != statemachine.StatusCancelled || r.Def != before.Def || r.Machine != "gated" || len(r.Pending) != 0 || r.Cause == nil || r.Cause.By != "anna" {
		t.Errorf("%s, definition %s, want %s", describe(r), r.Def, before.Def)
	}
	f.drained("PAWL_EVENTS")
	if ends := f.ends(); ends["left"] != 1 {
		t.Errorf("ends: %v", ends)
	}
	f.history("left")
}

// A run is paused while its last handler works, and the worker dies right after
// the append that ends it: no message is left that tells of the run, and its
// end was not told. It is all the same, found by the sweep, with Redis as it
// was and with Redis lost.
func TestEndOfAPausedRunIsToldByTheSweep(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("redis lost %v", lost), func(t *testing.T) {
			f := realServers(t)
			release := make(chan struct{})
			p := newProvider(t, func(int, http.ResponseWriter) { <-release })
			t.Cleanup(func() { close(release) }) // before the provider waits for its requests
			w := startProcess(t, f.env)
			f.start("kitchensink", "p", postStep(p.URL, ""))
			eventually(t, 30*time.Second, "the call", func() bool { return len(p.called()) == 1 })
			f.command(statemachine.EventPause, "p", "p1", statemachine.Command{})
			r := f.applied("p", "p1")
			f.idle()
			w.kill()
			def, ok := catalog(t, t.TempDir()).Definition(r.Machine, r.Version)
			if !ok || len(r.Pending) != 1 {
				t.Fatalf("paused as %s", describe(r))
			}
			fold, e := def.Begin("p", r, statemachine.Env{Now: time.Now(), Build: "test", By: "the dead"}), r.Pending[0]
			o, err := fold.Apply(statemachine.Event{ID: statemachine.ResultEventID(e.ID), Kind: statemachine.EventResult, At: time.Now(), Effect: e.ID, Name: e.Effect, Try: e.Try, Body: json.RawMessage(`{}`)})
			if err != nil || o != statemachine.Applied {
				t.Fatalf("%v, %v", o, err)
			}
			sealed, err := fold.Seal()
			if err != nil {
				t.Fatal(err)
			}
			if a := f.queue.Log.Append(t.Context(), []worker.Append{{Record: sealed.Record, Bytes: sealed.Bytes}})[0]; a.Err != nil || a.Last != nil {
				t.Fatalf("append: %+v", a)
			}
			if r := f.last("p"); r.Status != statemachine.StatusSucceeded || len(f.ends()) != 0 {
				t.Fatalf("before the sweep: %s, ends %v", describe(r), f.ends())
			}
			if lost {
				c := redis.NewClient(&redis.Options{Addr: f.redis})
				defer c.Close()
				if err := c.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			startProcess(t, env(f.env, map[string]string{"PAWL_WORKER_SWEEP_EVERY": "1s"}))
			eventually(t, 60*time.Second, "its end", func() bool { return f.ends()["p"] == 1 })
		})
	}
}

// Workers are killed in the middle: in the end each run's end is told once.
func TestKillWorkerEveryEndIsToldOnce(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	k := newKillCheck(t)
	for i := range killRuns {
		f.start("kitchensink", fmt.Sprintf("kill-%d", i), killScript(k.sink.URL, i))
	}
	for _, calls := range []int{150, 350, 500} {
		p := startProcess(t, env(f.env, slowly))
		k.progress(calls)
		p.kill()
		k.killed(f, 1)
	}
	startProcess(t, f.env)
	k.finish(f)
	f.idle()
	f.toldOnce(killRuns)
}
