package worker

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// awayLog is a log that does not answer before answer is closed.
type awayLog struct {
	Log
	answer chan struct{}
}

func (g *awayLog) Looks(_ context.Context, looks []Look) ([]*statemachine.Stored, []error) {
	<-g.answer
	return make([]*statemachine.Stored, len(looks)), make([]error, len(looks))
}

// beaten is a message that tells when it was prolonged.
type beaten struct {
	delivery
	beats chan struct{}
}

func (d *beaten) Beat() error { d.beats <- struct{}{}; return nil }

// renewed are claims that tell which effects were renewed.
type renewed struct {
	Claims
	effects chan string
}

func (r *renewed) Renew(_ context.Context, claims []Claim) error {
	for _, c := range claims {
		r.effects <- c.Effect
	}
	return nil
}

// released are claims that count what is let go of.
type released struct {
	Claims
	n int
}

func (r *released) Release(_ context.Context, claims []Claim) error {
	r.n += len(claims)
	return nil
}

// sameLog answers that runs are as they are known to be.
type sameLog struct{ Log }

func (sameLog) Looks(_ context.Context, looks []Look) ([]*statemachine.Stored, []error) {
	all := make([]*statemachine.Stored, len(looks))
	for i := range looks {
		all[i] = looks[i].Known
	}
	return all, make([]error, len(looks))
}

// The look after the claim took most of the claim's lease: another may have
// claimed and looked by the time of the call, so nothing is called.
func TestNothingIsCalledUnderAClaimThatRanOut(t *testing.T) {
	c := new(statemachine.Catalog)
	statemachine.HandleRaw(c, "e", func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage("null"), nil
	})
	l := bareLane()
	l.w.catalog, l.w.handlers = c, t.Context()
	for _, late := range []bool{false, true} {
		claims := &released{}
		l.w.ports = Ports{Log: sameLog{}, Claims: claims}
		p := statemachine.Pending{ID: "i", Effect: "e", Place: statemachine.Queued}
		s := &slot{run: "r", known: true, running: map[string]*call{}, held: []*held{{m: queue.Message{Kind: queue.Effect, ID: "i"}}},
			state: &statemachine.Stored{Seq: 1, Record: &statemachine.Record{Run: "r", Pending: []statemachine.Pending{p}}}}
		asked, want := time.Now(), 1
		if late {
			asked, want = asked.Add(-l.w.cfg.lease()), 0
		}
		l.lookAndStart(t.Context(), []candidate{{s, &s.state.Pending[0]}}, asked)
		if len(s.running) != want || claims.n != 1-want {
			t.Errorf("late: %t: %d handlers run, %d claims are let go of", late, len(s.running), claims.n)
		}
	}
	l.calls.Wait()
}

// HISTORY does not answer for longer than messages and claims last: both are
// prolonged all the same, for what runs here, and for what has its result in
// hand, though it is past its deadline; not for a handler that is.
func TestBeatsGoOnWhileAStoreIsAway(t *testing.T) {
	l := bareLane()
	l.w.cfg.AckWait = 60 * time.Millisecond
	log := &awayLog{answer: make(chan struct{})}
	claims := &renewed{effects: make(chan string)}
	l.w.ports = Ports{Log: log, Claims: claims}
	d := &beaten{beats: make(chan struct{})}
	called := func(id string, left time.Duration) *call {
		c := &call{pending: statemachine.Pending{ID: id}}
		c.over.Store(time.Now().Add(left).UnixNano())
		return c
	}
	s := &slot{run: "r", known: true, held: []*held{{m: queue.Message{Kind: queue.Effect, ID: "runs", Delivery: d}}},
		running: map[string]*call{"runs": called("runs", time.Hour), "hangs": called("hangs", -time.Second)},
		results: []*result{{call: called("returned", -time.Second)}}}
	l.slots["r"] = s
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.lookAll(t.Context(), []*slot{s}, func(*slot, *statemachine.Stored) {})
	}()
	beats, renewals := 0, map[string]int{}
	answer := log.answer
	for {
		select {
		case <-d.beats:
			beats++
		case e := <-claims.effects:
			renewals[e]++
		case <-done:
			if renewals["hangs"] != 0 {
				t.Errorf("renewed %v", renewals)
			}
			return
		case <-time.After(30 * time.Second):
			t.Fatalf("%d beats, renewed %v", beats, renewals)
		}
		if answer != nil && beats >= 3 && renewals["runs"] >= 3 && renewals["returned"] >= 3 {
			close(answer)
			answer = nil
		}
	}
}
