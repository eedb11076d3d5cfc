package pawl_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/statemachine"
)

// payee is a provider that performs what it is asked for by POST, honours no
// key, and tells by GET whether it has performed something under a key. Its
// first answer never arrives.
type payee struct {
	*httptest.Server
	mu        sync.Mutex
	performed map[string]int
	asked     int
	first     chan struct{} // closed when it has performed something for the first time
}

func newPayee(t *testing.T) *payee {
	p := &payee{performed: map[string]int{}, first: make(chan struct{})}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the caller go
		p.mu.Lock()
		if r.Method == http.MethodGet {
			p.asked++
		} else {
			p.performed[key]++
		}
		n, all := p.performed[key], p.total()
		p.mu.Unlock()
		switch {
		case r.Method == http.MethodPost && all == 1:
			close(p.first)
			<-r.Context().Done() // the caller dies
		case n == 0:
			http.NotFound(w, r)
		default:
			fmt.Fprintf(w, `{"paid":%d}`, n)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *payee) total() (n int) {
	for _, c := range p.performed {
		n += c
	}
	return n
}

// counts returns how often it performed something, and was asked whether.
func (p *payee) counts() (performed, asked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total(), p.asked
}

// configured writes a configuration file and returns the arguments that name it.
func configured(t testing.TB, yaml string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--config", path}
}

// forget has Redis lose everything.
func (f *fleet) forget() {
	f.t.Helper()
	c := redis.NewClient(&redis.Options{Addr: f.redis})
	defer c.Close()
	if err := c.FlushAll(f.t.Context()).Err(); err != nil {
		f.t.Fatal(err)
	}
}

// A worker is killed between the provider's success and its record. What
// happens then is what the policy of the effect says: it is performed again
// under the same key, it is found out that it was performed, or a person
// decides. It makes no difference whether Redis forgets everything meanwhile.
func TestCrashBetweenSuccessAndRecord(t *testing.T) {
	for _, policy := range []string{"repeat", "verify", "halt"} {
		for _, how := range []struct{ place, key string }{{place: "inline"}, {place: "queued"}, {"inline", "pay-4412"}} {
			for _, flush := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s%s/flush=%v", policy, how.place, how.key, flush), func(t *testing.T) {
					t.Parallel()
					crashBetween(t, policy, how.place, how.key, flush)
				})
			}
		}
	}
}

func crashBetween(t *testing.T, policy, place, key string, flush bool) {
	f := realServers(t)
	p := newPayee(t)
	args := configured(t, "effects: {policies: {http.post: {timeout: 2s, in_doubt: "+policy+"}}}\n")
	extra := ""
	if place == "queued" {
		extra = `,"place":"queued"`
	}
	if key != "" {
		extra += fmt.Sprintf(`,"key":%q`, key)
	}
	first := startProcess(t, f.env, args...)
	f.start("kitchensink", "pays", fmt.Sprintf(`{"steps":[{"do":"http.post","input":{"url":%q,"verify":%q}%s}]}`, p.URL, p.URL+"/outcome", extra))
	select {
	case <-p.first:
	case <-time.After(30 * time.Second):
		t.Fatal("the provider was not called")
	}
	first.kill()
	if flush {
		f.forget()
	}
	startProcess(t, f.env, args...)
	r := f.reaches("pays", func(r *statemachine.Stored) bool {
		return r.Status == statemachine.StatusParked || r.Status.Ended()
	})
	performed, asked := p.counts()
	switch policy {
	case "repeat":
		if r.Status != statemachine.StatusSucceeded || performed != 2 || asked != 0 || len(p.performed) != 1 {
			t.Errorf("performed %d times under %d keys, asked %d times: %s", performed, len(p.performed), asked, describe(r))
		}
		return
	case "verify":
		if r.Status != statemachine.StatusSucceeded || performed != 1 || asked != 1 {
			t.Errorf("performed %d times, asked %d times: %s", performed, asked, describe(r))
		}
		return
	}
	if r.Status != statemachine.StatusParked || r.Cause.Class != statemachine.ClassInDoubt || performed != 1 || asked != 0 {
		t.Fatalf("performed %d times, asked %d times: %s", performed, asked, describe(r))
	}
	if l := f.letters(1); len(l) != 1 || l[0].Class != statemachine.ClassInDoubt || l[0].Run != "pays" || l[0].Print == "" || !strings.Contains(l[0].Cause, "nobody knows whether") {
		t.Errorf("letters %+v", l)
	}
	want := 1
	if flush { // the person says what it came to
		f.command(statemachine.EventResolve, "pays", "c1", statemachine.Command{By: "anna", Reason: "it is on the statement", Effect: r.Pending[0].ID, Result: []byte(`{"paid":1}`)})
	} else { // the person has it done
		f.command(statemachine.EventRedrive, "pays", "c1", statemachine.Command{By: "anna", Reason: "it is not on the statement"})
		want = 2
	}
	if r = f.ended("pays"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("after the decision: %s", describe(r))
	}
	if performed, _ = p.counts(); performed != want {
		t.Errorf("after the decision it was performed %d times, want %d", performed, want)
	}
	f.idle()
}

// An effect at which worker after worker dies is given up; what only happened
// to be under way beside it is not, and is done. Redis forgets at each death.
func TestEffectThatKillsWorkersIsGivenUp(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	const beside = 20
	deadly := make(chan struct{}) // unbuffered: the one who kills takes each
	var mu sync.Mutex
	calls := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		calls[string(body)]++
		mu.Unlock()
		pause := 300 * time.Millisecond
		if string(body) == `"deadly"` {
			select {
			case deadly <- struct{}{}:
			case <-r.Context().Done():
			}
			pause = time.Minute
		}
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	post := func(run, body string) {
		f.start("kitchensink", run, fmt.Sprintf(`{"steps":[{"do":"http.post","input":{"url":%q,"body":%q}}]}`, s.URL, body))
	}
	post("deadly", "deadly")
	for i := range beside {
		post(fmt.Sprintf("beside-%d", i), fmt.Sprint(i))
	}
	deaths := 0
	p := startProcess(t, f.env)
	deadline := time.After(90 * time.Second)
	for parked := false; !parked; {
		select {
		case <-deadly:
			deaths++
			p.kill()
			f.forget()
			p = startProcess(t, f.env)
		case <-time.After(100 * time.Millisecond):
			r := f.last("deadly")
			parked = r != nil && r.Status == statemachine.StatusParked
		case <-deadline:
			t.Fatalf("after %d deaths: %s", deaths, describe(f.last("deadly")))
		}
	}
	if r := f.last("deadly"); r.Cause.Class != statemachine.ClassCrash || deaths < 3 || deaths > 4 {
		t.Errorf("after %d deaths: %s", deaths, describe(r))
	}
	for i := range beside {
		if r := f.ended(fmt.Sprintf("beside-%d", i)); r.Status != statemachine.StatusSucceeded {
			t.Errorf("%s: %s", r.Run, describe(r))
		}
	}
	if l := f.letters(1); len(l) != 1 || l[0].Run != "deadly" || l[0].Class != statemachine.ClassCrash {
		t.Errorf("letters %+v", l)
	}
	f.idle()
	t.Logf("%d deaths, calls %v", deaths, calls)
}

// The ledger keeps nothing of effects whose results are recorded.
func TestLedgerIsClearedOfWhatIsAnswered(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p := newProvider(t, func(_ int, w http.ResponseWriter) { fmt.Fprint(w, `{}`) })
	startProcess(t, f.env, configured(t, "effects: {policies: {http.post: {in_doubt: halt}}}\n")...)
	const runs = 20
	for i := range runs {
		f.start("kitchensink", fmt.Sprint("run-", i), postStep(p.URL, ""))
	}
	for i := range runs {
		f.ended(fmt.Sprint("run-", i))
	}
	s, err := f.js.Stream(t.Context(), "PAWL_LEDGER")
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	eventually(t, 10*time.Second, "entries that are cleared", func() bool {
		states = nil
		for seq := max(1, s.CachedInfo().State.FirstSeq); seq <= 10*runs; seq++ {
			m, err := s.GetMsg(t.Context(), seq)
			if err != nil {
				continue
			}
			if ttl := m.Header.Get("Nats-TTL"); ttl == "60s" && strings.Contains(string(m.Data), `"cleared"`) {
				states = append(states, "cleared")
			} else {
				states = append(states, string(m.Data))
			}
		}
		return len(states) == runs && len(slices.Compact(states)) == 1
	})
}
