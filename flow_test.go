package pawl_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/statemachine"
)

// succeeded checks that runs have succeeded, each effect with its first attempt.
func (f *fleet) succeeded(prefix string, from, to int) {
	f.t.Helper()
	for i := from; i < to; i++ {
		run := fmt.Sprintf("%s%d", prefix, i)
		if r := f.ended(run); r.Status != statemachine.StatusSucceeded {
			f.t.Errorf("%s: %s", run, describe(r))
		}
		for _, h := range f.history(run) {
			for _, p := range h.Pending {
				if p.Attempt != 1 {
					f.t.Errorf("%s: revision %d has attempt %d, want 1", run, h.Rev, p.Attempt)
				}
			}
		}
	}
	if l := f.letters(0); len(l) != 0 {
		f.t.Errorf("letters %+v, want none", l)
	}
}

// configured starts n workers with a config.yaml of their own.
func (f *fleet) configured(n int, yaml string) []*process {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		f.t.Fatal(err)
	}
	var all []*process
	for range n {
		all = append(all, startProcess(f.t, f.env, "--config", path))
	}
	f.pulls(n)
	return all
}

// counter is a provider that takes its time, and counts how many calls are under
// way at once, in all and by the path of the URL.
type counter struct {
	*httptest.Server
	mu        sync.Mutex
	now, most map[string]int
	began     []time.Time
	keys      []string
}

func newCounter(t *testing.T, takes time.Duration) *counter {
	s := &counter{now: map[string]int{}, most: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		count := func(n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, of := range []string{"", r.URL.Path} {
				s.now[of] += n
				s.most[of] = max(s.most[of], s.now[of])
			}
			if n > 0 {
				s.began = append(s.began, time.Now())
				s.keys = append(s.keys, r.URL.Path+" "+r.Header.Get("Idempotency-Key"))
			}
		}
		count(1)
		defer count(-1)
		<-time.After(takes)
	}))
	t.Cleanup(s.Close)
	return s
}

// calls is how many have begun.
func (s *counter) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.began)
}

// Limits on how many effects are under way at once, of a type and of a flow
// key, hold over all workers, also when one of them is killed; what waits
// spends no attempt, and all of it is performed.
func TestConcurrencyIsKeptByAllWorkers(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	s := newCounter(t, 150*time.Millisecond)
	workers := f.configured(3, "effects: {limits: {http.post: {concurrency: 6, per_key: 2}}}")
	const runs = 120
	for i := range runs {
		key := fmt.Sprintf("/account-%d", i%5)
		f.start("kitchensink", fmt.Sprintf("c%d", i), postStep(s.URL+key, fmt.Sprintf(`,"flow":%q`, key)))
	}
	eventually(t, 30*time.Second, "calls", func() bool { return s.calls() > runs/4 })
	workers[0].kill()
	f.succeeded("c", 0, runs)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("at once, in all and by key: %v, of %d calls", s.most, len(s.began))
	for of, n := range s.most {
		if want := map[bool]int{true: 6, false: 2}[of == ""]; n > want {
			t.Errorf("%d calls at once of %q, want at most %d", n, of, want)
		}
	}
	if s.most[""] < 5 {
		t.Errorf("at most %d calls at once: the limit of 6 is not used", s.most[""])
	}
}

// A rate holds over all workers.
func TestRateIsKeptByAllWorkers(t *testing.T) {
	f := realServers(t)
	s := newCounter(t, 0)
	f.configured(3, "effects: {limits: {http.post: {rate: 20/s, rate_per_key: 600/m}}}")
	const runs = 80
	for i := range runs {
		key := map[bool]string{true: "/much", false: "/little"}[i%4 != 0]
		f.start("kitchensink", fmt.Sprintf("c%d", i), postStep(s.URL+key, fmt.Sprintf(`,"flow":%q`, key)))
	}
	f.succeeded("c", 0, runs)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(unique(s.keys)); n != runs {
		t.Fatalf("%d effects were called, want %d", n, runs)
	}
	for i := range s.began {
		for j := i + 1; j < len(s.began); j++ {
			took := s.began[j].Sub(s.began[i])
			// A call arrives a little after its permit is given.
			if most := 20 + int(took.Seconds()*20) + 3; j-i+1 > most {
				t.Fatalf("%d calls within %s, over %d", j-i+1, took, most)
			}
		}
	}
	took := s.began[len(s.began)-1].Sub(s.began[0])
	t.Logf("%d calls in %s", len(s.began), took)
	if took < 4500*time.Millisecond || took > 15*time.Second { // 60 of one key, at 10 a second after the first 10
		t.Errorf("%d calls took %s, want some 5 s", runs, took)
	}
}

// hold pauses something, or lets it go on.
func (f *fleet) hold(n flow.Notice, held bool) {
	f.t.Helper()
	n.Held, n.At = held, time.Now().UTC()
	if err := f.queue.Flow.Post(f.t.Context(), n); err != nil {
		f.t.Fatal(err)
	}
}

// An effect type and a state of a machine are paused for the whole fleet, over
// a loss of Redis and a restart of every worker; what else there is goes on,
// and when they are resumed nothing is missing.
func TestPausesOutliveEverything(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	s := newCounter(t, 0)
	ofType := flow.Notice{Kind: flow.KindEffect, Effect: "http.post"}
	ofState := flow.Notice{Kind: flow.KindState, Machine: "report", State: "email"}
	f.hold(ofType, true)
	f.hold(ofState, true)
	workers := f.configured(2, "")
	const runs = 20
	for i := range runs {
		f.start("kitchensink", fmt.Sprintf("p%d", i), postStep(s.URL, ""))
		f.start("report", fmt.Sprintf("s%d", i), `{"source":{"text":"One. Two."},"to":"a@example.com"}`)
		f.start("kitchensink", fmt.Sprintf("n%d", i), oneNoop)
	}
	f.succeeded("n", 0, runs)
	there := func(when string) {
		t.Helper()
		for i := range runs {
			for prefix, state := range map[string]string{"p": "perform", "s": "email"} {
				run := fmt.Sprintf("%s%d", prefix, i)
				f.reaches(run, func(r *statemachine.Stored) bool {
					return r.To == state && len(r.Pending) == 1 && r.Pending[0].Place == statemachine.Queued
				})
			}
		}
		if n := s.calls(); n > 0 {
			t.Fatalf("%s: %d calls of a type that is paused", when, n)
		}
	}
	there("at first")
	for _, w := range workers {
		w.kill()
	}
	client := redis.NewClient(&redis.Options{Addr: f.redis})
	defer client.Close()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	f.configured(2, "")
	f.start("kitchensink", "m0", oneNoop)
	f.succeeded("m", 0, 1)
	there("after a restart")
	f.hold(ofType, false)
	f.succeeded("p", 0, runs)
	for i := range runs {
		if r := f.last(fmt.Sprintf("s%d", i)); r.To != "email" {
			t.Errorf("s%d got to %s while its state is paused", i, r.To)
		}
	}
	f.hold(ofState, false)
	f.succeeded("s", 0, runs)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(unique(s.keys)); n != runs {
		t.Errorf("%d effects were called, want %d", n, runs)
	}
}

// A provider that answers 429 with Retry-After stops the whole fleet for that
// long: what is asked meanwhile, by any worker, waits without calling, and no
// attempt is spent.
func TestThrottlingStopsTheFleetUntilTheProviderSays(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	const wave, pause = 50, 5 * time.Second
	var mu sync.Mutex
	var told time.Time // when the last of the wave was sent back
	var all sync.WaitGroup
	all.Add(wave)
	closed := make(chan struct{})
	p := newProvider(t, func(n int, w http.ResponseWriter) {
		if n > wave {
			return
		}
		all.Done()
		all.Wait()
		if n%2 == 0 {
			<-closed // half of the wave is told later, when the others have closed the key
		}
		mu.Lock()
		told = time.Now()
		mu.Unlock()
		w.Header().Set("Retry-After", fmt.Sprint(pause.Seconds()))
		w.WriteHeader(http.StatusTooManyRequests)
	})
	startProcess(t, f.env)
	startProcess(t, f.env)
	f.pulls(2)
	for i := range wave {
		f.start("kitchensink", fmt.Sprintf("r%d", i), postStep(p.URL, ""))
	}
	eventually(t, 30*time.Second, "a closed key", func() bool {
		n, _, err := f.queue.Flow.List(t.Context())
		return err == nil && len(n) == 1 && n[0].Kind == flow.KindKey && n[0].Effect == "http.post" && "http://"+n[0].Key == p.URL
	})
	close(closed)
	for i := wave; i < 2*wave; i++ {
		f.start("kitchensink", fmt.Sprintf("r%d", i), postStep(p.URL, ""))
	}
	f.succeeded("r", 0, 2*wave)
	if keys := p.called(); len(keys) < 3*wave || len(unique(keys)) != 2*wave {
		t.Errorf("%d calls under %d keys, want %d under %d", len(keys), len(unique(keys)), 3*wave, 2*wave)
	}
	first, last := p.at[wave].Sub(told), p.at[len(p.at)-1].Sub(told)
	t.Logf("the next call came %s after the wave was sent back, the last after %s", first, last)
	if first < pause {
		t.Errorf("a call came %s after the wave was sent back, want none within %s", first, pause)
	}
}

// A key that is closed holds up nothing but what has it, however much that is,
// and asked queued or where it is asked.
func TestClosedKeyHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	s := newCounter(t, 0)
	closed := flow.Notice{Kind: flow.KindKey, Effect: "http.post", Key: "closed", Until: time.Now().Add(15 * time.Second).UTC()}
	f.hold(closed, true) // before there are workers: those that run hear of it a little later than they get work
	f.configured(2, "effects: {queued: {http.post: 16}}")
	const many, few = 150, 20
	script := func(key string, i int) string {
		return postStep(s.URL+"/"+key, fmt.Sprintf(`,"flow":%q,"place":%q`, key, map[bool]string{true: "queued"}[i%2 == 0]))
	}
	for i := range many {
		f.start("kitchensink", fmt.Sprintf("a%d", i), script("closed", i))
	}
	for i := range few {
		f.start("kitchensink", fmt.Sprintf("b%d", i), script("open", i))
	}
	f.succeeded("b", 0, few)
	f.succeeded("a", 0, many)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(unique(s.keys)); n != many+few { // one that stalls is called again, under the same key
		t.Fatalf("%d effects were called, want %d", n, many+few)
	}
	for i, k := range s.keys {
		early := closed.Until.Sub(s.began[i])
		if early > 0 && strings.HasPrefix(k, "/closed ") {
			t.Errorf("a call came %s before its key was open", early)
		}
		if early <= 0 && strings.HasPrefix(k, "/open ") {
			t.Errorf("a call with another key came %s after the closed key was open", -early)
		}
	}
}
