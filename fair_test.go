package pawl_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// shut is a provider that answers nobody until it is opened.
func shut(t *testing.T) (p *provider, open func()) {
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	p = newProvider(t, func(int, http.ResponseWriter) { <-gate })
	t.Cleanup(open) // before the server is closed
	return p, open
}

// startsOf publishes starts of a tenant and a priority, named by a prefix.
func (f *fleet) startsOf(n int, prefix, tenant, priority, script string) {
	f.t.Helper()
	acks := make([]func() error, n)
	for i := range n {
		m := nats.NewMsg("pawl.start.kitchensink")
		m.Header["Pawl-Run-Id"] = []string{fmt.Sprint(prefix, i)}
		if tenant != "" {
			m.Header["Pawl-Tenant"] = []string{tenant}
		}
		if priority != "" {
			m.Header["Pawl-Priority"] = []string{priority}
		}
		m.Data = []byte(script)
		a, err := f.js.PublishMsgAsync(m)
		if err != nil {
			f.t.Fatal(err)
		}
		acks[i] = func() error {
			select {
			case <-a.Ok():
				return nil
			case err := <-a.Err():
				return err
			}
		}
	}
	for i, ack := range acks {
		if err := ack(); err != nil {
			f.t.Fatalf("publish start %s%d: %v", prefix, i, err)
		}
	}
}

// waiting is how many messages of consumers of START no worker was given yet.
func (f *fleet) waiting(names ...string) int {
	f.t.Helper()
	n := 0
	for _, name := range names {
		c, err := f.js.Consumer(f.t.Context(), "PAWL_START", name)
		if err != nil {
			f.t.Fatal(err)
		}
		n += int(c.CachedInfo().NumPending)
	}
	return n
}

// lined is how many starts wait in lines.
func (f *fleet) lined() int {
	f.t.Helper()
	var names []string
	for _, l := range queue.Lines() {
		names = append(names, l.Consumer())
	}
	return f.waiting(names...)
}

// began returns all runs in the order in which they began, once there are n, and
// checks that each began once and has succeeded.
func (f *fleet) began(n int) []string {
	f.t.Helper()
	var all map[string]*statemachine.Stored
	eventually(f.t, 120*time.Second, fmt.Sprintf("the ends of %d runs", n), func() bool {
		all = f.lastOf(f.t.Context())
		ended := 0
		for _, r := range all {
			if r.Status.Ended() {
				ended++
			}
		}
		return ended == n
	})
	if len(all) != n {
		f.t.Errorf("%d runs, want %d", len(all), n)
	}
	at := map[uint64]string{}
	var seqs []uint64
	for run, r := range all {
		if r.Status != statemachine.StatusSucceeded || r.Rev != 2 {
			f.t.Errorf("%s: %s", run, describe(r))
		}
		at[r.Prev] = run // of two records
		seqs = append(seqs, r.Prev)
	}
	slices.Sort(seqs)
	order := make([]string, n)
	for i, seq := range seqs {
		order[i] = at[seq]
	}
	return order
}

// Runs of one tenant that wait do not hold up those of another that come later
// and are few, of the same priority or with none that is named.
func TestOneTenantDoesNotStarveAnother(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p, open := shut(t)
	f.configured(2, "worker: {in_flight: 10}")
	const many, few = 3000, 10
	script := postStep(p.URL, "")
	f.startsOf(many, "a", "acme", "", script)
	f.startsOf(many/10, "n", "", "", script) // nobody's are a tenant's like any other
	f.startsOf(few, "b", "brown", "normal", script)
	eventually(t, 60*time.Second, "starts in line", func() bool { return f.waiting("start") == 0 && f.lined() > many })
	open()
	order := f.began(many + many/10 + few)
	last := 0
	for i, run := range order {
		if strings.HasPrefix(run, "b") {
			last = i
		}
	}
	t.Logf("the last of the few was number %d to begin, of %d", last+1, len(order))
	if last > 600 {
		t.Errorf("the last of the few was number %d to begin, want it among the first", last+1)
	}
	if l := f.letters(0); len(l) != 0 {
		t.Errorf("letters %+v, want none", l)
	}
	f.drained("PAWL_START")
}

// Of what waits, high comes before normal and normal before low, whichever came
// first; low gets its share from the beginning.
func TestPriorities(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p, open := shut(t)
	f.configured(1, "worker: {in_flight: 20}")
	const each = 300
	script := postStep(p.URL, "")
	f.startsOf(20, "f", "", "", script) // whatever takes the slots
	eventually(t, 60*time.Second, "no free slot", func() bool { return len(p.called()) == 20 })
	f.startsOf(each, "l", "", "low", script)
	f.startsOf(each, "n", "", "normal", script)
	f.startsOf(each, "h", "", "high", script)
	eventually(t, 60*time.Second, "starts in line", func() bool { return f.waiting("start") == 0 && f.lined() > 3*each-20 })
	open()
	order := f.began(20 + 3*each)
	place := map[byte]int{} // sum of the places
	first := map[byte]int{} // among the first 300
	for i, run := range order {
		if place[run[0]] += i; i < each {
			first[run[0]]++
		}
	}
	t.Logf("mean place of high, normal and low: %d, %d, %d; among the first %d: %d, %d and %d",
		place['h']/each, place['n']/each, place['l']/each, each, first['h'], first['n'], first['l'])
	if place['h'] >= place['n'] || place['n'] >= place['l'] {
		t.Error("high does not begin before normal, and normal before low")
	}
	if first['h'] < each/2 || first['l'] < 3 {
		t.Error("want most of the first to be high, and low among them")
	}
}

// A worker that is killed while it puts starts in line loses none, and none is
// two runs.
func TestKillWhileStartsAreLinedUp(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	p, open := shut(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("worker: {in_flight: 10}"), 0o600); err != nil {
		t.Fatal(err)
	}
	const many = 4000
	f.startsOf(many, "k", "acme", "", postStep(p.URL, ""))
	for range 4 {
		before := f.waiting("start")
		w := startProcess(t, f.env, "--config", config)
		eventually(t, 60*time.Second, "some starts in line", func() bool { n := f.waiting("start"); return n < before || n == 0 })
		w.kill()
	}
	t.Logf("%d starts are in line, %d have yet to be", f.lined(), f.waiting("start"))
	open()
	f.configured(1, "")
	f.began(many)
	if l := f.letters(0); len(l) != 0 {
		t.Errorf("letters %+v, want none", l)
	}
	f.drained("PAWL_START")
}
