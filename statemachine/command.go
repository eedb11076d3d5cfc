package statemachine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ParseCommand reads and checks the body of a command: the JSON of a Command,
// or nothing. The error is one line for people.
func ParseCommand(kind EventKind, body []byte) (Command, error) {
	var c Command
	if !kind.IsCommand() {
		return c, fmt.Errorf("no command is called %q", trim(string(kind), 64))
	}
	if err := unmarshalStrict(body, &c); err != nil {
		return c, fmt.Errorf("body of a %s: %w", kind, inputError(err))
	}
	return c, c.Check(kind)
}

// Check says what is wrong with a command, in one line.
func (c Command) Check(kind EventKind) error {
	var err error
	switch {
	case !kind.IsCommand():
		return fmt.Errorf("no command is called %q", trim(string(kind), 64))
	case c.Effect != "" && kind != EventRedrive && kind != EventResolve && kind != EventConfirm && (kind != EventResume || c.To == ""):
		err = errors.New("effect is for a redrive, a resolve, a confirm, or a resume that names a state only")
	case c.To != "" && kind != EventResume && kind != EventDelegate:
		err = errors.New("to is for a resume or a delegate only")
	case kind == EventDelegate && !validApprover(c.To):
		err = fmt.Errorf("%q can be no approver: a name is one token of a subject, of at most %d bytes", trim(c.To, maxName), maxName)
	case kind == EventResume && c.To != "" && (c.Effect == "" || strings.TrimSpace(c.Reason) == ""):
		err = errors.New("to needs the effect that was given up, and a reason")
	case len(c.Result) > 0 && kind != EventResolve:
		err = errors.New("result is for a resolve only")
	case kind == EventResolve && (c.Effect == "" || len(c.Result) == 0):
		err = errors.New("effect and result are needed")
	case len(c.Result) > 0 && !json.Valid(c.Result):
		err = errors.New("the result is not JSON")
	case kind == EventUpdate && !validName(c.Name, false):
		err = fmt.Errorf("%q is no name of an update (%s)", trim(c.Name, maxName), nameGrammar)
	case c.Name != "" && kind != EventUpdate:
		err = errors.New("name is for an update only")
	case c.Try != 0 && kind != EventRedrive, len(c.Input) > 0 && kind != EventRedrive && kind != EventUpdate:
		err = errors.New("try and input are for a redrive only")
	case kind == EventUpdate && len(c.Input) > 0 && !json.Valid(c.Input):
		err = errors.New("the input is not JSON")
	case kind != EventUpdate && c.Effect == "" && (c.Try != 0 || len(c.Input) > 0):
		err = errors.New("try and input are of one effect, and none is named")
	case c.Try < 0:
		err = fmt.Errorf("try %d is not 1 or more", c.Try)
	case c.Approval == "" && (kind == EventApproval || kind == EventDelegate):
		err = errors.New("the approval is not named")
	case c.Approval != "" && kind != EventApproval && kind != EventDelegate:
		err = errors.New("approval is for an answer or a delegate only")
	case kind == EventApproval && !c.Verdict.Known():
		err = fmt.Errorf("verdict %q is not %s or %s", trim(string(c.Verdict), maxName), Approved, Rejected)
	case (c.Verdict != "" || c.Hash != "") && kind != EventApproval:
		err = errors.New("verdict and hash are for an answer only")
	case c.NoUndo && kind != EventCancel:
		err = errors.New("no_undo is for a cancel only")
	case !utf8.ValidString(c.By + c.Reason + c.Effect + c.To + c.Approval + c.Hash):
		err = errors.New("not UTF-8")
	default:
		err = c.within(kind)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

func (c Command) within(kind EventKind) error {
	if err := within("by", len(c.By), MaxID); err != nil {
		return err
	}
	if err := within("reason", len(c.Reason), MaxMessage); err != nil {
		return err
	}
	if err := within("effect", max(len(c.Effect), len(c.Approval), len(c.Hash)), MaxID); err != nil {
		return err
	}
	if err := within("to", len(c.To), maxName); err != nil {
		return err
	}
	if kind == EventUpdate {
		if err := within("input", len(c.Input), MaxSignal); err != nil {
			return err
		}
		return depthWithin("input", c.Input)
	}
	return within("input", len(c.Input), maxEdit)
}

// maxEdit is how large the input of a redrive may be: its message has to fit.
const maxEdit = 512 << 10

// IsCommand reports whether events of this kind are commands of a person.
func (k EventKind) IsCommand() bool {
	switch k {
	case EventCancel, EventTerminate, EventPause, EventResume, EventRedrive, EventResolve, EventConfirm, EventApproval, EventDelegate, EventUpdate:
		return true
	}
	return false
}

// normalizeCommand checks a command and gives its body the form that is
// recorded.
func normalizeCommand(e *Event) error {
	if !strings.HasPrefix(e.ID, CommandEventID("")) || !validID(e.ID) {
		return fmt.Errorf("command event %q: an id is %q and UTF-8", e.ID, CommandEventID("…"))
	}
	if err := within("id", len(e.ID)-len(CommandEventID("")), MaxID); err != nil {
		return err
	}
	c, err := ParseCommand(e.Kind, e.Body)
	if err != nil {
		return err
	}
	e.Body = nil
	e.Name = c.Name
	if !c.IsZero() {
		e.Body, err = marshal(c)
	}
	return err
}

// command applies a command. It is recorded even if it changes nothing, so
// that who sent it finds its id.
func (f *Fold) command(e *Event, body json.RawMessage) error {
	var c Command
	if err := unmarshal(body, &c); err != nil {
		return err
	}
	f.remember(e.ID)
	switch e.Kind {
	case EventCancel:
		return f.cancel(e.ID, c)
	case EventTerminate:
		f.cutShort(Ending{StatusCancelled, &Cause{Class: ClassTerminated, Message: c.Reason, State: f.rec.Frames[0].State, By: c.By}})
	case EventPause:
		f.pause(c)
	case EventResume:
		if c.To != "" {
			return f.sendOn(e, c)
		}
		return f.resume(e.ID)
	case EventRedrive:
		return f.redrive(c)
	case EventResolve:
		return f.resolve(e, c)
	case EventApproval, EventDelegate:
		return f.approval(e, c)
	case EventUpdate:
		return f.update(e, c)
	case EventConfirm:
		f.confirm(c)
	}
	return nil
}

// cancel ends the run where it is, after what there is to undo.
func (f *Fold) cancel(event string, c Command) error {
	end := Ending{StatusCancelled, &Cause{Class: ClassCancelled, Message: c.Reason, State: f.rec.Frames[0].State, By: c.By}}
	if c.NoUndo {
		f.cutShort(end)
		return nil
	}
	return f.end(event, end)
}

// pause holds the effects that somebody might start. Those that wait for their
// next try go on waiting, and those given up stay so.
func (f *Fold) pause(c Command) {
	if f.rec.Status == StatusPaused {
		return
	}
	f.rec.Status = StatusPaused
	f.rec.Cause = &Cause{Class: ClassPaused, Message: c.Reason, State: f.rec.Frames[0].State, By: c.By}
	f.replaceAll(func(p *Pending) bool { return p.Place == Inline || p.Place == Queued }, f.hold)
}

// resume queues what is held: its own message is what wakes it. A run that was
// ending goes on to its end.
func (f *Fold) resume(event string) error {
	if f.rec.Status != StatusPaused {
		return nil
	}
	if f.rec.Ending != nil {
		return f.windUp(event, *f.rec.Ending)
	}
	f.rec.Status = StatusRunning
	f.rest()
	f.replaceAll(func(p *Pending) bool { return p.Place == Held }, f.queue)
	return nil
}

// redrive has effects that were given up tried anew: one, or all if it names
// none. Attempts begin again, tries go on: what an old try still says is stale.
func (f *Fold) redrive(c Command) error {
	var input json.RawMessage
	if len(c.Input) > 0 {
		var err error
		if input, err = f.refer(c.Input); err != nil {
			return err
		}
	}
	meant := func(p *Pending) bool {
		return p.Place == Parked && !p.Unconfirmed() && (c.Effect == "" || p.ID == c.Effect) && (c.Try == 0 || p.Try == c.Try)
	}
	f.replaceAll(meant, func(p *Pending) {
		p.Try++
		p.Redrives++
		p.Attempt, p.Cause, p.First, p.Redriven = 1, nil, nil, p.Try
		if input != nil {
			p.Input, p.Print = input, Fingerprint(p.asks(), c.Input)
			p.Edits++
		}
		f.queue(p)
	})
	f.wakeAgain(c)
	f.rest()
	return nil
}

// resolve takes what a person says an effect came to that was given up, as if
// its handler had returned it.
func (f *Fold) resolve(e *Event, c Command) error {
	p := f.pending(c.Effect)
	if p == nil || p.Place != Parked {
		return nil
	}
	return f.answer(e, c.Effect, c.Result)
}

// rest sets what is said of a run that goes on, from what it waits for.
func (f *Fold) rest() {
	if f.rec.Status == StatusPaused {
		return
	}
	f.rec.Status, f.rec.Cause = StatusRunning, nil
	for i := range f.rec.Pending {
		if p := &f.rec.Pending[i]; p.Place == Parked && p.Tells == "" {
			f.rec.Status, f.rec.Cause = StatusParked, p.Cause
		}
	}
	for i := range f.rec.Waits {
		if w := &f.rec.Waits[i]; w.Cause != nil {
			f.rec.Status, f.rec.Cause = StatusParked, w.Cause
		}
	}
}

// queue lets a pending effect be performed by whoever gets its message; not
// while the run is paused.
func (f *Fold) queue(p *Pending) {
	if f.rec.Status == StatusPaused {
		f.hold(p)
		return
	}
	if p.Child != nil {
		f.begin(p)
		return
	}
	p.Place, p.Wake, p.Depth, p.RetryAt = Queued, "", 0, nil
	f.retract(p.ID) // what an event before in the same record wanted sent
	f.emit(Entry{Kind: EntryEffect, ID: p.ID, Effect: p.Effect})
}

// hold keeps a pending effect from being started.
func (f *Fold) hold(p *Pending) {
	p.Place, p.Wake, p.Depth, p.RetryAt = Held, "", 0, nil
	f.retract(p.ID)
}

// replaceAll is replace for all pending effects that are meant.
func (f *Fold) replaceAll(meant func(p *Pending) bool, change func(p *Pending)) {
	for i := range f.rec.Pending {
		if p := &f.rec.Pending[i]; meant(p) {
			f.replace(p.ID, change)
		}
	}
}

// retract takes the messages of an effect out of this record's outbox. So a
// record says the same whether the effect was asked inline or queued before.
func (f *Fold) retract(effect string) {
	var rest []Entry
	for _, e := range f.rec.Outbox {
		if e.ID != effect || e.Kind != EntryEffect && e.Kind != EntryTimer && e.Kind != EntryChild {
			rest = append(rest, e)
		}
	}
	f.rec.Outbox = rest
}

// remember notes the id of a signal or command that was applied.
func (f *Fold) remember(id string) {
	applied := f.rec.Applied
	if len(applied) >= MaxApplied {
		applied = applied[len(applied)-MaxApplied+1:]
	}
	f.rec.Applied = append(applied[:len(applied):len(applied)], id)
}
