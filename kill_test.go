package pawl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/statemachine"
)

const (
	killRuns  = 200
	killSteps = 4
)

// killScript is a kitchensink run whose steps call the sink, each with a body
// that names it; every other run has one of them queued.
func killScript(url string, run int) string {
	var steps []string
	for i := range killSteps {
		place := ""
		if run%2 == 1 && i == 1 {
			place = `,"place":"queued"`
		}
		steps = append(steps, fmt.Sprintf(`{"do":"http.post","input":{"url":%q,"body":{"step":"%d/%d"}}%s}`, url, run, i, place))
	}
	return `{"steps":[` + strings.Join(steps, ",") + `]}`
}

// killCheck counts what a kill may excuse: a key may be called again once for
// each kill at which its effect had been called and its result was in no
// record. Everything else is a duplicate.
type killCheck struct {
	t      *testing.T
	sink   *sink
	runs   int
	kills  []time.Time
	excuse map[string]int
}

// killed notes that a process has just been killed, in the middle of the runs.
func (k *killCheck) killed(f *fleet, minUnfinished int) {
	k.t.Helper()
	k.kills = append(k.kills, time.Now())
	unfinished := k.runs
	for _, r := range f.lastOf(k.t.Context()) {
		if r.Status.Ended() {
			unfinished--
		}
	}
	if unfinished < minUnfinished {
		k.t.Fatalf("kill %d: %d of %d runs unfinished, the test wants at least %d", len(k.kills), unfinished, k.runs, minUnfinished)
	}
	k.t.Logf("kill %d: %d of %d runs unfinished", len(k.kills), unfinished, k.runs)
}

// excuses looks for the effects of a run that were under way at a kill.
func (k *killCheck) excuses(history []*statemachine.Stored) {
	asked := map[string]time.Time{}
	for _, r := range history {
		pending := map[string]bool{}
		for i := range r.Pending {
			key := r.Pending[i].IdempotencyKey()
			pending[key] = true
			if asked[key].IsZero() {
				asked[key] = r.Time
			}
		}
		for key, since := range asked {
			if pending[key] || since.IsZero() {
				continue
			}
			for _, at := range k.kills {
				if since.Before(at) && r.Time.After(at) && len(k.sink.calls[key]) > 0 && k.sink.calls[key][0].Before(at) {
					k.excuse[key]++
				}
			}
			delete(asked, key)
		}
	}
}

// finish waits for all runs and compares what happened with what may. It
// returns the figures in one line.
func (k *killCheck) finish(f *fleet) string {
	k.t.Helper()
	var histories [][]*statemachine.Stored
	for i := range k.runs {
		r := f.ended(fmt.Sprintf("kill-%d", i))
		if r.Status != statemachine.StatusSucceeded {
			k.t.Errorf("run kill-%d: %s", i, describe(r))
		}
		histories = append(histories, f.history(r.Run))
	}
	k.sink.mu.Lock()
	defer k.sink.mu.Unlock()
	for _, h := range histories {
		k.excuses(h)
	}
	if n := len(k.sink.keys); n != k.runs*killSteps {
		k.t.Errorf("%d steps were performed, want %d", n, k.runs*killSteps)
	}
	for step, keys := range k.sink.keys {
		if len(keys) != 1 {
			k.t.Errorf("step %s was performed under %d keys", step, len(keys))
		}
	}
	again := 0
	for key, at := range k.sink.calls {
		again += len(at) - 1
		if len(at)-1 > k.excuse[key] {
			k.t.Errorf("key %s was called at %s; %d kills found it in flight%s", key, clocks(at), k.excuse[key], recordsOf(histories, key))
		}
	}
	figures := fmt.Sprintf("%d runs, %d calls, %d keys, %d repeats, %d in flight at %d kills", k.runs, k.sink.total, len(k.sink.calls), again, sum(k.excuse), len(k.kills))
	k.t.Log(figures)
	return figures
}

// clocks are times of the day.
func clocks(all []time.Time) string {
	var out []string
	for _, t := range all {
		out = append(out, t.UTC().Format("15:04:05.000"))
	}
	return strings.Join(out, ", ")
}

// recordsOf describes the run of an effect, a line a record.
func recordsOf(histories [][]*statemachine.Stored, key string) string {
	for _, h := range histories {
		out, here := "", false
		for _, r := range h {
			out += fmt.Sprintf("\n\t%s rev %d by %s:", clocks([]time.Time{r.Time}), r.Rev, r.By)
			for _, e := range r.Events {
				out += fmt.Sprintf(" %s %s", e.Kind, e.Effect)
			}
			for _, p := range r.Pending {
				here = here || p.IdempotencyKey() == key
				out += fmt.Sprintf(" → %s %s", p.Place, p.ID)
			}
		}
		if here {
			return out
		}
	}
	return ""
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func newKillCheck(t *testing.T) *killCheck {
	slow := func(n int) time.Duration { return time.Duration(20+n*37%80) * time.Millisecond }
	return &killCheck{t: t, sink: newSink(t, slow), runs: killRuns, excuse: map[string]int{}}
}

// progress waits until the sink has been called so many times.
func (k *killCheck) progress(calls int) {
	k.t.Helper()
	eventually(k.t, 60*time.Second, fmt.Sprintf("%d calls of the sink", calls), func() bool { return k.calls() >= calls })
}

// calls is how often the sink was called.
func (k *killCheck) calls() int {
	k.sink.mu.Lock()
	defer k.sink.mu.Unlock()
	return k.sink.total
}

// slowly makes runs overlap for long enough to be killed: few handlers at once.
var slowly = map[string]string{"PAWL_WORKER_INLINE_MAX": "24", "PAWL_WORKER_QUEUED_MAX": "24"}

func env(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// A worker is killed again and again in the middle of its runs: every run
// finishes, every step has one key, and no call is repeated that was not in
// flight at a kill.
func TestKillWorkerNothingLostNothingDoubled(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	k := newKillCheck(t)
	for i := range killRuns {
		f.start("kitchensink", fmt.Sprintf("kill-%d", i), killScript(k.sink.URL, i))
	}
	for _, calls := range []int{100, 250, 400} {
		p := startProcess(t, env(f.env, slowly))
		k.progress(calls)
		p.kill()
		k.killed(f, killRuns*3/10)
	}
	startProcess(t, f.env)
	k.finish(f)
}

// Redis loses everything while the worker works, and the worker is killed on
// top of it.
func TestKillWorkerAndFlushRedis(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	k := newKillCheck(t)
	r := redis.NewClient(&redis.Options{Addr: f.redis})
	t.Cleanup(func() { _ = r.Close() })
	for i := range killRuns {
		f.start("kitchensink", fmt.Sprintf("kill-%d", i), killScript(k.sink.URL, i))
	}
	p := startProcess(t, env(f.env, slowly))
	k.progress(80)
	if err := r.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	k.progress(200)
	if err := r.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	k.progress(240)
	p.kill()
	k.killed(f, killRuns*3/10)
	if err := r.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	startProcess(t, f.env)
	k.finish(f)
}

// The embedded process is killed: JetStream goes down with it, and its Redis
// is gone for good.
func TestKillEmbeddedProcess(t *testing.T) {
	t.Parallel()
	k := newKillCheck(t)
	dir := t.TempDir()
	at := map[string]string{"PAWL_DATA_DIR": dir, "PAWL_NATS_LISTEN": freeAddr(t), "PAWL_REDIS_LISTEN": freeAddr(t)}
	p := startProcess(t, env(at, slowly))
	f := join(t, "nats://"+at["PAWL_NATS_LISTEN"], false)
	for i := range killRuns {
		f.start("kitchensink", fmt.Sprintf("kill-%d", i), killScript(k.sink.URL, i))
	}
	for _, calls := range []int{100, 250, 400} {
		k.progress(calls)
		p.kill()
		withDataOf(t, dir, func(g *fleet) { k.killed(g, killRuns*3/10) })
		p = startProcess(t, env(at, slowly))
	}
	k.finish(join(t, "nats://"+at["PAWL_NATS_LISTEN"], false))
}

// withDataOf serves the data directory of a dead process, without a worker.
func withDataOf(t *testing.T, dir string, look func(*fleet)) {
	t.Helper()
	s, err := embedded.Start(context.WithoutCancel(t.Context()), embedded.Options{Dir: dir, NATSListen: "127.0.0.1:0", RedisListen: "127.0.0.1:0", SyncAlways: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	look(join(t, s.NATSURL(), false))
}
