package pawl_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/statemachine"
)

// provider answers as a test tells it, and remembers the keys it was given.
type provider struct {
	*httptest.Server
	mu   sync.Mutex
	keys []string
	at   []time.Time
}

func newProvider(t testing.TB, answer func(n int, w http.ResponseWriter)) *provider {
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.keys, p.at = append(p.keys, r.Header.Get("Idempotency-Key")), append(p.at, time.Now())
		n := len(p.keys)
		p.mu.Unlock()
		answer(n, w)
	}))
	t.Cleanup(p.Close)
	return p
}

// called returns the keys in the order of the calls.
func (p *provider) called() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.keys...)
}

func postStep(url, extra string) string {
	return fmt.Sprintf(`{"steps":[{"do":"http.post","input":{"url":%q,"body":{}}%s}]}`, url, extra)
}

// An effect that always fails is tried five times under one key, with growing
// waits that are in the records, then its run is parked and there is one
// letter; nothing stays in any queue.
func TestFiveAttemptsThenALetter(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := newProvider(t, func(_ int, w http.ResponseWriter) { http.Error(w, "no", http.StatusInternalServerError) })
	startProcess(t, f.env)
	f.start("kitchensink", "fails", postStep(p.URL, ""))
	r := f.reaches("fails", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	keys := p.called()
	if len(keys) != 5 || len(unique(keys)) != 1 {
		t.Errorf("%d calls under %d keys, want 5 under 1", len(keys), len(unique(keys)))
	}
	if len(r.Pending) != 1 || r.Pending[0].Place != statemachine.Parked || r.Pending[0].Attempt != 5 {
		t.Errorf("parked as %s", describe(r))
	}
	wait := 200 * time.Millisecond // retry.initial of the quick fleet
	for _, h := range f.history("fails") {
		e := h.Events[0]
		if e.Kind != statemachine.EventFailure || e.RetryAt == nil {
			continue
		}
		if d := e.RetryAt.Sub(e.At); d < wait/2 || d > wait*3/2 {
			t.Errorf("wait of %s after try %d, want within half and one and a half of %s", d, e.Try, wait)
		}
		wait *= 2
	}
	l := f.letters(1)
	if len(l) != 1 || l[0].Kind != deadletter.KindEffect || l[0].Run != "fails" || l[0].Attempts != 5 || l[0].Key != keys[0] || !strings.Contains(l[0].Cause, "500") {
		t.Errorf("letters %+v", l)
	}
	for _, s := range []string{"PAWL_START", "PAWL_EFFECTS", "PAWL_TIMERS"} {
		f.drained(s)
	}
	for _, h := range f.history("fails") { // never early by broker time
		for _, e := range h.Events {
			if e.Kind == statemachine.EventDue && e.At.Before(*due(f.history("fails"), e)) {
				t.Errorf("try %d was due at %s and came at %s", e.Try, due(f.history("fails"), e), e.At)
			}
		}
	}
}

// due is when the records say that a try may come.
func due(all []*statemachine.Stored, e statemachine.Event) *time.Time {
	for _, r := range all {
		for _, f := range r.Events {
			if f.Kind == statemachine.EventFailure && f.Effect == e.Effect && f.Try == e.Try-1 {
				return f.RetryAt
			}
		}
	}
	return &time.Time{}
}

func unique(all []string) map[string]bool {
	m := map[string]bool{}
	for _, s := range all {
		m[s] = true
	}
	return m
}

// A provider that throttles spends no attempts, and is asked again when it
// says.
func TestThrottlingSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := newProvider(t, func(n int, w http.ResponseWriter) {
		if n <= 7 {
			w.Header().Set("Retry-After", strconv.Itoa(n%2))
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	startProcess(t, f.env)
	f.start("kitchensink", "throttled", postStep(p.URL, ""))
	r := f.ended("throttled")
	if r.Status != statemachine.StatusSucceeded {
		t.Errorf("%s", describe(r))
	}
	if keys := p.called(); len(keys) != 8 || len(unique(keys)) != 1 {
		t.Errorf("%d calls under %d keys, want 8 under 1", len(keys), len(unique(keys)))
	}
	for _, h := range f.history("throttled") {
		for _, pend := range h.Pending {
			if pend.Attempt != 1 {
				t.Fatalf("revision %d has attempt %d, want 1", h.Rev, pend.Attempt)
			}
		}
	}
}

// An answer that no attempt can mend parks the run at once.
func TestTerminalErrorIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := newProvider(t, func(_ int, w http.ResponseWriter) { http.Error(w, "no such thing", http.StatusNotFound) })
	startProcess(t, f.env)
	f.start("kitchensink", "refused", postStep(p.URL, ""))
	f.reaches("refused", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if n := len(p.called()); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	if l := f.letters(1); len(l) != 1 || !strings.Contains(l[0].Cause, "404") {
		t.Errorf("letters %+v", l)
	}
}

// A business key crosses runs: it is performed once, whoever comes second gets
// the recorded result; something else under the same key is refused loudly.
func TestBusinessKeyIsPerformedOnceAcrossRuns(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := newProvider(t, func(n int, w http.ResponseWriter) { fmt.Fprintf(w, `{"answer":%d}`, n) })
	startProcess(t, f.env)
	startProcess(t, f.env)
	script := postStep(p.URL, `,"key":"renewal:c-17:3","repeat":3`)
	for i := range 20 {
		f.start("kitchensink", fmt.Sprintf("k%d", i), script)
	}
	for i := range 20 {
		run := fmt.Sprintf("k%d", i)
		if r := f.ended(run); r.Status != statemachine.StatusSucceeded {
			t.Errorf("%s: %s", run, describe(r))
		}
		for _, h := range f.history(run) {
			for _, e := range h.Events {
				if e.Kind == statemachine.EventResult && string(e.Body) != `{"answer":1}` {
					t.Errorf("%s was given %s, want the recorded result", run, e.Body)
				}
			}
		}
	}
	if keys := p.called(); len(keys) != 1 || keys[0] != "renewal:c-17:3" {
		t.Errorf("called with %v, want once with the key", keys)
	}
	f.start("kitchensink", "other", postStep(p.URL+"/other", `,"key":"renewal:c-17:3"`))
	r := f.reaches("other", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if r.Cause == nil || r.Cause.Class != "key_conflict" {
		t.Errorf("%s, want a key_conflict", describe(r))
	}
	if n := len(p.called()); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// A long run keeps its results in order in a log that is sealed in chunks, one
// record for each step.
func TestLongRunKeepsItsResults(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	f.start("kitchensink", "long", `{"steps":[{"do":"noop","input":{"a":1},"repeat":700},{"do":"noop","input":{"b":2},"place":"queued","repeat":5}]}`)
	r := f.ended("long")
	ref := r.Logs["results"]
	if r.Status != statemachine.StatusSucceeded || ref.Count != 705 || ref.Sealed < 512 || r.Rev != 706 {
		t.Errorf("%s, log %+v, want 705 results in 706 records, most of them sealed", describe(r), ref)
	}
	f.history("long")
}

// Handlers take longer than AckWait, while another worker has nothing to do:
// each is called once all the same (nats.go#1929).
func TestSlowHandlersAreCalledOnce(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	s := newSink(t, func(int) time.Duration { return 2500 * time.Millisecond }) // AckWait is 1.5 s
	startProcess(t, f.env)
	startProcess(t, f.env)
	const runs = 12
	for i := range runs {
		place := ""
		if i%2 == 0 {
			place = `,"place":"queued"`
		}
		f.start("kitchensink", fmt.Sprintf("slow-%d", i), fmt.Sprintf(`{"steps":[{"do":"http.post","input":{"url":%q,"body":%d}%s}]}`, s.URL, i, place))
	}
	for i := range runs {
		if r := f.ended(fmt.Sprintf("slow-%d", i)); r.Status != statemachine.StatusSucceeded {
			t.Error(describe(r))
		}
	}
	calls := s.snapshot()
	for key, n := range calls {
		if n != 1 {
			t.Errorf("key %s was called %d times", key, n)
		}
	}
	if len(calls) != runs {
		t.Errorf("%d keys were called, want %d", len(calls), runs)
	}
}
