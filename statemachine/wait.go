package statemachine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Wait is what a frame waits for that is no effect: a time, or a signal. It is
// carried in every record until it is over. Where it has a time, an entry of
// the outbox asks for the message that says so.
type Wait struct {
	ID     string     `json:"id"`               // f(run, causing event, index), see EffectID; its timer has it, too
	Frame  int        `json:"frame"`            // the frame that waits
	Item   int        `json:"item,omitempty"`   // the item or branch of its state that waits, from 1; 0: the state itself
	Kind   WaitKind   `json:"kind"`             //
	Signal string     `json:"signal,omitempty"` // name of the signal
	Due    *time.Time `json:"due,omitempty"`    // when it is over, never before; nil: not by itself
	Try    int        `json:"try"`              // from 1: its timers, one after the other
	At     time.Time  `json:"at"`               // At of the record that began it
	Gate   *Gate      `json:"gate,omitempty"`   // of an approval
	Of     string     `json:"of,omitempty"`     // of a reminder or an escalation: id of the approval
	Cause  *Cause     `json:"cause,omitempty"`  // why the run could not go on when it was over; waits for a redrive
}

// WaitKind tells what a wait is for.
type WaitKind string

// The kinds of waits.
const (
	WaitStart    WaitKind = "start"    // a time: then the run begins, in the state where it is
	WaitSleep    WaitKind = "sleep"    // a time: then the state is done
	WaitSignal   WaitKind = "signal"   // a signal: then the state is done
	WaitWithin   WaitKind = "within"   // how long the state may take
	WaitDeadline WaitKind = "deadline" // how long the run may take
	WaitApproval WaitKind = "approval" // people who decide; or its time: then a default does
	WaitRemind   WaitKind = "remind"   // when those who have not answered are told again
	WaitEscalate WaitKind = "escalate" // when others may decide as well
)

// TimerEffect stands for the effect type in what is told of a timer.
const TimerEffect = "timer"

// Sleep waits for a time, which is taken of the data when the state is entered,
// and then calls over, if that is not nil. It is never over before, by the
// clock of the broker. At most MaxWait.
func Sleep[T any](d func(*T) time.Duration, over func(*T)) Action[T] {
	a := &action{kind: KindSleep}
	if d != nil {
		a.sleep = func(data any) time.Duration { return d(data.(*T)) }
	}
	a.take = func(data any, _ json.RawMessage) error {
		if over != nil {
			over(data.(*T))
		}
		return nil
	}
	return waiting[T]{a}
}

// waiting is an action that performs nothing.
type waiting[T any] struct{ a *action }

func (w waiting[T]) erase(*T) *action { return w.a }

// Timer is the entry that asks for the wait's message; false if it has none.
func (w *Wait) Timer() (Entry, bool) {
	if w.Due == nil || w.Cause != nil {
		return Entry{}, false
	}
	return Entry{Kind: EntryTimer, ID: w.ID, Effect: TimerEffect, Try: w.Try, Due: w.Due}, true
}

// WaitsFor reports whether a run waits for this timer.
func (r *Record) WaitsFor(id string, try int) bool {
	i := r.wait(id)
	return i >= 0 && r.Waits[i].Due != nil && r.Waits[i].Try == try && r.Waits[i].Cause == nil
}

// Timers are the entries of the schedules that the run waits for.
func (r *Record) Timers() []Entry {
	var all []Entry
	for i := range r.Pending {
		if p := &r.Pending[i]; p.Place == Retry {
			all = append(all, Entry{Kind: EntryTimer, ID: p.ID, Effect: p.Effect, Try: p.Try, Due: p.RetryAt})
		}
	}
	for i := range r.Waits {
		if e, ok := r.Waits[i].Timer(); ok {
			all = append(all, e)
		}
	}
	return all
}

// Armed reports whether one of them is that of this try.
func (r *Record) Armed(id string, try int) bool {
	return slices.ContainsFunc(r.Timers(), func(e Entry) bool { return e.ID == id && e.Try == try })
}

// Awaited are the pending effects, and the waits for a time as if their timers
// were effects: what a letter or a redrive may be about.
func (r *Record) Awaited() []Pending {
	all := r.Pending[:len(r.Pending):len(r.Pending)]
	for i := range r.Waits {
		w := &r.Waits[i]
		if w.Due == nil {
			continue
		}
		p := Pending{ID: w.ID, Frame: w.Frame, Effect: TimerEffect, Input: rawNull, Place: Retry, Try: w.Try, Attempt: 1, At: w.At, RetryAt: w.Due, Cause: w.Cause}
		if w.Cause != nil {
			p.Place = Parked
		}
		all = append(all, p)
	}
	return all
}

// wait returns where a wait is, or -1.
func (r *Record) wait(id string) int {
	return slices.IndexFunc(r.Waits, func(w Wait) bool { return w.ID == id })
}

// arm begins a wait.
func (s *step) arm(w Wait) {
	f := s.f
	w.ID, w.Try, w.At = EffectID(f.rec.Run, s.cause, s.asked), 1, s.now()
	s.asked++
	f.rec.Waits = append(f.rec.Waits[:len(f.rec.Waits):len(f.rec.Waits)], w)
	if e, ok := w.Timer(); ok {
		f.emit(e)
	}
}

// now is what waits are counted from: the record will not be older.
func (s *step) now() time.Time { return later(s.f.clock, s.f.env.Now) }

// until is when a wait of d from now is over.
func (s *step) until(what string, d time.Duration) (*time.Time, error) {
	if d < 0 || d > MaxWait {
		return nil, s.fault(ClassInvalidData, fmt.Errorf("%s of %s: it is 0 to %s", what, d, MaxWait))
	}
	at := s.now().Add(d)
	return &at, nil
}

// bound begins the wait that bounds a state, if it has a bound.
func (s *step) bound(n *node) error {
	if n.within == nil {
		return nil
	}
	due, err := s.until("Within", n.within(s.data))
	if err == nil {
		s.arm(Wait{Kind: WaitWithin, Due: due})
	}
	return err
}

// wait begins what an action waits for; if there is nothing to wait for, it
// returns what came of it.
func (s *step) wait(a *action) (body json.RawMessage, waits bool, err error) {
	switch a.kind {
	case KindSleep:
		waits, err = s.sleep(a)
		return nil, waits, err
	case KindApprove:
		return nil, true, s.gate(a)
	}
	return s.listen(a)
}

// sleep begins the wait of an action; it reports false if there is nothing to
// wait for.
func (s *step) sleep(a *action) (bool, error) {
	d := a.sleep(s.data)
	if d == 0 {
		return false, nil
	}
	due, err := s.until("Sleep", d)
	if err == nil {
		s.arm(Wait{Kind: WaitSleep, Item: s.item, Due: due})
	}
	return true, err
}

// elapsed goes on from a wait whose time has come. If the machine cannot, or
// the event says why the record of that could not be stored, the run is parked:
// it goes on when it is redriven.
func (f *Fold) elapsed(e *Event) error {
	w, c := f.rec.Waits[f.rec.wait(e.Effect)], Cause{}
	if e.Cause != nil {
		c = *e.Cause
	} else {
		before := f.post
		err := f.goOn(e, w)
		if err == nil {
			err = f.limits()
		}
		if err == nil {
			return nil
		}
		f.post, f.data = before, nil
		if isMissing(err) {
			return err
		}
		c = Cause{Class: ClassOf(err), Message: trim(err.Error(), MaxMessage)}
	}
	c.State, c.Effect, c.Attempt = f.rec.Frames[w.Frame].State, TimerEffect, w.Try
	f.rewait(w.ID, func(w *Wait) { w.Cause = &c })
	if f.rec.Status != StatusPaused {
		f.rec.Status, f.rec.Cause = StatusParked, &c
	}
	clock := f.clock
	letter := f.letter(&Pending{ID: w.ID, Frame: w.Frame, Effect: TimerEffect, Input: rawNull, Try: w.Try, Attempt: 1, First: &clock}, c)
	body, err := marshal(letter)
	f.emit(Entry{Kind: EntryLetter, ID: letter.ID, Effect: TimerEffect, Body: body})
	return err
}

// goOn does what follows from the end of a wait.
func (f *Fold) goOn(e *Event, w Wait) error {
	if w.Kind == WaitStart {
		return f.step(e, e.ID, (*step).begin)
	}
	if w.Kind == WaitDeadline {
		took := w.Due.Sub(w.At).Round(time.Millisecond)
		return f.end(e.ID, Ending{StatusFailed, &Cause{Class: ClassDeadline, Message: fmt.Sprintf("the run was not over within %s", took), State: f.rec.Frames[0].State}})
	}
	return f.step(e, e.ID, func(s *step) error {
		n, err := s.here()
		if err != nil {
			return err
		}
		switch w.Kind {
		case WaitSleep:
			return s.heard(n, w, nil)
		case WaitApproval:
			return s.decided(n, w, Decision{Verdict: w.Gate.Default, Expired: true, Answers: w.Gate.Answers})
		case WaitRemind:
			return s.remind(n, w)
		case WaitEscalate:
			return s.escalate(n, w)
		}
		if n.within == nil {
			return s.fault(ClassUnknownState, fmt.Errorf("the machine has no Within in this state"))
		}
		f.abandon()
		s.caught(Cause{Class: ClassDeadline, Message: fmt.Sprintf("state %s was not done within %s", n.name, w.Due.Sub(w.At).Round(time.Millisecond)), State: n.name})
		return s.enter(n.late)
	})
}

// abandon drops the effects of a state that took too long. Nobody can say
// whether one of them is under way; what comes of it is dropped.
func (f *Fold) abandon() {
	for i := range f.rec.Pending {
		f.drop(&f.rec.Pending[i], EventCancel)
	}
	f.rec.Pending = nil
	f.rest()
}

// settle ends the waits of the state that is left; all ends that of the run,
// too.
func (f *Fold) settle(all bool) {
	if len(f.rec.Waits) == 0 {
		return
	}
	var rest []Wait
	parked := false
	for _, w := range f.rec.Waits {
		if w.Kind == WaitDeadline && !all {
			rest = append(rest, w)
			continue
		}
		f.retract(w.ID)
		parked = parked || w.Cause != nil
	}
	f.rec.Waits = rest
	f.silence(func(*Pending) bool { return true })
	if parked {
		f.rest()
	}
}

// rewait changes a wait.
func (f *Fold) rewait(id string, change func(w *Wait)) {
	f.rec.Waits = slices.Clone(f.rec.Waits)
	change(&f.rec.Waits[f.rec.wait(id)])
}

// wakeAgain has the waits that could not go on try again at once: those a
// redrive means.
func (f *Fold) wakeAgain(c Command) {
	for _, w := range f.rec.Waits {
		if w.Cause == nil || c.Effect != "" && c.Effect != w.ID || c.Try != 0 && c.Try != w.Try {
			continue
		}
		f.rewait(w.ID, func(w *Wait) {
			w.Try++
			w.Cause = nil
			if e, ok := w.Timer(); ok {
				f.emit(e)
			}
		})
	}
}
