package pawl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/statemachine"
)

// signal publishes a signal as anybody may.
func (f *fleet) signal(run, name, id string, header map[string]string) {
	f.t.Helper()
	m := nats.NewMsg("pawl.signal._." + name)
	m.Header["Pawl-Run-Id"], m.Header["Pawl-Signal-Id"] = []string{run}, []string{id}
	for k, v := range header {
		m.Header[k] = []string{v}
	}
	m.Data = []byte(`{}`)
	if _, err := f.js.PublishMsg(f.t.Context(), m); err != nil {
		f.t.Fatal(err)
	}
}

// What the fleet writes into its own copies of messages is not believed from
// outside: no header of a producer ends a worker.
func TestPostponeCountOfAProducerIsNotBelieved(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := startProcess(t, f.env)
	for i, n := range []string{"-5", "9", "99999999999999999999", "x"} {
		f.signal("nobody", "go", fmt.Sprintf("s%d", i), map[string]string{"Pawl-Tries": n})
	}
	f.drained("PAWL_SIGNAL")
	f.start("kitchensink", "after", oneNoop)
	f.ended("after")
	select {
	case <-p.done:
		t.Errorf("the worker died:\n%s", p.log.tail(3000))
	default:
	}
	if n := len(f.letters(0)); n != 0 {
		t.Errorf("%d letters at once, want the signals postponed", n)
	}
}

// Another graph under a name and version that the fleet runs is refused: the
// process says so and ends.
func TestAnotherDefinitionUnderTheSameVersionIsRefused(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	if _, err := f.queue.Machines.Register(t.Context(), "report", 1, "another-hash"); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, f.env)
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.log.String(), "give it a new version") {
		t.Errorf("exit code %d, want 1 and a line that says what to do:\n%s", code, p.log)
	}
}

// Nothing is judged on the assumption that a run is new: a start of an unknown
// machine, or a bad one, under the id of a live run harms nothing else that is
// told to it.
func TestBadStartsUnderALiveRunHarmNothing(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	f.start("kitchensink", "live", `{"steps":[{"do":"http.post","input":{"url":"http://example.com/"}}]}`) // parked: not allowed
	f.reaches("live", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	f.letters(1)
	const n = 40
	for i := range n {
		f.start("nosuch", "live", `{}`)
		f.start("report", "live", `{"to":5}`)
		f.signal("live", "note", fmt.Sprintf("s%d", i), nil)
	}
	r := f.reaches("live", func(r *statemachine.Stored) bool { return len(r.Inbox) == n })
	if len(r.Applied) != n {
		t.Errorf("%d signals are applied, want %d", len(r.Applied), n)
	}
	for _, l := range f.letters(1 + 2*n) {
		if l.Kind == "start" && l.Class != "id_conflict" {
			t.Errorf("letter %s: %s, want id_conflict", l.Class, l.Cause)
		}
		if l.Kind == "signal" {
			t.Errorf("a signal of a live run was dead-lettered: %s", l.Cause)
		}
	}
}

// Bad and good starts of several machines under one new id: the good one runs,
// each other has its letter, and nothing panics.
func TestStartsOfSeveralMachinesUnderOneNewID(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	for i := range 20 {
		id := fmt.Sprintf("mix-%d", i)
		f.start("nosuch", id, `{}`)
		f.start("report", id, `{"to":5}`)
		f.start("kitchensink", id, oneNoop)
		f.start("report", id, `{"to":6}`)
	}
	p := startProcess(t, f.env)
	for i := range 20 {
		if r := f.ended(fmt.Sprintf("mix-%d", i)); r.Machine != "kitchensink" || r.Status != statemachine.StatusSucceeded {
			t.Errorf("%s", describe(r))
		}
	}
	f.drained("PAWL_START")
	if n := len(f.letters(60)); n != 60 {
		t.Errorf("%d letters, want 60", n)
	}
	if strings.Contains(p.log.String(), "panicked") {
		t.Errorf("a lane panicked:\n%s", p.log.tail(3000))
	}
}

// A signal for a run that has ended is too late: it is a letter, not silence.
func TestSignalForAnEndedRunIsALetter(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	f.start("kitchensink", "over", oneNoop)
	f.ended("over")
	f.signal("over", "late", "s1", nil)
	f.drained("PAWL_SIGNAL")
	if l := f.letters(1); l[0].Class != "run_ended" {
		t.Errorf("letter %+v, want run_ended", l[0])
	}
}

// A run id in a header of another spelling is the run's id: two starts of it
// are one run.
func TestRunIDHeaderInAnySpelling(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	for _, name := range []string{"Pawl-Run-Id", "pawl-run-id", "PAWL-RUN-ID", "Pawl-Run-ID"} {
		m := nats.NewMsg("pawl.start.kitchensink")
		m.Header[name] = []string{"spelled"}
		m.Data = []byte(oneNoop)
		if _, err := f.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	f.ended("spelled")
	f.drained("PAWL_START")
	if n := len(f.lastOf(t.Context())); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
}
