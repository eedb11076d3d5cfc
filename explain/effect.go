package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// effect explains a pending effect.
func (f *Facts) effect(p *statemachine.Pending) Reason {
	e := Reason{
		Effect: p.Effect, EffectID: p.ID, Key: p.Key, Place: p.Place, Attempt: p.Attempt, Try: p.Try, Since: p.At, Error: p.Cause,
		Undoes: p.Undoes, Crashes: f.Tries[p.ID].Crashes,
	}
	if m, ok := f.Wakes[p.ID]; ok {
		e.Message = &m
	}
	switch p.Place {
	case statemachine.Parked:
		if p.Unconfirmed() {
			e.Code, e.Text = Unconfirmed, fmt.Sprintf("%s is not performed until it is confirmed: %s", f.name(p), p.Cause.Message)
			e.Help = "pawl run confirm " + word(f.Run) + "; " + f.resolve(p)
			break
		}
		f.parked(&e, p)
	case statemachine.Held:
		e.Code, e.Text, e.Help = Held, f.name(p)+" is held until the run is resumed", "pawl run resume "+word(f.Run)
	case statemachine.Retry:
		f.retry(&e, p)
	case statemachine.ChildRun:
		f.child(&e, p)
	case statemachine.Queued, statemachine.Inline:
		f.due(&e, p)
	default:
		e.Code, e.Text = Elsewhere, fmt.Sprintf("%s waits: its place is %s, which this build does not know", f.name(p), p.Place)
		e.Help = "pawl run show " + word(f.Run)
	}
	if e.Crashes > 0 {
		e.Text += fmt.Sprintf("; workers that died at it before: %d", e.Crashes)
	}
	f.unwinds(&e, p)
	if e.Help == "" && e.Alone {
		e.Help = "pawl run watch " + word(f.Run)
	}
	return e
}

// name is what is waited for: the type of an effect, and what it is for if it
// takes something back.
func (f *Facts) name(p *statemachine.Pending) string {
	if n := len(f.Record.Undos); p.Undoes != "" && n > 0 {
		return fmt.Sprintf("%s (to undo state %s)", p.Effect, f.Record.Undos[n-1].State)
	}
	if p.Tells != "" {
		return p.Effect + " (to tell approvers)"
	}
	return p.Effect + f.itemOf(p.Item)
}

// itemOf says which of many that a state does at once is meant.
func (f *Facts) itemOf(item int) string {
	if item == 0 || len(f.Record.Frames) == 0 || f.Record.Frames[0].Fan == nil {
		return ""
	}
	if item <= len(f.Branches) {
		return fmt.Sprintf(" (branch %s)", f.Branches[item-1])
	}
	return fmt.Sprintf(" (%d of %d)", item, f.Record.Frames[0].Fan.Size)
}

// unwinds says what an effect is to a run that takes back what it did.
func (f *Facts) unwinds(e *Reason, p *statemachine.Pending) {
	r := f.Record
	then := "goes on"
	if r.Ending != nil {
		then = "ends as " + string(r.Ending.Status)
	}
	switch {
	case p.Undoes == "" && r.Ending == nil:
		return
	case p.Undoes == "":
		e.Text += fmt.Sprintf("; once it has its outcome, what the run did is undone (%d), and it %s", len(r.Undos), then)
		return
	}
	switch e.Code {
	case GivenUp, Crashed:
		e.Code = UndoGivenUp
		e.Help += "; " + f.resolve(p)
	case Retry, RetryDue:
		e.Code = UndoRetry
	case InQueue, Delivered, Inline, Performing:
		e.Code = Undoing
	}
	e.Text += fmt.Sprintf("; %d more to undo until the run %s", len(r.Undos)-1, then)
}

// resolve is the command that says what an effect came to.
func (f *Facts) resolve(p *statemachine.Pending) string {
	return fmt.Sprintf("pawl run resolve %s --effect %s '{…}'", word(f.Run), word(p.ID))
}

// sendOn is the command that leaves what was given up for good, after others;
// "" if the run cannot be sent on.
func (f *Facts) sendOn(effect string) string {
	if _, err := f.Record.SendOn(effect); err != nil || len(f.Exits) == 0 {
		return ""
	}
	return fmt.Sprintf("; pawl run resume %s --to %s --reason '…'", word(f.Run), strings.Join(f.Exits, "|"))
}

func (f *Facts) parked(e *Reason, p *statemachine.Pending) {
	e.Code, e.Help = GivenUp, "pawl run retry "+word(f.Run)
	e.Text = fmt.Sprintf("%s was given up at attempt %d", f.name(p), p.Attempt)
	if p.Cause != nil {
		e.Text += ": " + causeText(p.Cause)
		switch p.Cause.Class {
		case statemachine.ClassCrash:
			e.Code = Crashed
		case statemachine.ClassInDoubt:
			e.Code = InDoubt
			e.Help += "; " + f.resolve(p)
			e.Text += "; retry it if it was not performed, resolve it if it was"
		}
	}
	if p.Tells != "" {
		e.Text += "; the approval waits all the same"
	}
	e.Help += f.sendOn(p.ID)
	l, known := f.Letters[p.ID]
	switch e.Letter = l.Seq; {
	case known && l.Seq == 0:
		e.Text += " (its letter was taken out)"
	case known:
		e.Text += fmt.Sprintf(" (letter %d)", l.Seq)
	}
}

// retry explains an effect that waits for its next try.
func (f *Facts) retry(e *Reason, p *statemachine.Pending) {
	e.Code, e.Alone = Retry, true
	e.Text = fmt.Sprintf("%s waits for attempt %d", f.name(p), p.Attempt)
	if p.Accepted() && p.RetryAt.After(f.Now) {
		e.Code, e.Until = Accepted, *p.RetryAt
		e.Text = fmt.Sprintf("%s was accepted by who performs it, who tells the result later; without a word until then, the attempt has failed", f.name(p))
		return
	}
	switch k, keyed := f.Keys[p.ID]; {
	case keyed && !k.Done:
		e.Code, e.Holder = KeyHeld, k.Run
		e.Text = fmt.Sprintf("%s waits for its key %q, which run %q holds", f.name(p), p.Key, k.Run)
		e.Help = "pawl run explain " + word(k.Run)
	case f.doubted(e, p):
	case f.putOff(p):
		e.Code = Throttled
		e.Text = fmt.Sprintf("%s was put off by who performs it, which spent no attempt", f.name(p))
	}
	if p.Cause != nil && e.Code != KeyHeld {
		e.Text += ", after " + causeText(p.Cause)
	}
	if p.RetryAt == nil {
		return
	}
	if e.Until = *p.RetryAt; e.Until.After(f.Now) {
		if e.Message != nil && e.Message.Place == Missing {
			e.Text += "; its schedule is nowhere: the sweeper arms it again"
		}
		return
	}
	if e.Code == Retry || e.Code == Throttled || e.Code == Unverified {
		e.Code = RetryDue
	}
	e.Until = time.Time{}
	switch m := e.Message; {
	case m == nil:
		e.Text += "; its time has come"
	case m.Place == Missing:
		e.Code = Lost
		e.Text += "; its time has come, and its message is nowhere: the sweeper sends it again"
	case m.Place == Scheduled:
		e.Text += "; its time has come, and the broker has not sent its message yet"
	case m.Place == Postponed:
		e.Code, e.Until = Again, m.Due
		e.Text += "; its time has come, a worker could not take its message, which comes again"
		e.Help = "pawl worker ls"
	default:
		e.Text += "; its time has come, and its message waits for a worker"
	}
}

// doubted reports whether a try may have performed the effect, and says so.
func (f *Facts) doubted(e *Reason, p *statemachine.Pending) bool {
	switch t := f.Tries[p.ID]; {
	case t.Open && t.N < p.Try && t.Until.After(f.Now):
		e.Text = fmt.Sprintf("worker %s has begun %s and told no outcome: it may be at it until %s", t.By, f.name(p), t.Until.Format(time.RFC3339))
		e.Holder = t.By
	case p.Cause != nil && p.Cause.Class == statemachine.ClassInDoubt:
		e.Text = fmt.Sprintf("whether %s was performed has to be found out", f.name(p))
	case t.Unknown || t.Open && t.N < p.Try:
		e.Text = fmt.Sprintf("a try of %s was cut off, and may have performed it: that is found out, or left to a person", f.name(p))
	default:
		return false
	}
	e.Code = Unverified
	return true
}

// putOff reports whether the last try of p spent no attempt, as far as the last
// record tells.
func (f *Facts) putOff(p *statemachine.Pending) bool {
	return slices.ContainsFunc(f.Record.Events, func(e statemachine.Event) bool {
		return e.Kind == statemachine.EventFailure && e.Effect == p.ID && e.Free
	})
}

// due explains an effect that is to be performed now.
func (f *Facts) due(e *Reason, p *statemachine.Pending) {
	e.Alone = true
	if c, held := f.Claims[p.ID]; held && c.Left > 0 {
		e.Holder, e.Lease = c.Owner, f.Now.Add(c.Left)
		if f.gone(c.Owner) {
			e.Code, e.Until = OwnerLost, e.Lease
			e.Text = fmt.Sprintf("worker %s had begun %s and answers no more: another goes on when its lease is over", c.Owner, f.name(p))
			return
		}
		f.performed(e, p, c.Owner)
		return
	}
	if t := f.Tries[p.ID]; t.Open && t.N == p.Try && t.By != "" && t.Until.After(f.Now) {
		switch e.Holder, e.Lease = t.By, t.Until; {
		case f.gone(t.By):
			e.Code = OwnerLost
			e.Text = fmt.Sprintf("worker %s had begun %s and answers no more: another goes on when its message comes again", t.By, f.name(p))
			return
		case f.Claims == nil: // Redis may say otherwise, and was not seen
			f.performed(e, p, t.By)
			return
		}
		e.Holder, e.Lease = "", time.Time{}
	}
	if h, held := f.Holds[p.ID]; held {
		f.hold(e, p, h)
		return
	}
	if f.nobody(func(w Worker) []string { return w.Effects }, p.Effect) {
		e.Code, e.Alone = NoHandler, false
		e.Text = fmt.Sprintf("%s, and none performs %s", workers(len(f.Workers)), f.name(p))
		e.Help = "deploy a worker that performs " + p.Effect
		return
	}
	if p.Place == statemachine.Inline {
		f.inline(e, p)
		return
	}
	m := e.Message
	if limit, limited := f.Limits[p.Effect]; limited && m != nil && m.Place != Missing {
		e.Code, e.Until = Limited, m.Due
		e.Text = fmt.Sprintf("%s waits for its turn: the fleet's limits of it are %s", f.name(p), limit)
		e.Help = "effects.limits." + p.Effect + " in the configuration of the workers; pawl run watch " + word(f.Run)
		return
	}
	switch {
	case m == nil:
		e.Code, e.Text = InQueue, f.name(p)+" waits in its queue"
	case m.Place == Missing:
		e.Code, e.Text = Lost, f.name(p)+" is asked for, and its message is nowhere: it is about to be sent, or the sweeper sends it again"
	case m.Place == Postponed:
		e.Code, e.Until, e.Help = Again, m.Due, "pawl worker ls"
		e.Text = f.name(p) + " waits: a worker had its message and lacks what the run needs; it comes again"
	case m.Place == InHand:
		e.Code = Delivered
		e.Text = f.name(p) + " waits: a worker has its message, and has not begun"
		if f.Claims == nil {
			e.Text = f.name(p) + " is in a worker's hands"
		}
		if m.Again > 0 {
			e.Text += fmt.Sprintf("; after %v without a sign of life it is given to another", m.Again)
		}
	default:
		e.Code = InQueue
		e.Text, e.Help = f.name(p)+" waits in its queue", "pawl worker ls"
		if m.Ahead > 0 {
			e.Text += fmt.Sprintf(", at most %d before it", m.Ahead)
		}
		if m.Pulls == 0 {
			e.Text += "; no worker asks for more of this type at the moment"
		}
	}
}

// performed explains an effect that a worker is at.
func (f *Facts) performed(e *Reason, p *statemachine.Pending, owner string) {
	e.Code, e.Help = Performing, "pawl run cancel "+word(f.Run)
	if f.Record.Ending != nil {
		e.Help += " --no-undo"
	}
	e.Text = fmt.Sprintf("worker %s performs %s, attempt %d", owner, f.name(p), p.Attempt)
	if f.Tries[p.ID].Asks {
		e.Code = Verifying
		e.Text = fmt.Sprintf("worker %s finds out whether a try before performed %s, and performs it if not", owner, f.name(p))
	}
}

// hold explains an effect that flow control keeps from beginning. What was
// under way then goes on, so there is no claim on it.
func (f *Facts) hold(e *Reason, p *statemachine.Pending, h Hold) {
	e.Code, e.Since, e.Until, e.Holder = h.Code, h.Since, h.Until, h.By
	e.Text = fmt.Sprintf("%s may not begin: %s", f.name(p), h.What)
	switch e.Alone = h.Code == KeyClosed; {
	case e.Alone:
		e.Text += " is closed" + by(h.By)
		e.Help = "pawl effect resume " + word(h.Effect) + " --key " + word(h.Key)
	case h.Code == StatePaused:
		e.Text += " is paused" + by(h.By)
		e.Help = "pawl state resume " + word(h.Machine) + " " + word(h.State)
	default:
		e.Text += " is paused" + by(h.By)
		e.Help = "pawl effect resume " + word(h.Effect)
	}
	if h.Reason != "" {
		e.Text += ": " + h.Reason
	}
}

// inline explains an effect that the worker performs which committed it.
func (f *Facts) inline(e *Reason, p *statemachine.Pending) {
	owner := ""
	if p.Rev == f.Record.Rev {
		owner = f.Record.By
	}
	e.Holder = owner
	switch {
	case f.Claims == nil && owner != "" && f.gone(owner):
		e.Code = OwnerLost
		e.Text = fmt.Sprintf("worker %s was to perform %s and answers no more: another goes on when its message comes again", owner, f.name(p))
	case f.Claims == nil:
		e.Code = Inline
		e.Text = fmt.Sprintf("%s is performed by the worker that asked for it%s", f.name(p), by(owner))
	default:
		e.Code, e.Holder = Unclaimed, ""
		e.Text = fmt.Sprintf("nobody performs %s: it goes on when its message comes again, or the sweeper finds it", f.name(p))
	}
}
