package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// wait explains what is waited for that is no effect.
func (f *Facts) wait(w *statemachine.Wait) Reason {
	e := Reason{Wait: w.ID, Since: w.At, Error: w.Cause, Signal: w.Signal, Help: "pawl run watch " + word(f.Run)}
	if m, ok := f.Wakes[w.ID]; ok {
		e.Message = &m
	}
	if w.Due != nil {
		e.Until = *w.Due
	}
	if w.Cause != nil {
		e.Code, e.Help = GivenUp, "pawl run retry "+word(f.Run)+f.sendOn(w.ID)
		e.Text = "the machine cannot go on from " + f.Record.To + ": " + causeText(w.Cause)
		e.Letter = f.Letters[w.ID].Seq
		return e
	}
	switch w.Kind {
	case statemachine.WaitSignal:
		e.Code, e.Text = AwaitsSignal, fmt.Sprintf("state %s waits for signal %s%s", f.Record.To, w.Signal, f.itemOf(w.Item))
		e.Help = fmt.Sprintf("pawl run signal %s %s '{…}'", word(f.Run), word(w.Signal))
		return e
	case statemachine.WaitStart:
		e.Code, e.Alone, e.Text = Sleeping, true, fmt.Sprintf("it begins at %s", moment(*w.Due))
	case statemachine.WaitApproval:
		e.Code, e.Text = AwaitsPeople, f.approval(w)
		e.Help = fmt.Sprintf("pawl approval show %s %s", word(f.Run), w.ID)
		if w.Due == nil {
			return e
		}
		e.Text += fmt.Sprintf("; %s by default at %s", w.Gate.Default, moment(*w.Due))
	case statemachine.WaitRemind:
		e.Code, e.Alone, e.Text = Bounded, true, fmt.Sprintf("approvers are told again at %s", moment(*w.Due))
	case statemachine.WaitEscalate:
		e.Code, e.Alone, e.Text = Bounded, true, fmt.Sprintf("others may decide as well from %s on", moment(*w.Due))
	case statemachine.WaitSleep:
		e.Code, e.Alone, e.Text = Sleeping, true, fmt.Sprintf("state %s sleeps until %s%s", f.Record.To, moment(*w.Due), f.itemOf(w.Item))
	case statemachine.WaitDeadline:
		e.Code, e.Alone, e.Text = Bounded, true, fmt.Sprintf("the run fails if it is not over by %s", moment(*w.Due))
	default:
		e.Code, e.Alone, e.Text = Bounded, true, fmt.Sprintf("state %s is left if it is not done by %s", f.Record.To, moment(*w.Due))
	}
	switch late := f.Now.Sub(*w.Due); {
	case e.Message != nil && e.Message.Place == Missing:
		e.Code, e.Text = Lost, e.Text+"; its timer is missing: the sweeper arms it again"
	case late > 0:
		e.Code, e.Text = WaitDue, e.Text+fmt.Sprintf(", %s ago: it waits for a worker", late.Round(time.Second))
	}
	return e
}

// approval says whose decision is waited for.
func (f *Facts) approval(w *statemachine.Wait) string {
	g := w.Gate
	who := strings.Join(g.Missing(), ", ")
	if who == "" {
		who = "whoever it is escalated to"
	}
	text := fmt.Sprintf("state %s waits for an approval by %s", f.Record.Frames[w.Frame].State, who)
	if g.Quorum > 1 {
		text += fmt.Sprintf(" (%d of %d have approved)", len(g.Answers), g.Quorum)
	}
	return text
}

// moment is a time as texts give it.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
