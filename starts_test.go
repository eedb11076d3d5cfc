package pawl_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/statemachine"
)

const oneNoop = `{"steps":[{"do":"noop"}]}`

// letters waits until there are n letters and returns them all.
func (f *fleet) letters(n int) []deadletter.Letter {
	f.t.Helper()
	var all []deadletter.Letter
	ok := waits(30*time.Second, func() bool {
		all = nil
		for l, err := range f.queue.Letters.All(f.t.Context()) {
			if err != nil {
				f.t.Fatal(err)
			}
			all = append(all, l)
		}
		return len(all) >= n
	})
	if !ok {
		f.t.Fatalf("%d letters, want %d: %+v", len(all), n, all)
	}
	return all
}

// drained waits until nothing is left in the queue of starts.
func (f *fleet) drained(stream string) {
	f.t.Helper()
	eventually(f.t, 30*time.Second, "an empty "+stream, func() bool {
		s, err := f.js.Stream(f.t.Context(), stream)
		if err != nil {
			f.t.Fatal(err)
		}
		return s.CachedInfo().State.Msgs == 0
	})
}

// The same start a hundred times, quickly and slowly, is one run.
func TestSameStartManyTimesIsOneRun(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	for range 50 {
		f.start("kitchensink", "once", oneNoop)
	}
	first := f.ended("once")
	for i := range 50 { // slowly: each after the one before was taken
		f.start("kitchensink", "once", ` { "steps": [ {"do":"noop"} ] } `)
		if i%10 == 0 {
			f.drained("PAWL_START")
		}
	}
	f.drained("PAWL_START")
	if r := f.last("once"); r.Seq != first.Seq || r.Status != statemachine.StatusSucceeded {
		t.Errorf("the run moved after it had ended: %s", describe(r))
	}
	if h := f.history("once"); len(h) != 2 {
		t.Errorf("%d records, want 2", len(h))
	}
	if n := len(f.letters(0)); n != 0 {
		t.Errorf("%d letters, want none", n)
	}
}

// The same id for another machine, or with another input, is a letter: nothing
// is silent, and the run is not touched.
func TestSameIDForAnotherStartIsALetter(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	f.start("kitchensink", "taken", oneNoop)
	first := f.ended("taken")
	report, _ := sample("report")
	f.start("report", "taken", report)
	f.start("kitchensink", "taken", `{"steps":[{"do":"noop","repeat":2}]}`)
	for _, l := range f.letters(2) {
		if l.Class != "id_conflict" || l.Run != "taken" || l.Kind != deadletter.KindStart || !strings.Contains(l.Cause, `"taken"`) {
			t.Errorf("letter %+v, want an id_conflict of run taken", l)
		}
	}
	f.drained("PAWL_START")
	if r := f.last("taken"); r.Seq != first.Seq {
		t.Errorf("the run moved: %s", describe(r))
	}
}

// Two starts of two machines under one id, at the same moment: one run, and a
// letter for the other.
func TestRacingStartsUnderOneID(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	for i := range 20 {
		report, _ := sample("report")
		f.start("report", fmt.Sprintf("race-%d", i), report)
		f.start("kitchensink", fmt.Sprintf("race-%d", i), oneNoop)
	}
	startProcess(t, f.env)
	startProcess(t, f.env)
	for i := range 20 {
		f.ended(fmt.Sprintf("race-%d", i))
	}
	f.drained("PAWL_START")
	if n := len(f.letters(20)); n != 20 {
		t.Errorf("%d letters, want 20", n)
	}
}

// Starts without an id each make a run of their own; a message id serves as
// one where no other is given.
func TestStartIDs(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	f.start("kitchensink", "", oneNoop)
	f.start("kitchensink", "", oneNoop)
	m := nats.NewMsg("pawl.start.kitchensink")
	m.Header.Set("Nats-Msg-Id", "by-message-id")
	m.Data = []byte(oneNoop)
	if _, err := f.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	f.ended("by-message-id")
	eventually(t, 30*time.Second, "three runs", func() bool { return len(f.lastOf(t.Context())) == 3 })
}

// What no run can take is refused with one clear line and dead-lettered: not
// dropped, not tried for ever. Nothing else is touched and the worker goes on.
func TestBadStarts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, machine string
		header        map[string]string
		body          string
		class, cause  string
	}{
		{name: "unknown machine", machine: "nosuch", body: `{}`, class: "unknown_machine", cause: `"nosuch"`},
		{name: "malformed JSON", machine: "report", body: `{"source":`, class: "malformed", cause: "not JSON"},
		{name: "no body", machine: "report", body: ``, class: "malformed", cause: "no body"},
		{name: "field of the wrong type", machine: "report", body: `{"to":5}`, class: "invalid_input", cause: "to"},
		{name: "unknown field", machine: "kitchensink", body: `{"stepz":[]}`, class: "invalid_input", cause: "stepz"},
		{name: "unknown effect", machine: "kitchensink", body: `{"steps":[{"do":"nosuch"}]}`, class: "refused", cause: `"nosuch"`},
		{name: "too large for a run", machine: "kitchensink", body: `{"steps":[{"do":"noop","input":"` + strings.Repeat("x", 150<<10) + `"}]}`, class: "too_large", cause: "limit"},
		{name: "nested too deep", machine: "kitchensink", body: `{"steps":[{"do":"noop","input":` + strings.Repeat("[", 9990) + strings.Repeat("]", 9990) + `}]}`, class: "too_large", cause: "levels"},
		{name: "nested beyond JSON", machine: "kitchensink", body: strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), class: "malformed", cause: "depth"},
		{name: "id of 5000 characters", machine: "kitchensink", header: map[string]string{"Pawl-Run-Id": strings.Repeat("x", 5000)}, body: oneNoop, class: "malformed", cause: "256"},
		{name: "unknown version", machine: "kitchensink", header: map[string]string{"Pawl-Machine-Version": "7"}, body: oneNoop, class: "unknown_version", cause: "7"},
		{name: "version that is no number", machine: "kitchensink", header: map[string]string{"Pawl-Machine-Version": "new"}, body: oneNoop, class: "malformed", cause: "new"},
	}
	f := realServers(t)
	startProcess(t, f.env)
	for i, tt := range tests {
		m := nats.NewMsg("pawl.start." + tt.machine)
		for k, v := range tt.header {
			m.Header[k] = []string{v}
		}
		m.Data = []byte(tt.body)
		if _, err := f.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatalf("%s: publish: %v", tt.name, err)
		}
		l := f.letters(i + 1)[i]
		if l.Class != tt.class || !strings.Contains(l.Cause, tt.cause) || strings.Contains(l.Cause, "\n") {
			t.Errorf("%s: letter says %s: %q, want %s: …%s…", tt.name, l.Class, l.Cause, tt.class, tt.cause)
		}
		if string(l.Body) != tt.body {
			t.Errorf("%s: the letter's body has %d bytes, want the %d of the original", tt.name, len(l.Body), len(tt.body))
		}
	}
	f.drained("PAWL_START")
	f.start("kitchensink", "after", oneNoop)
	f.ended("after")
	if all := f.lastOf(t.Context()); len(all) != 1 {
		t.Errorf("%d runs, want only the good one", len(all))
	}
}

// A body that is too large for START is refused to the producer.
func TestStartOfFiveMegabytesIsRefusedAtThePublish(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	_, err := f.js.Publish(t.Context(), "pawl.start.report", make([]byte, 5<<20))
	if err == nil || !strings.Contains(err.Error(), "maximum payload") {
		t.Errorf("publish of 5 MB: %v, want a refusal that names the payload", err)
	}
	_, err = f.js.Publish(t.Context(), "pawl.start.report", make([]byte, 950<<10))
	if err == nil || !strings.Contains(err.Error(), "exceeds") {
		t.Errorf("publish of 950 KB: %v, want a refusal that names the size", err)
	}
}

// Run ids are any UTF-8: what would be a wildcard, a separator or a brace
// somewhere below is a run of its own, and no other run is read or touched.
func TestOddRunIDs(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	f.start("kitchensink", "plain", oneNoop)
	plain := f.ended("plain")
	ids := []string{"*", ">", "a.b", "a b", "}", "{x}y", "运行-四千", "_", "~", "a/b", "a\tb", strings.Repeat("long", 64)}
	for _, id := range ids {
		f.start("kitchensink", id, oneNoop)
	}
	for _, id := range ids {
		if r := f.ended(id); r.Run != id || r.Status != statemachine.StatusSucceeded || r.Rev != 2 {
			t.Errorf("run %q: %s", id, describe(r))
		}
	}
	if r := f.last("plain"); r.Seq != plain.Seq {
		t.Errorf("another run was touched: %s", describe(r))
	}
	if n := len(f.letters(0)); n != 0 {
		t.Errorf("%d letters, want none", n)
	}
	if n := len(f.lastOf(t.Context())); n != len(ids)+1 {
		t.Errorf("%d runs, want %d", n, len(ids)+1)
	}
}

// A run id with NUL cannot be made of a header by every client; where it
// arrives, it is a run like any other, or a letter: never silence.
func TestRunIDWithNUL(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	f.start("kitchensink", "a\x00b", oneNoop)
	eventually(t, 30*time.Second, "a run or a letter", func() bool { return f.last("a\x00b") != nil || len(f.letters(0)) == 1 })
	f.drained("PAWL_START")
}
