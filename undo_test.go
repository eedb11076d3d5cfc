package pawl_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// travelAgency is a provider of bookings that honours idempotency keys: it
// notes what was booked and cancelled, by traveller, in order, once for a key.
type travelAgency struct {
	*httptest.Server

	mu        sync.Mutex
	answers   map[string]json.RawMessage // by key
	traveller map[string]string          // of a booking
	booked    map[string][]string        // by traveller
	cancelled map[string][]string
	calls     int
	away      bool                         // cancelling fails
	wait      func(n int) <-chan time.Time // before the n-th call is answered
}

func newTravelAgency(t *testing.T, wait func(n int) <-chan time.Time) *travelAgency {
	a := &travelAgency{answers: map[string]json.RawMessage{}, traveller: map[string]string{}, booked: map[string][]string{}, cancelled: map[string][]string{}, wait: wait}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /book", a.serve(a.book))
	mux.HandleFunc("POST /cancel", a.serve(a.cancel))
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

// config is that of a worker whose bookings are made here.
func (a *travelAgency) config(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("effects:\n  bound:\n    travel.book: {url: %q}\n    travel.cancel: {url: %q}\n", a.URL+"/book", a.URL+"/cancel")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// travelOrder is what both are asked.
type travelOrder struct {
	Traveller, What, Booking string
}

func (a *travelAgency) serve(do func(travelOrder) (any, int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var o travelOrder
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.mu.Lock()
		a.calls++
		wait := a.wait(a.calls)
		key := r.Header.Get("Idempotency-Key")
		answer, ok := a.answers[key]
		if !ok {
			made, code := do(o)
			if code != 0 {
				a.mu.Unlock()
				http.Error(w, "closed", code)
				return
			}
			answer, _ = json.Marshal(made)
			a.answers[key] = answer
		}
		a.mu.Unlock()
		select { // it is done; the answer takes a while
		case <-wait:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}
}

func (a *travelAgency) book(o travelOrder) (any, int) {
	id := fmt.Sprintf("b-%d", len(a.traveller))
	a.traveller[id] = o.Traveller
	a.booked[o.Traveller] = append(a.booked[o.Traveller], id)
	return map[string]string{"id": id, "what": o.What, "price": "100.00"}, 0
}

func (a *travelAgency) cancel(o travelOrder) (any, int) {
	if a.away {
		return nil, http.StatusBadRequest // given up at once
	}
	who := a.traveller[o.Booking]
	a.cancelled[who] = append(a.cancelled[who], o.Booking)
	return map[string]string{"booking": o.Booking}, 0
}

func (a *travelAgency) called() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

// check compares what was booked for a run with what was cancelled: nothing if
// it succeeded, else everything, once, the last first.
func (a *travelAgency) check(t *testing.T, r *statemachine.Stored) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	want := slices.Clone(a.booked[r.Run])
	slices.Reverse(want)
	if r.Status == statemachine.StatusSucceeded {
		want = nil
	}
	if got := a.cancelled[r.Run]; !slices.Equal(got, want) {
		t.Errorf("run %s %s: booked were %v, cancelled %v", r.Run, r.Status, a.booked[r.Run], got)
	}
}

func atOnce(int) <-chan time.Time { return time.After(0) }

func tripInput(run string, dear bool) string {
	budget := "300.00"
	if dear {
		budget = "299.99"
	}
	return fmt.Sprintf(`{"traveller":%q,"to":"Gdynia","nights":3,"budget":%q}`, run, budget)
}

// Runs that book are killed with their workers, cancelled and too dear, all at
// once: whatever was booked for a run that did not succeed is cancelled, once,
// the last first.
func TestKillWorkerUndoesOnceInReverse(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	a := newTravelAgency(t, func(n int) <-chan time.Time { return time.After(time.Duration(10+n*37%50) * time.Millisecond) })
	config := a.config(t)
	const runs = 120
	for i := range runs {
		run := fmt.Sprintf("trip-%d", i)
		f.start("trip", run, tripInput(run, i%3 == 0))
	}
	for kill, calls := range []int{80, 200, 320} {
		p := startProcess(t, env(f.env, slowly), "-config", config)
		q := startProcess(t, env(f.env, slowly), "-config", config)
		eventually(t, 60*time.Second, fmt.Sprintf("%d calls", calls), func() bool { return a.called() >= calls })
		for i := kill; i < runs; i += 6 {
			f.command(statemachine.EventCancel, fmt.Sprintf("trip-%d", i), fmt.Sprint(kill), statemachine.Command{Reason: "ill"})
		}
		p.kill()
		q.kill()
	}
	startProcess(t, f.env, "-config", config)
	count := map[statemachine.Status]int{}
	for i := range runs {
		r := f.ended(fmt.Sprintf("trip-%d", i))
		f.history(r.Run)
		count[r.Status]++
		a.check(t, r)
	}
	f.idle()
	f.toldOnce(runs)
	t.Logf("%v, %d calls", count, a.called())
	if len(count) != 3 {
		t.Errorf("ends are %v: the test shows too little", count)
	}
}

// An Undo that fails parks its run in the middle, with a letter; once it is
// redriven, the rest is undone, too.
func TestUndoIsRedriven(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	a := newTravelAgency(t, atOnce)
	a.away = true
	startProcess(t, f.env, "-config", a.config(t))
	f.start("trip", "u", tripInput("u", true))
	r := f.reaches("u", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if len(r.Undos) != 3 || r.Ending == nil || r.Ending.Status != statemachine.StatusFailed || r.To != "too_dear" {
		t.Errorf("parked: %s, undos %v, ending %+v", describe(r), r.Undos, r.Ending)
	}
	if l := f.letters(1)[0]; l.Effect != "travel.cancel" || l.State != "too_dear" {
		t.Errorf("letter %+v", l)
	}
	a.mu.Lock()
	a.away = false
	a.mu.Unlock()
	f.command(statemachine.EventRedrive, "u", "again", statemachine.Command{Reason: "they are open"})
	r = f.ended("u")
	a.check(t, r)
	if r.Status != statemachine.StatusFailed || r.Cause.Class != "over_budget" {
		t.Errorf("ended: %s", describe(r))
	}
}

// A cancel that meets a handler at work waits for its result, and undoes it,
// too; a run that is paused while it is unwound goes on when it is resumed.
func TestCancelWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	open := make(chan time.Time)
	a := newTravelAgency(t, func(n int) <-chan time.Time {
		if n == 2 {
			return open
		}
		return atOnce(n)
	})
	startProcess(t, f.env, "-config", a.config(t))
	f.start("trip", "w", tripInput("w", false))
	eventually(t, 30*time.Second, "two bookings", func() bool { return a.called() == 2 })
	f.command(statemachine.EventCancel, "w", "c", statemachine.Command{Reason: "ill"})
	r := f.applied("w", "c")
	if r.Status != statemachine.StatusRunning || r.Ending == nil || len(r.Undos) != 1 || len(r.Pending) != 1 || r.Pending[0].Effect != "travel.book" {
		t.Errorf("cancelled while a handler works: %s, ending %+v", describe(r), r.Ending)
	}
	f.command(statemachine.EventPause, "w", "p", statemachine.Command{})
	f.applied("w", "p")
	close(open)
	r = f.reaches("w", func(r *statemachine.Stored) bool { return len(r.Undos) == 2 })
	if p := r.Pending; len(p) != 1 || p[0].Effect != "travel.cancel" || p[0].Place != statemachine.Held {
		t.Errorf("paused: %s", describe(r))
	}
	f.command(statemachine.EventResume, "w", "r", statemachine.Command{})
	r = f.ended("w")
	a.check(t, r)
	if r.Status != statemachine.StatusCancelled || a.called() != 4 {
		t.Errorf("ended after %d calls: %s", a.called(), describe(r))
	}
}
