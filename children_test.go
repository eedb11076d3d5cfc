package pawl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/statemachine"
)

// hasChild is a script whose only step is a child, with a script of its own.
func hasChild(id, steps string) string {
	if id != "" {
		id = fmt.Sprintf(`,"id":%q`, id)
	}
	return fmt.Sprintf(`{"steps":[{"child":{"machine":"kitchensink"%s,"input":{"steps":[%s]}}}]}`, id, steps)
}

// child waits until a run waits for a child, and returns that one's id.
func (f *fleet) child(run string) string {
	f.t.Helper()
	r := f.reaches(run, func(r *statemachine.Stored) bool {
		return len(r.Pending) == 1 && r.Pending[0].Place == statemachine.ChildRun
	})
	return r.Pending[0].Child.Run
}

// is waits until a run has a status, for a class of cause.
func (f *fleet) is(run string, status statemachine.Status, class string) *statemachine.Stored {
	f.t.Helper()
	r := f.reaches(run, func(r *statemachine.Stored) bool { return r.Status == status })
	if class != "" && (r.Cause == nil || r.Cause.Class != class) {
		f.t.Errorf("run %s: %s, want class %s", run, describe(r), class)
	}
	return r
}

// A run has others do its work, and takes what they come to: whatever their ids
// and inputs are like, and whether it can wait for them or not.
func TestChildren(t *testing.T) {
	t.Parallel()
	s := &stuck{fleet: realServers(t), open: make(chan struct{})}
	stop := s.work(catalog(t, t.TempDir()))
	odd := strings.Repeat("a \u0085 long name ", 9) // its token is a hash, and no header carries it as it is
	large := strings.Repeat("x", 20<<10)
	m := nats.NewMsg("pawl.start.kitchensink")
	m.Header["Pawl-Run-Id"], m.Header["Pawl-Tenant"] = []string{"one"}, []string{"acme"}
	m.Data = []byte(hasChild("", `{"do":"noop"},{"child":{"machine":"kitchensink","id":"grandchild","input":{"steps":[{"do":"noop","place":"queued"}]}}}`))
	if _, err := s.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.start("kitchensink", "odd", hasChild(odd, `{"do":"noop"}`))
	s.start("kitchensink", "large", hasChild("large child", `{"do":"noop","input":{"text":"`+large+`"}}`))
	for _, run := range []string{"one", "odd", "large"} {
		if r := s.is(run, statemachine.StatusSucceeded, ""); r.Logs["results"].Count != 1 {
			t.Errorf("run %s has %d results", run, r.Logs["results"].Count)
		}
	}
	if r := s.ended("grandchild"); r.Parent == nil || r.Parent.Level != 2 || r.Tenant != "acme" || !strings.HasPrefix(r.Parent.Run, "one:") {
		t.Errorf("the grandchild is of %+v, tenant %q", r.Parent, r.Tenant)
	}
	s.ended(odd)

	// What cannot begin fails for its parent, and has no letter of its own.
	s.start("kitchensink", "taken", `{"steps":[{"await":"never"}]}`)
	s.reaches("taken", func(r *statemachine.Stored) bool { return r.To == "await" })
	for id, want := range map[string]struct{ input, class string }{
		"conflict": {hasChild("taken", `{"await":"never"}`), statemachine.ClassConflict},
		"unknown":  {`{"steps":[{"child":{"machine":"nosuch"}}]}`, "unknown_machine"},
		"refused":  {hasChild("", `{}`), statemachine.ClassRefused},
		"failed":   {hasChild("", `{"fail":"as told"}`), "scripted_failure"},
	} {
		s.start("kitchensink", id, want.input)
		if r := s.is(id, statemachine.StatusParked, want.class); r.Pending[0].Place != statemachine.Parked {
			t.Errorf("run %s: %s", id, describe(r))
		}
	}
	if l := s.letters(4); len(l) != 4 || slices.ContainsFunc(l, func(l deadletter.Letter) bool { return l.Effect != statemachine.ChildEffect }) {
		t.Errorf("letters: %+v", l)
	}
	s.command(statemachine.EventCancel, "conflict", "c", statemachine.Command{})
	s.ended("conflict")
	if r := s.last("taken"); r.Status.Ended() {
		t.Errorf("the run of another: %s", describe(r))
	}

	// An end travels both ways.
	waits := `{"do":"noop"},{"await":"go"}`
	for _, run := range []string{"cancelled", "terminated", "orphan", "asleep", "away"} {
		s.start("kitchensink", run, hasChild(run+" child", waits))
		s.child(run)
		s.reaches(run+" child", func(r *statemachine.Stored) bool { return r.To == "await" })
	}
	if r := s.becomes("orphan", s.asked, explain.AwaitsChild); r.Child != "orphan child" || !strings.Contains(r.Text, `waits for the end of run "orphan child" of machine kitchensink, which is running in state await`) || r.Help != "pawl run explain 'orphan child'" {
		t.Errorf("explained as %+v", r)
	}
	s.command(statemachine.EventCancel, "cancelled", "c", statemachine.Command{By: "anna", Reason: "over"})
	s.is("cancelled", statemachine.StatusCancelled, statemachine.ClassCancelled)
	s.is("cancelled child", statemachine.StatusCancelled, statemachine.ClassCancelled)
	s.command(statemachine.EventTerminate, "terminated", "c", statemachine.Command{By: "anna", Reason: "over"})
	s.is("terminated", statemachine.StatusCancelled, statemachine.ClassTerminated)
	s.is("terminated child", statemachine.StatusCancelled, statemachine.ClassTerminated)
	s.command(statemachine.EventCancel, "orphan child", "c", statemachine.Command{By: "anna", Reason: "by hand"})
	s.is("orphan", statemachine.StatusParked, statemachine.ClassCancelled)

	// It ends while its parent is paused, and while no worker lives and Redis
	// has forgotten both.
	s.command(statemachine.EventPause, "asleep", "p", statemachine.Command{})
	s.is("asleep", statemachine.StatusPaused, "")
	s.signalTo("asleep child", "go")
	s.ended("asleep child")
	s.reaches("asleep", func(r *statemachine.Stored) bool { return r.Status.Ended() || len(r.Pending) == 0 })
	s.is("asleep", statemachine.StatusSucceeded, "")
	stop()
	if err := redis.NewClient(&redis.Options{Addr: s.redis}).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.signalTo("away child", "go")
	s.work(catalog(t, t.TempDir()))
	s.is("away", statemachine.StatusSucceeded, "")
	s.letters(5)
}

// signalTo sends a signal as any producer would.
func (f *fleet) signalTo(run, name string) {
	f.t.Helper()
	m := &nats.Msg{Subject: "pawl.signal._." + name, Data: []byte(`{}`), Header: nats.Header{"Pawl-Signal-Id": {name}, "Pawl-Run-Id": {run}}}
	if _, err := f.js.PublishMsg(f.t.Context(), m); err != nil {
		f.t.Fatal(err)
	}
}

// A worker is killed again and again in the middle of runs that are children of
// others, and Redis forgets everything: every one ends, each parent has each
// result once, and no call is repeated that was not in flight at a kill.
func TestKillWorkerChildrenNothingLostNothingDoubled(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	k := newKillCheck(t)
	r := redis.NewClient(&redis.Options{Addr: f.redis})
	t.Cleanup(func() { _ = r.Close() })
	const parents = 20
	for p := range parents {
		var steps []string
		for i := range killRuns / parents {
			n := p*killRuns/parents + i
			steps = append(steps, fmt.Sprintf(`{"child":{"machine":"kitchensink","id":"kill-%d","input":%s}}`, n, killScript(k.sink.URL, n)))
		}
		f.start("kitchensink", fmt.Sprintf("parent-%d", p), `{"steps":[`+strings.Join(steps, ",")+`]}`)
	}
	for _, calls := range []int{100, 250, 400} {
		p := startProcess(t, env(f.env, slowly))
		k.progress(calls)
		p.kill()
		k.killed(f, parents/2)
		if err := r.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	startProcess(t, f.env)
	for p := range parents {
		id := fmt.Sprintf("parent-%d", p)
		r := f.is(id, statemachine.StatusSucceeded, "")
		if n := r.Logs["results"].Count; n != killRuns/parents {
			t.Errorf("%s has %d results", id, n)
		}
		var ends []string
		for _, r := range f.history(id) {
			for _, e := range r.Events {
				if e.Kind == statemachine.EventChild {
					ends = append(ends, e.Name)
				}
			}
		}
		for i := range killRuns / parents {
			if want := fmt.Sprintf("kill-%d", p*killRuns/parents+i); i >= len(ends) || ends[i] != want {
				t.Errorf("%s was told of %v", id, ends)
				break
			}
		}
	}
	k.finish(f)
}
