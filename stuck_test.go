package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/internal/config"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// tools are pawl and dlq-replayer, built once.
var tools = sync.OnceValues(func() (string, error) {
	path, err := binary()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	if out, err := exec.Command("go", "build", "-o", dir+"/", "./cmd/pawl", "./cmd/dlq-replayer").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tools: %w\n%s", err, out)
	}
	return dir, nil
})

// typed types a command line as a person would, and returns what it prints.
func (f *fleet) typed(line string) string {
	f.t.Helper()
	dir, err := tools()
	if err != nil {
		f.t.Fatal(err)
	}
	c := exec.CommandContext(f.t.Context(), "sh", "-c", line)
	c.Dir = f.t.TempDir()
	c.Env = []string{"PATH=" + dir, "HOME=" + c.Dir, "NATS_URL=" + f.env["PAWL_NATS_URL"]}
	out, err := c.CombinedOutput()
	if err != nil {
		f.t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// Effects that get runs stuck.
const (
	mends   statemachine.Effect[int, int] = "mends"   // breaks for good until it is mended
	pauses  statemachine.Effect[int, int] = "pauses"  // its type is paused
	idles   statemachine.Effect[int, int] = "idles"   // does nothing, at once
	closes  statemachine.Effect[int, int] = "closes"  // its flow key is closed
	few     statemachine.Effect[int, int] = "few"     // one at a time over the fleet, and hangs
	halts   statemachine.Effect[int, int] = "halts"   // in doubt it halts
	asks    statemachine.Effect[int, int] = "asks"    // in doubt it asks, which hangs
	unsure  statemachine.Effect[int, int] = "unsure"  // in doubt it asks, which fails
	accepts statemachine.Effect[int, int] = "accepts" // its result comes later
	does    statemachine.Effect[int, int] = "does"

	undoHangs  statemachine.Effect[int, int] = "undo.hangs"
	undoFails  statemachine.Effect[int, int] = "undo.fails"
	undoBreaks statemachine.Effect[int, int] = "undo.breaks" // until it is mended
)

// undoes is a machine that does something, and then waits for an hour.
func undoes(name string, undo statemachine.Effect[int, int]) *statemachine.Machine[nothing] {
	m := statemachine.New[nothing](name, 1)
	one := func(*nothing) int { return 1 }
	m.State("book", statemachine.Call(idles, one, nil)).Undo(statemachine.Call(undo, one, nil))
	m.State("wait", statemachine.Call(fails, one, nil)).Then("done")
	m.Succeed("done")
	return m
}

// TestStuck: twenty and more ways to be stuck, on real servers. Each is
// explained with a worker alive, and with none: why, since when, who holds it,
// and what would help; and what would help, typed as it is said, helps.
func TestStuck(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	if slices.Contains(redistest.Kinds(t), redistest.Real) {
		addr := freeAddr(t)
		redistest.Start(t, redistest.Real, "--bind", "127.0.0.1", "--port", addr[strings.LastIndex(addr, ":")+1:])
		f.redis, f.env["PAWL_REDIS_ADDR"] = addr, addr
	}
	s := &stuck{fleet: f, open: make(chan struct{})}
	var mended atomic.Bool
	catalog := func() *statemachine.Catalog {
		c := s.catalog()
		keyed := statemachine.New[nothing]("closes", 1)
		keyed.State("work", statemachine.Call(closes, func(*nothing) int { return 1 }, nil).Flow(func(*nothing) string { return "acme inc" })).Then("done")
		keyed.Succeed("done")
		c.Add(keyed, oneCall("mends", mends, ""), oneCall("pauses", pauses, ""), oneCall("idles", idles, ""), oneCall("few", few, ""), oneCall("halts", halts, ""),
			oneCall("asks", asks, ""), oneCall("unsure", unsure, ""), oneCall("accepts", accepts, ""), oneCall("does", does, ""),
			undoes("undo-hangs", undoHangs), undoes("undo-fails", undoFails), undoes("undo-breaks", undoBreaks))
		hang := func(ctx context.Context, _ string, n int) (int, error) {
			select {
			case <-s.open:
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		until := func(err error) func(context.Context, string, int) (int, error) {
			return func(_ context.Context, _ string, n int) (int, error) {
				if mended.Load() {
					return n, nil
				}
				return 0, err
			}
		}
		broken := statemachine.Terminal("broken", errors.New("as the test wants it"))
		later := statemachine.RetryAfter(time.Hour, errors.New("503 from the provider"))
		for _, e := range []statemachine.Effect[int, int]{pauses, idles, closes, does} {
			statemachine.Handle(c, e, until(nil))
		}
		statemachine.Handle(c, mends, until(broken))
		statemachine.Handle(c, few, hang)
		statemachine.Handle(c, halts, until(nil), statemachine.Policy{InDoubt: statemachine.Halt})
		statemachine.Handle(c, asks, until(nil), statemachine.Policy{InDoubt: statemachine.Verify})
		statemachine.Verifier(c, asks, hang)
		statemachine.Handle(c, unsure, until(nil), statemachine.Policy{InDoubt: statemachine.Verify})
		statemachine.Verifier(c, unsure, until(later))
		statemachine.Handle(c, accepts, until(statemachine.Accepted()))
		statemachine.Handle(c, undoHangs, hang)
		statemachine.Handle(c, undoFails, until(later))
		statemachine.Handle(c, undoBreaks, until(broken))
		return c
	}
	limited := func(cfg *pawl.Config) { cfg.Effects.Limits = map[string]config.Limit{"few": {Concurrency: 1}} }
	// began has the ledger say that a worker began the run's effect, and died.
	began := func(run string, effect statemachine.Effect[int, int], crashes int) {
		id := statemachine.EffectID(run, statemachine.StartEventID, 0)
		e := worker.LedgerEntry{
			Run: run, Effect: id, Print: statemachine.Fingerprint(string(effect), []byte("1")), State: worker.LedgerClaimed,
			Try: 1, By: "worker-that-died", Until: time.Now().Add(-time.Minute), Crashes: crashes,
		}
		if _, _, err := s.queue.Ledger.Claim(t.Context(), statemachine.EffectWake(id), e); err != nil {
			t.Fatal(err)
		}
	}
	post := func(n flow.Notice) {
		n.Held, n.By, n.Reason, n.At = true, "ann", "the bill", time.Now()
		if err := s.queue.Flow.Post(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	command := func(kind statemachine.EventKind) func(string) {
		return func(run string) {
			s.command(kind, run, "c-"+run, statemachine.Command{By: "ann", Reason: "ordered twice"})
		}
	}
	cancelled := func(run string) {
		s.reaches(run, func(r *statemachine.Stored) bool {
			return r.To == "wait" && len(r.Pending) == 1 && r.Pending[0].Place == statemachine.Retry
		})
		command(statemachine.EventCancel)(run)
	}
	type codes = []explain.Code
	const (
		alive = "the worker that is alive"
		ann   = "ann"
		went  = statemachine.StatusSucceeded
		ends  = statemachine.StatusCancelled
	)
	stopped := codes{explain.InQueue, explain.Delivered, explain.Unclaimed}
	situations := []struct {
		run, machine string
		before       func(run string) // a worker is there
		after        func(run string) // it was started
		code         explain.Code
		alone        codes // with no worker alive; nil: the same
		holder, text string
		typed        string              // of the help: what changes something
		ends         statemachine.Status // then; "": it goes on waiting
	}{
		{run: "performed", machine: "hangs", code: explain.Performing, alone: stopped, holder: alive, text: "performs hangs", typed: "pawl run cancel performed", ends: ends},
		{run: "first", machine: "queues", code: explain.Performing, alone: stopped, holder: alive, ends: went},
		{run: "in-line", machine: "queues", code: explain.InQueue, text: "waits in its queue", ends: went},
		{run: "failed", machine: "fails", code: explain.Retry, text: "waits for attempt 2, after error: 503"},
		{run: "put-off", machine: "putoff", code: explain.Throttled, text: "429 from the provider"},
		{run: "given-up", machine: "mends", code: explain.GivenUp, text: "broken: as the test wants it (letter ", typed: "pawl run retry given-up", ends: went},
		{run: "key-first", machine: "keyed", code: explain.Performing, alone: stopped, holder: alive, ends: went},
		{run: "key-second", machine: "keyed", code: explain.KeyHeld, holder: "key-first", text: `"renewal:4412"`, typed: "pawl run explain key-first"},
		{run: "type-paused", machine: "pauses", before: func(string) { post(flow.Notice{Kind: flow.KindEffect, Effect: "pauses"}) },
			code: explain.EffectPaused, holder: ann, text: "the bill", typed: "pawl effect resume pauses", ends: went},
		{run: "state-paused", machine: "idles", before: func(string) { post(flow.Notice{Kind: flow.KindState, Machine: "idles", State: "work"}) },
			code: explain.StatePaused, holder: ann, text: "state work of machine idles is paused by ann", typed: "pawl state resume idles work", ends: went},
		{run: "key-closed", machine: "closes", before: func(string) {
			post(flow.Notice{Kind: flow.KindKey, Effect: "closes", Key: "acme inc", Until: time.Now().Add(time.Hour)})
		}, code: explain.KeyClosed, holder: ann, text: `key "acme inc" of effect closes is closed by ann`, typed: "pawl effect resume closes --key 'acme inc'"}, // and is looked at again within a minute
		{run: "few-first", machine: "few", code: explain.Performing, alone: stopped, holder: alive, ends: went},
		{run: "limited", machine: "few", code: explain.Limited, alone: codes{explain.InQueue, explain.Delivered, explain.Again}, text: "1 at once; under way: 1", ends: went},
		{run: "paused", machine: "pauses", after: command(statemachine.EventPause), code: explain.Paused, holder: ann, text: "by ann: ordered twice", typed: "pawl run resume paused", ends: went},
		{run: "in-doubt", machine: "halts", before: func(run string) { began(run, halts, 0) }, code: explain.InDoubt, text: "nobody knows", typed: "pawl run retry in-doubt", ends: went},
		{run: "in-doubt-done", machine: "halts", before: func(run string) { began(run, halts, 0) }, code: explain.InDoubt, text: "worker-that-died", typed: "pawl run resolve in-doubt-done --effect", ends: went},
		{run: "asked", machine: "asks", before: func(run string) { began(run, asks, 0) }, code: explain.Verifying, alone: stopped, holder: alive, text: "finds out whether", ends: went},
		{run: "asked-in-vain", machine: "unsure", before: func(run string) { began(run, unsure, 0) }, code: explain.Unverified, text: "has to be found out"},
		{run: "crashed", machine: "halts", before: func(run string) { began(run, halts, 2) }, code: explain.Crashed, text: "3 workers died", typed: "pawl run retry crashed", ends: went},
		{run: "undone", machine: "undo-hangs", after: cancelled, code: explain.Undoing, holder: alive, text: "(to undo state book)", typed: "pawl run cancel undone --no-undo", ends: ends},
		{run: "undone-later", machine: "undo-fails", after: cancelled, code: explain.UndoRetry, text: "until the run ends as cancelled"},
		{run: "undone-never", machine: "undo-breaks", after: cancelled, code: explain.UndoGivenUp, text: "broken: as the test wants it", typed: "pawl run retry undone-never", ends: ends},
		{run: "accepted", machine: "accepts", code: explain.Accepted, text: "tells the result later"},
		{run: "refused", code: explain.StartRefused, text: "unknown_machine", typed: "dlq-replayer show", machine: "nosuch"},
		{run: "over", machine: "does", code: explain.Ended, text: "it has ended: succeeded", typed: "pawl run result over", ends: went},
	}
	for _, q := range situations {
		if q.before != nil {
			q.before(q.run)
		}
	}
	stop := s.work(catalog(), limited)
	for i, q := range situations {
		if i > 0 && q.machine == situations[i-1].machine { // the one before is the first
			s.becomes(situations[i-1].run, s.asked, situations[i-1].code)
		}
		s.start(q.machine, q.run, "{}")
		if q.after != nil {
			q.after(q.run)
		}
	}
	check := func(i int, r *explain.Reason, when string) {
		q := situations[i]
		if r.Since.IsZero() || time.Since(r.Since) < 0 || r.Help == "" || !strings.Contains(r.Text, q.text) {
			t.Errorf("%s, %s: since %v, help %q: %s", q.run, when, r.Since, r.Help, r.Text)
		}
	}
	help := make([]string, len(situations))
	for i, q := range situations {
		r := s.becomes(q.run, s.asked, q.code)
		check(i, r, "with a worker")
		holder := q.holder
		if holder == alive {
			holder = s.last(q.run).By
		}
		if r.Holder != holder {
			t.Errorf("%s is held by %q, want %q", q.run, r.Holder, holder)
		}
		help[i] = r.Help
	}
	stop()

	same := 0
	for i, q := range situations {
		want := q.alone
		if want == nil {
			want = codes{q.code}
			same++
		}
		x := s.seen(q.run)
		at := slices.IndexFunc(x.Because, func(r explain.Reason) bool { return slices.Contains(want, r.Code) })
		if at < 0 || x.Cause != x.Because[at].Code && x.Cause != explain.NoWorkers || x.Because[at].Alone {
			b, _ := json.MarshalIndent(x, "", " ")
			t.Errorf("%s, with no worker: want %v\n%s", q.run, want, b)
		} else if q.alone == nil {
			check(i, &x.Because[at], "with no worker")
		}
	}
	if len(situations) < 20 || 2*same < len(situations) {
		t.Errorf("%d situations, %d of them the same with no worker", len(situations), same)
	}

	for i, q := range situations {
		all := strings.Split(help[i], "; ")
		at := slices.IndexFunc(all, func(c string) bool { return strings.HasPrefix(c, q.typed) })
		switch {
		case at < 0:
			t.Errorf("%s: no %q in %q", q.run, q.typed, all)
		case q.typed != "":
			s.typed(strings.ReplaceAll(all[at], "{…}", "7"))
		}
		if x := s.seen(q.run); strings.HasSuffix(string(q.code), "_paused") || q.code == explain.KeyClosed {
			if slices.ContainsFunc(x.Because, func(r explain.Reason) bool { return r.Code == q.code }) {
				t.Errorf("%s is held up after %s", q.run, q.typed)
			}
		}
	}
	mended.Store(true)
	close(s.open)
	s.work(catalog(), limited)
	for _, q := range situations {
		if q.ends == "" {
			continue
		}
		if r := s.ended(q.run); r.Status != q.ends {
			t.Errorf("%s: %s", q.run, describe(r))
		}
	}
}
