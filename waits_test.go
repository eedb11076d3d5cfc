package pawl_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/statemachine"
)

// vigil sleeps, waits for a word, and writes it down.
type vigil struct {
	Nap  statemachine.Duration `json:"nap"`
	Wait statemachine.Duration `json:"wait"`
	Word string                `json:"word"`
	Late bool                  `json:"late"`
}

const writes statemachine.Effect[string, int] = "writes"

// vigils is a fleet of runs that wait, and what they wrote down.
type vigils struct {
	*stuck
	mu     sync.Mutex
	wrote  map[string]int // by key
	broken atomic.Bool    // the machine cannot go on after its sleep
}

func keepVigil(t *testing.T) *vigils {
	return &vigils{stuck: &stuck{fleet: realServers(t), open: make(chan struct{})}, wrote: map[string]int{}}
}

func (v *vigils) catalog() *statemachine.Catalog {
	m := statemachine.New[vigil]("vigil", 1)
	m.Deadline(time.Hour)
	m.State("sleep", statemachine.Sleep(func(d *vigil) time.Duration {
		return time.Duration(d.Nap)
	}, nil)).When(func(*vigil) bool {
		if v.broken.Load() {
			panic("this build cannot")
		}
		return false
	}, "write")
	m.State("listen", statemachine.Signal("word", func(d *vigil, s string) { d.Word = s })).
		WithinOf(func(d *vigil) time.Duration { return time.Duration(d.Wait) }, "late")
	m.State("write", statemachine.Call(writes, func(d *vigil) string { return d.Word }, nil)).Then("done")
	m.State("late", statemachine.Call(writes, func(*vigil) string { return "late" }, func(d *vigil, _ int) { d.Late = true })).Then("done")
	m.Succeed("done")
	c := new(statemachine.Catalog).Add(m)
	statemachine.Handle(c, writes, func(_ context.Context, key, word string) (int, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.wrote[key]++
		return len(word), nil
	})
	return c
}

// signal sends a signal as any producer would.
func (v *vigils) signal(run, id, body string) {
	v.t.Helper()
	m := &nats.Msg{Subject: "pawl.signal." + run + ".word", Data: []byte(body), Header: nats.Header{"Pawl-Signal-Id": {id}}}
	if _, err := v.js.PublishMsg(v.t.Context(), m); err != nil {
		v.t.Fatal(err)
	}
}

// once checks that n runs wrote once each.
func (v *vigils) once(n int) {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.wrote) != n {
		v.t.Errorf("%d runs wrote, want %d", len(v.wrote), n)
	}
	for key, times := range v.wrote {
		if times != 1 {
			v.t.Errorf("%s was written %d times", key, times)
		}
	}
}

// neverEarly checks the broker's times of what a run was woken by.
func (v *vigils) neverEarly(run string) {
	v.t.Helper()
	due := map[string]time.Time{}
	for _, r := range v.history(run) {
		for _, e := range r.Events {
			if at, ok := due[e.Effect]; e.Kind == statemachine.EventDue && (!ok || e.At.Before(at)) {
				v.t.Errorf("run %s: due at %s, woken at %s", run, at, e.At)
			}
		}
		for _, w := range r.Waits {
			if w.Due != nil {
				due[w.ID] = *w.Due
			}
		}
	}
}

// Runs sleep while workers stop, Redis forgets, and their timers are lost: each
// is woken once, never before its time.
func TestSleepersWakeOnce(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	stop := v.work(v.catalog())
	const n = 100
	for i := range n {
		v.start("vigil", fmt.Sprint("v", i), fmt.Sprintf(`{"nap":"%dms","wait":"1ms"}`, 500+10*i))
	}
	sleeps := func(r *statemachine.Stored) bool { return r.To == "sleep" }
	v.start("vigil", "long", `{"nap":"5s","wait":"1ms"}`)
	v.reaches("long", sleeps)
	if r := v.becomes("long", v.asked, explain.Sleeping); !r.Alone || r.Until.IsZero() || r.Message == nil || r.Message.Place != explain.Scheduled {
		t.Errorf("explained as %+v", r)
	}
	stop()
	if err := redis.NewClient(&redis.Options{Addr: v.redis}).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	timers, err := v.js.Stream(t.Context(), "PAWL_TIMERS")
	if err != nil {
		t.Fatal(err)
	}
	if err := timers.Purge(t.Context(), jetstream.WithPurgeSubject("pawl.timer.>")); err != nil {
		t.Fatal(err)
	}
	if r := v.becomes("long", v.seen, explain.NoWorkers); len(r.Text) == 0 {
		t.Error("no text")
	}
	v.work(v.catalog(), func(c *pawl.Config) { c.Worker.SweepEvery = 2 * time.Second })
	for i := range n {
		if r := v.ended(fmt.Sprint("v", i)); r.Status != statemachine.StatusSucceeded || !strings.Contains(string(r.Data), `"late":true`) {
			t.Errorf("v%d: %s, data %s", i, describe(r), r.Data)
		}
		v.neverEarly(fmt.Sprint("v", i))
	}
	v.ended("long")
	v.neverEarly("long")
	v.once(n + 1)
}

// A signal is taken once, whenever it comes: before its run, before the wait,
// in it, twice, and while no worker lives.
func TestSignalsAreTakenOnce(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	stop := v.work(v.catalog())
	v.signal("unborn", "s", `"before its run"`)
	v.start("vigil", "unborn", `{"nap":"0s","wait":"1h"}`)
	v.start("vigil", "asleep", `{"nap":"1s","wait":"1h"}`)
	v.signal("asleep", "s", `"before the wait"`)
	v.start("vigil", "awake", `{"nap":"0s","wait":"1h"}`)
	v.reaches("awake", func(r *statemachine.Stored) bool { return r.To == "listen" })
	if r := v.becomes("awake", v.asked, explain.AwaitsSignal); r.Alone || r.Signal != "word" || !strings.HasPrefix(r.Help, "pawl run signal awake word ") {
		t.Errorf("explained as %+v", r)
	}
	v.signal("awake", "bad", `{"not":"a word"}`)
	for range 3 {
		v.signal("awake", "s", `"in the wait"`)
	}
	v.start("vigil", "alone", `{"nap":"0s","wait":"1h"}`)
	v.reaches("alone", func(r *statemachine.Stored) bool { return r.To == "listen" })
	for run, word := range map[string]string{"unborn": "before its run", "asleep": "before the wait", "awake": "in the wait"} {
		r := v.ended(run)
		if !strings.Contains(string(r.Data), fmt.Sprintf(`"word":%q`, word)) {
			t.Errorf("%s: %s, data %s", run, describe(r), r.Data)
		}
	}
	if l := v.letters(1)[0]; l.Run != "awake" || l.Class != statemachine.ClassInvalidInput || !strings.Contains(l.Cause, "signal word") {
		t.Errorf("the signal that does not fit: %+v", l)
	}
	stop()
	v.signal("alone", "s", `"with nobody there"`)
	v.work(v.catalog())
	v.ended("alone")
	v.once(4)
}

// A run whose machine cannot go on when its time has come is parked, with a
// letter; a build that can goes on with it once it is redriven.
func TestAWaitIsRedriven(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	v.work(v.catalog())
	v.broken.Store(true)
	v.start("vigil", "r", `{"nap":"10ms","wait":"1ms"}`)
	r := v.reaches("r", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if r.Cause.Class != statemachine.ClassPanic {
		t.Errorf("parked by %+v", r.Cause)
	}
	v.letters(1)
	x := v.becomes("r", v.asked, explain.GivenUp)
	if x.Letter == 0 || x.Help != "pawl run retry r; pawl run resume r --to write|listen --reason '…'" {
		t.Errorf("explained as %+v", x)
	}
	v.broken.Store(false)
	v.command(statemachine.EventRedrive, "r", "c1", statemachine.Command{By: "anna"})
	if r := v.ended("r"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("redriven: %s", describe(r))
	}
	v.once(1)
}

// swollen wakes up with more to write down than a record holds.
type swollen struct {
	Notes statemachine.Log[string] `json:"notes"`
}

// A timer whose record would be too large parks its run, with one letter; a
// build that says less goes on with it once it is redriven.
func TestATimerWithoutRoom(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	var brief atomic.Bool
	catalog := func() *statemachine.Catalog {
		m := statemachine.New[swollen]("swollen", 1)
		m.State("sleep", statemachine.Sleep(func(*swollen) time.Duration { return 50 * time.Millisecond }, func(d *swollen) {
			for range 150 {
				if !brief.Load() {
					d.Notes.Append(strings.Repeat("x", 8000))
				}
			}
		}))
		m.Succeed("done")
		return new(statemachine.Catalog).Add(m)
	}
	v.work(catalog(), func(c *pawl.Config) { c.Worker.SweepEvery = 2 * time.Second })
	v.start("swollen", "s", `{}`)
	r := v.reaches("s", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	if r.Cause == nil || r.Cause.Class != statemachine.ClassTooLarge || r.Cause.State != "sleep" || r.Cause.Effect != statemachine.TimerEffect {
		t.Fatalf("parked: %s", describe(r))
	}
	l := v.letters(1)[0]
	if l.Run != "s" || l.Class != statemachine.ClassTooLarge || l.Effect != statemachine.TimerEffect || !strings.Contains(l.Cause, "record of") {
		t.Errorf("letter %+v", l)
	}
	v.drained("PAWL_TIMERS")
	brief.Store(true)
	v.command(statemachine.EventRedrive, "s", "again", statemachine.Command{By: "anna", Reason: "it says less"})
	if r := v.ended("s"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("ended: %s", describe(r))
	}
	v.letters(1)
}
