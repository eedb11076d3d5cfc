package pawl_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/statemachine"
)

// room sets how many bytes DLQ takes.
func (f *fleet) room(bytes int64) {
	f.t.Helper()
	s, err := f.js.Stream(f.t.Context(), "PAWL_DLQ")
	if err != nil {
		f.t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxBytes = bytes
	if _, err := f.js.UpdateStream(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
}

// holds counts what a stream holds.
func (f *fleet) holds(stream string) uint64 {
	f.t.Helper()
	s, err := f.js.Stream(f.t.Context(), stream)
	if err != nil {
		f.t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// While DLQ is full, what is given up on stays where it is, whatever it is, and
// everything else goes on; a worker that dies meanwhile changes nothing. Once
// there is room, each letter is stored, once.
func TestFullDLQHoldsWhatIsGivenUp(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	var mended atomic.Bool
	p := newProvider(t, func(_ int, w http.ResponseWriter) {
		if !mended.Load() {
			http.Error(w, "no such thing", http.StatusNotFound)
		}
	})
	addr := freeAddr(t)
	workerEnv := env(f.env, map[string]string{"PAWL_HTTP_ADDR": addr})
	w := startProcess(t, workerEnv)
	f.start("kitchensink", "ended", oneNoop)
	f.ended("ended")
	f.room(3300)
	f.start("nosuch", "first", `"`+strings.Repeat("x", 2000)+`"`)
	f.letters(1)

	const many = 100
	for i := range many {
		f.start("kitchensink", fmt.Sprint("inline-", i), postStep(p.URL, ""))
		f.start("kitchensink", fmt.Sprint("queued-", i), postStep(p.URL, `,"place":"queued"`))
	}
	f.start("nosuch", "unknown", `{}`)
	f.start("kitchensink", "malformed", `{"steps":`)
	f.signal("ended", "late", "s1", nil)
	m := nats.NewMsg("pawl.event.x.y") // no run can take it
	m.Data = []byte(`{`)
	if _, err := f.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	const others = 4
	succeed := func(prefix string) {
		for i := range many {
			if r := f.ended(fmt.Sprint(prefix, i)); r.Status != statemachine.StatusSucceeded {
				t.Errorf("%s%d: %s", prefix, i, describe(r))
			}
		}
	}
	refuses := func(n int) func() bool {
		return func() bool {
			_, body := get("http://" + addr + "/metrics")
			return strings.Contains(body, fmt.Sprintf("\npawl_dlq_refuses %d\n", n))
		}
	}
	eventually(t, 30*time.Second, "the metric", refuses(1))
	parked := func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked }
	for i := range many {
		f.reaches(fmt.Sprint("inline-", i), parked)
		f.reaches(fmt.Sprint("queued-", i), parked)
	}
	for i := range many {
		f.start("kitchensink", fmt.Sprint("healthy-", i), oneNoop)
	}
	succeed("healthy-")
	for stream, want := range map[string]uint64{"PAWL_START": many + 2, "PAWL_EFFECTS": many, "PAWL_SIGNAL": 1, "PAWL_EVENTS": 1} {
		eventually(t, 10*time.Second, fmt.Sprintf("%d originals in %s", want, stream), func() bool { return f.holds(stream) == want })
	}
	if n := strings.Count(w.log.String(), "DLQ takes no letters"); n != 1 {
		t.Errorf("the log says %d times that DLQ takes no letters, want once", n)
	}
	if s, body := get("http://" + addr + "/readyz"); s != 200 {
		t.Errorf("/readyz says %d: %s", s, body)
	}
	w.kill()
	w = startProcess(t, workerEnv)
	eventually(t, 30*time.Second, "the next worker's metric", refuses(1))
	if n := len(f.letters(0)); n != 1 {
		t.Errorf("%d letters in a full DLQ, want 1", n)
	}
	calls := len(p.called())

	f.room(-1)
	const all = 1 + 2*many + others
	eventually(t, 60*time.Second, "all letters", func() bool { return len(f.letters(0)) >= all })
	f.idle()
	ids := map[string]bool{}
	for _, l := range f.letters(all) {
		ids[l.ID] = true
	}
	if n := len(f.letters(0)); n != all || len(ids) != all {
		t.Errorf("%d letters with %d ids, want %d", n, len(ids), all)
	}
	eventually(t, 10*time.Second, "the metric to fall", refuses(0))
	if n := strings.Count(w.log.String(), "DLQ takes letters again"); n != 1 {
		t.Errorf("the log says %d times that DLQ takes letters again, want once", n)
	}
	if n := len(p.called()); n != calls || calls != 2*many {
		t.Errorf("%d calls, %d before there was room, want %d: what is given up on is not tried again", n, calls, 2*many)
	}
	mended.Store(true)
	for i := range many {
		for _, run := range []string{fmt.Sprint("inline-", i), fmt.Sprint("queued-", i)} {
			f.command(statemachine.EventRedrive, run, "again", statemachine.Command{By: "anna", Reason: "mended"})
		}
	}
	succeed("inline-")
	succeed("queued-")
}

// What a person says that an effect with a business key came to is what the key
// stands for: the next run that asks for it is given that.
func TestResolvedKeyIsGivenToOtherRuns(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := newProvider(t, func(_ int, w http.ResponseWriter) { http.Error(w, "no such thing", http.StatusNotFound) })
	startProcess(t, f.env)
	script := postStep(p.URL, `,"key":"pay-4412"`)
	m := nats.NewMsg("pawl.start.kitchensink")
	m.Header["Pawl-Run-Id"], m.Header["Pawl-Tenant"], m.Data = []string{"first"}, []string{"acme"}, []byte(script)
	if _, err := f.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := f.reaches("first", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if l := f.letters(1); l[0].Tenant() != "acme" {
		t.Errorf("the letter is of tenant %q, want that of the run", l[0].Tenant())
	}
	f.command(statemachine.EventResolve, "first", "c1", statemachine.Command{By: "anna", Reason: "it is on the statement", Effect: r.Pending[0].ID, Result: []byte(`{"paid": 1}`)})
	f.ended("first")
	f.start("kitchensink", "second", script)
	f.ended("second")
	for _, run := range []string{"first", "second"} {
		h := f.history(run)
		e := h[len(h)-1]
		if e.Status != statemachine.StatusSucceeded || len(e.Adds["results"]) != 1 || string(e.Adds["results"][0]) != `{"paid":1}` {
			t.Errorf("%s: %s, its results %s", run, describe(e), e.Adds["results"])
		}
	}
	if n := len(p.called()); n != 1 {
		t.Errorf("%d calls, want the one of the first run", n)
	}
	f.idle()
}
