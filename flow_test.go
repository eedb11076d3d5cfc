package pawl_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

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

// configured is a fleet's environment with a config.yaml of its own.
func (f *fleet) configured(yaml string) map[string]string {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		f.t.Fatal(err)
	}
	env := map[string]string{"PAWL_CONFIG": path}
	for k, v := range f.env {
		env[k] = v
	}
	return env
}

// A provider that answers 429 with Retry-After stops the whole fleet for that
// long: what is asked meanwhile, by any worker, waits without calling, and no
// attempt is spent.
func TestThrottlingStopsTheFleetUntilTheProviderSays(t *testing.T) {
	f := realServers(t)
	const wave, pause = 50, 5 * time.Second
	var told time.Time // when the wave was sent back
	var all sync.WaitGroup
	all.Add(wave)
	var once sync.Once
	p := newProvider(t, func(n int, w http.ResponseWriter) {
		if n > wave {
			return
		}
		all.Done()
		all.Wait()
		once.Do(func() { told = time.Now() })
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
	for i := wave; i < 2*wave; i++ {
		f.start("kitchensink", fmt.Sprintf("r%d", i), postStep(p.URL, ""))
	}
	f.succeeded("r", 0, 2*wave)
	if keys := p.called(); len(keys) != 3*wave || len(unique(keys)) != 2*wave {
		t.Errorf("%d calls under %d keys, want %d under %d", len(keys), len(unique(keys)), 3*wave, 2*wave)
	}
	first, last := p.at[wave].Sub(told), p.at[len(p.at)-1].Sub(told)
	t.Logf("the next call came %s after the wave was sent back, the last after %s", first, last)
	if first < pause {
		t.Errorf("a call came %s after the wave was sent back, want none within %s", first, pause)
	}
}
