package schedule

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

const (
	// MachineName is the machine that schedules are runs of.
	MachineName = "schedule"
	// SignalName is the signal by which a schedule is told an Order.
	SignalName = "order"
	// MostBackfill is for how many times one Order starts runs.
	MostBackfill = 500
	// Start is the effect that starts a run.
	Start statemachine.Effect[Firing, Fired] = "schedule.start"

	mostWaiting = 2 * MostBackfill // times that wait to be started
	mostCounted = 10_000           // missed times that are counted at once
	forEver     = math.MaxInt32    // visits of a state: a start a second for 68 years
	askAgain    = 5 * time.Second  // whether the run before has ended
)

// Schedule is the data of a schedule's run.
type Schedule struct {
	statemachine.Meta
	Spec
	State State `json:"state,omitzero"`
}

// State is how a schedule stands.
type State struct {
	Upto    time.Time `json:"upto,omitzero"`     // times up to this one are dealt with
	Waiting []Time    `json:"waiting,omitempty"` // that are to be started, the first first
	Now     *Time     `json:"now,omitempty"`     // that is being started
	Blocked bool      `json:"blocked,omitempty"` // the first waits for the run before
	Last    string    `json:"last,omitempty"`    // run that was started last
	Started int       `json:"started,omitempty"`
	Skipped int       `json:"skipped,omitempty"` // since the run before had not ended
	Missed  int       `json:"missed,omitempty"`  // since they were too old
	Failed  int       `json:"failed,omitempty"`
	Error   string    `json:"error,omitempty"` // why the last one failed
}

// Time is one at which a run is started.
type Time struct {
	At    time.Time `json:"at"`
	Asked bool      `json:"asked,omitempty"` // by a person
	Held  bool      `json:"held,omitempty"`  // it has waited for the run before
}

// Order is what a schedule can be told.
type Order struct {
	Trigger  bool  `json:"trigger,omitempty"`  // start a run now
	Backfill *Span `json:"backfill,omitempty"` // start a run for each time of the span
}

// Span is from a time to another, both included.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Firing asks for a run.
type Firing struct {
	Run      string          `json:"run"` // empty: for none
	Machine  string          `json:"machine"`
	Version  int             `json:"version,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Priority queue.Priority  `json:"priority,omitempty"`
	Tenant   string          `json:"tenant,omitempty"`
	After    string          `json:"after,omitempty"`  // only if this run has ended
	Expires  time.Time       `json:"expires,omitzero"` // only before this time
}

// Fired is what came of a Firing.
type Fired struct {
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
}

// Outcome tells what came of it.
type Outcome string

// The outcomes.
const (
	Started Outcome = "started"
	Busy    Outcome = "busy"    // the run before has not ended
	Expired Outcome = "expired" // it is too late
	Refused Outcome = "refused" // there will never be such a run
	None    Outcome = "none"    // none was asked for
)

// Machine is the machine that schedules are runs of.
func Machine() *statemachine.Machine[Schedule] {
	m := statemachine.New[Schedule](MachineName, 1)
	m.Index("name", func(s *Schedule) string { return s.Name })
	m.Index("machine", func(s *Schedule) string { return s.Spec.Machine })
	m.State("wait", statemachine.Signal(SignalName, (*Schedule).ordered)).
		WithinOf((*Schedule).pause, "start").When((*Schedule).ready, "start").Then("wait").Visits(forEver, "over")
	m.State("start", statemachine.Call(Start, (*Schedule).firing, (*Schedule).fired)).
		When((*Schedule).ready, "start").Then("wait").Visits(forEver, "over")
	m.Succeed("over")
	return m
}

// Validate refuses a start.
func (s *Schedule) Validate() error {
	err := s.Check()
	if !reflect.ValueOf(s.State).IsZero() {
		err = errors.Join(err, errors.New("state is the schedule's own"))
	}
	return err
}

// next is the next time that was not dealt with.
func (s *Schedule) next() time.Time {
	if s.State.Upto.IsZero() {
		s.State.Upto = s.Now().UTC()
	}
	at, err := s.Next(s.State.Upto)
	if err != nil || at.IsZero() {
		return s.Now().Add(statemachine.MaxWait) // it was checked: this build lacks the zone
	}
	return at
}

// pause is how long the schedule waits.
func (s *Schedule) pause() time.Duration {
	d := s.next().Sub(s.Now())
	if len(s.State.Waiting) > 0 {
		d = min(d, askAgain)
	}
	return min(max(d, 0), statemachine.MaxWait)
}

// ready reports whether a run is to be started now.
func (s *Schedule) ready() bool {
	return len(s.State.Waiting) > 0 && !s.State.Blocked || !s.next().After(s.Now())
}

// ordered takes an order.
func (s *Schedule) ordered(o Order) {
	if o.Trigger {
		s.add(Time{At: s.Now().UTC(), Asked: true})
	}
	if o.Backfill == nil {
		return
	}
	for _, at := range s.times(*o.Backfill, MostBackfill) {
		s.add(Time{At: at, Asked: true})
	}
}

// times are the first times of a span.
func (s *Spec) times(span Span, most int) (all []time.Time) {
	for at := span.From.Add(-time.Nanosecond); len(all) < most; {
		next, err := s.Next(at)
		if err != nil || next.IsZero() || next.After(span.To) {
			break
		}
		at, all = next, append(all, next)
	}
	return all
}

// Count is how many times a span has; more than MostBackfill are not counted.
func (s *Spec) Count(span Span) int { return len(s.times(span, MostBackfill+1)) }

// add has a time wait for its start.
func (s *Schedule) add(t Time) {
	if len(s.State.Waiting) >= mostWaiting {
		s.State.Missed++
		return
	}
	s.State.Waiting = append(s.State.Waiting, t)
}

// collect deals with the times that have come.
func (s *Schedule) collect() {
	now := s.Now()
	oldest := now.Add(-s.catchUp())
	for n := 0; ; n++ {
		at := s.next()
		if at.After(now) {
			return
		}
		s.State.Upto = at
		switch {
		case at.Before(oldest):
			s.State.Missed++
			if n >= mostCounted {
				s.State.Upto = oldest.Add(-time.Nanosecond)
			}
		case s.Overlap == Queue && s.waits():
			s.State.Skipped++
		default:
			s.add(Time{At: at})
		}
	}
}

// waits reports whether a time that nobody asked for waits.
func (s *Schedule) waits() bool {
	for _, t := range s.State.Waiting {
		if !t.Asked {
			return true
		}
	}
	return false
}

// firing asks for the next run.
func (s *Schedule) firing() Firing {
	s.collect()
	s.State.Blocked = false
	if len(s.State.Waiting) == 0 {
		return Firing{}
	}
	t := s.State.Waiting[0]
	s.State.Waiting, s.State.Now = s.State.Waiting[1:], &t
	f := Firing{
		Run: s.Run(t.At), Machine: s.Spec.Machine, Version: s.Version, Input: s.Input, Priority: s.Priority, Tenant: s.Tenant,
	}
	if s.Overlap != Allow {
		f.After = s.State.Last
	}
	if !t.Asked && !t.Held {
		f.Expires = t.At.Add(max(s.catchUp(), time.Minute))
	}
	return f
}

// fired notes what came of it.
func (s *Schedule) fired(f Fired) {
	t := s.State.Now
	s.State.Now = nil
	if t == nil {
		return
	}
	switch f.Outcome {
	case Started:
		s.State.Started++
		s.State.Last = s.Run(t.At)
	case Busy:
		if !t.Asked && s.Overlap != Queue {
			s.State.Skipped++
			return
		}
		t.Held, s.State.Blocked = true, true
		s.State.Waiting = append([]Time{*t}, s.State.Waiting...)
	case Expired:
		s.State.Missed++
	default:
		s.State.Failed++
		s.State.Error = f.Error
	}
}
