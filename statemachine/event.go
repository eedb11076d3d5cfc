package statemachine

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// normalize brings an event into the form that is recorded, but for its body.
func (f *Fold) normalize(e *Event) error {
	if e.At.IsZero() {
		e.At = f.env.Now
	}
	e.At = utc(e.At)
	if e.RetryAt != nil {
		at := utc(*e.RetryAt)
		e.RetryAt = &at
	}
	if e.Due != nil {
		at := utc(*e.Due)
		e.Due = &at
	}
	id := e.ID
	switch e.Kind {
	case EventStart, EventFork:
		id = StartEventID
	case EventResult:
		id = ResultEventID(e.Effect)
	case EventFailure:
		id = FailureEventID(e.Effect, e.Try)
	case EventDue:
		id = DueEventID(e.Effect, e.Try)
	case EventQueue:
		id = QueueEventID(e.Effect)
	case EventCallback:
		id = CallbackEventID(e.Effect, e.Try)
	case EventBeat:
		id = BeatEventID(e.Effect, e.Try)
	case EventLapse:
		id = LapseEventID(e.Effect, e.Try)
	case EventSignal:
		if !strings.HasPrefix(id, SignalEventID("")) || !validID(id) || !validID(e.Name) {
			return fmt.Errorf("signal event %q: an id is %q and UTF-8", id, SignalEventID("…"))
		}
		if err := within("id", len(id)-len(SignalEventID("")), MaxID); err != nil {
			return err
		}
		if err := within("name", len(e.Name), MaxID); err != nil {
			return err
		}
	case EventChild:
		id = ChildEventID(e.Effect, e.Name)
		if !validID(e.Name) || len(e.Name) > MaxID {
			return fmt.Errorf("child event %q: a run id is UTF-8 of at most %d bytes", trim(e.ID, 64), MaxID)
		}
	case EventCancel, EventTerminate, EventPause, EventResume, EventRedrive, EventResolve, EventConfirm, EventApproval, EventDelegate, EventUpdate:
		if err := normalizeCommand(e); err != nil {
			return err
		}
	default:
		return fmt.Errorf("event %q: kind %q is not known", e.ID, e.Kind)
	}
	if err := checkParent(e); err != nil {
		return err
	}
	if e.ID != "" && e.ID != id {
		return fmt.Errorf("event %q: its id should be %q", e.ID, id)
	}
	e.ID = id
	e.Cause = e.Cause.trimmed()
	return nil
}

// refuse decides whether the event has no business with the state it meets.
func (f *Fold) refuse(e *Event) (Outcome, bool) {
	if e.Kind == EventStart {
		return f.refuseStart(e)
	}
	if e.Kind == EventFork {
		return f.refuseFork(e)
	}
	if len(f.rec.Frames) == 0 && f.from == nil {
		return Unknown, true
	}
	if e.Kind == EventSignal || e.Kind.IsCommand() {
		switch {
		case slices.Contains(f.rec.Applied, e.ID):
			return Duplicate, true
		case f.rec.Status.Ended():
			return Ended, true
		case e.Effect != "" && (f.rec.Parent == nil || f.rec.Parent.Effect != e.Effect): // a parent's, of another child with this id
			return Stale, true
		}
		return Applied, false
	}
	if e.Kind == EventCallback || e.Kind == EventBeat {
		if o := f.rec.Awaits(e.Effect, e.Try); o != Applied {
			return o, true
		}
	}
	if e.Kind == EventDue && f.rec.WaitsFor(e.Effect, e.Try) {
		return Early, e.At.Before(*f.rec.Waits[f.rec.wait(e.Effect)].Due)
	}
	p := f.pending(e.Effect)
	if p == nil || f.rec.Status.Ended() {
		return Stale, true
	}
	if e.Name == "" {
		e.Name = p.Effect
	}
	if p.Child != nil && e.Kind != EventChild {
		return Stale, true // nothing but its end tells of a child
	}
	switch e.Kind {
	case EventFailure:
		return Stale, p.Try != e.Try || p.Place != Inline && p.Place != Queued && p.Place != Held
	case EventQueue:
		return Stale, p.Place != Inline
	case EventDue:
		if p.Place != Retry || p.Try != e.Try {
			return Stale, true
		}
		return Early, p.RetryAt != nil && e.At.Before(*p.RetryAt)
	case EventLapse:
		if !p.Accepted() || p.Try != e.Try {
			return Stale, true
		}
		return Early, e.At.Before(*p.RetryAt)
	case EventBeat: // it says nothing new unless it moves the time
		return Stale, !p.Accepted() || e.RetryAt == nil || !e.RetryAt.After(*p.RetryAt)
	case EventChild:
		return Stale, f.refuseAnswer(e, p)
	case EventCallback: // what failed before it came is not failed again
		return Stale, e.Cause != nil && p.Place == Retry && !p.Accepted()
	}
	return Applied, false
}

// refuseStart compares a start with the run that is there.
func (f *Fold) refuseStart(e *Event) (Outcome, bool) {
	machine := e.Name
	if machine == "" {
		machine = f.d.Name
	}
	if f.rec.Input == "" && f.from == nil {
		return Conflict, machine != f.d.Name
	}
	body, err := compact(e.Body)
	if err != nil || machine != f.rec.Machine || Fingerprint(machine, body) != f.rec.Input {
		return Conflict, true
	}
	if p, q := e.Parent, f.rec.Parent; p != nil && (q == nil || p.Run != q.Run || p.Effect != q.Effect) {
		return Conflict, true
	}
	return Duplicate, true
}

// pending returns the pending effect with this id, or nil.
func (f *Fold) pending(id string) *Pending {
	for i := range f.rec.Pending {
		if f.rec.Pending[i].ID == id {
			return &f.rec.Pending[i]
		}
	}
	return nil
}

// trimmed returns the cause with a message that fits.
func (c *Cause) trimmed() *Cause {
	if c == nil {
		return nil
	}
	t := *c
	if t.Class == "" {
		t.Class = ClassError
	}
	t.Message = trim(t.Message, MaxMessage)
	return &t
}

// trim cuts s to at most n bytes of valid UTF-8.
func trim(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	const dots = "…"
	cut := n - len(dots)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.ToValidUTF8(s[:cut], "?") + dots
}
