package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// maxTries bounds how often a message for a run that does not exist (yet) is
// postponed before it is dead-lettered.
const maxTries = 5

// admit turns a delivery into what a lane works with. An error means that no
// run can ever take the message: it is dead-lettered.
func admit(m queue.Message) (*held, error) {
	now := time.Now()
	h := &held{m: m, since: now, beat: now}
	if m.Fault != nil {
		return h, statemachine.Terminal("malformed", m.Fault)
	}
	if err := queue.CheckRun(m.Run); err != nil {
		return h, statemachine.Terminal("malformed", err)
	}
	switch m.Kind {
	case queue.Start:
		if err := checkJSON(m.Body); err != nil {
			return h, statemachine.Terminal("malformed", err)
		}
		h.wake = statemachine.StartEventID
		h.event = &statemachine.Event{ID: statemachine.StartEventID, Kind: statemachine.EventStart, Name: m.Machine, At: m.Time.UTC(), Seq: m.Seq, Body: m.Body, Tenant: m.Tenant, Due: m.StartAt}
		if p := m.Parent; p != nil {
			h.event.Parent = &statemachine.Parent{Run: p.Run, Effect: p.Effect, Asked: p.Asked, Level: p.Level}
		}
	case queue.Signal:
		body := m.Body
		if len(body) > 0 {
			if err := checkJSON(body); err != nil {
				return h, statemachine.Terminal("malformed", err)
			}
		}
		id := statemachine.SignalEventID(m.ID)
		h.wake = id
		h.event = &statemachine.Event{ID: id, Kind: statemachine.EventSignal, Name: m.Name, At: m.Time.UTC(), Seq: m.Seq, Body: body}
	case queue.Event:
		kind := statemachine.EventKind(m.Name)
		if kind == statemachine.EventFork {
			return h, admitFork(h)
		}
		if _, err := statemachine.ParseCommand(kind, m.Body); err != nil {
			return h, statemachine.Terminal("malformed", err)
		}
		h.event = &statemachine.Event{ID: statemachine.CommandEventID(m.ID), Kind: kind, At: m.Time.UTC(), Seq: m.Seq, Body: m.Body}
		if m.Parent != nil {
			h.event.Effect = m.Parent.Effect
		}
	case queue.Child:
		return h, admitAnswer(h)
	case queue.Due:
		h.wake = statemachine.DueEventID(m.ID, m.Try)
		h.event = &statemachine.Event{ID: h.wake, Kind: statemachine.EventDue, Effect: m.ID, Try: m.Try, At: m.Time.UTC(), Seq: m.Seq}
	case queue.Result:
		return h, admitResult(h)
	case queue.Effect:
		h.wake = statemachine.EffectWake(m.ID)
	default:
		return h, statemachine.Terminal("malformed", fmt.Errorf("messages of kind %q are not known to this build", m.Kind))
	}
	return h, nil
}

// admitFork reads what a fork begins with: its message names its machine there.
func admitFork(h *held) error {
	k, err := statemachine.ParseFork(h.m.Body)
	if err != nil {
		return statemachine.Terminal("malformed", err)
	}
	h.m.Machine, h.m.Version = k.Machine, k.Version
	h.wake = statemachine.StartEventID
	h.event = &statemachine.Event{ID: statemachine.StartEventID, Kind: statemachine.EventFork, At: h.m.Time.UTC(), Seq: h.m.Seq, Body: h.m.Body}
	return nil
}

// checkJSON says in one line why a body is not JSON.
func checkJSON(body []byte) error {
	if len(body) == 0 {
		return errors.New("no body: the input must be JSON, {} if there is none")
	}
	if json.Valid(body) {
		return nil
	}
	var v any
	err := json.Unmarshal(body, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("body is not JSON: %w at byte %d", err, syntax.Offset)
	}
	return fmt.Errorf("body is not JSON: %w", err)
}

// startsFirst orders messages so that what makes a run comes before what is
// told to it.
func startsFirst(all []*held) []*held {
	out := make([]*held, 0, len(all))
	for _, h := range all {
		if h.begins() {
			out = append(out, h)
		}
	}
	for _, h := range all {
		if !h.begins() {
			out = append(out, h)
		}
	}
	return out
}

// outcome deals with a message that did not move the run.
func (l *lane) outcome(ctx context.Context, s *slot, h *held, o statemachine.Outcome) {
	switch o {
	case statemachine.Duplicate:
		if h.known = l.answerAgain(ctx, s, h); !h.known {
			s.waiting = max(s.waiting, l.w.cfg.beat())
		}
	case statemachine.Conflict:
		how := "and with another input"
		if h.m.Parent != nil {
			how += ", or is not this child"
		}
		l.refuse(ctx, s, h, statemachine.Terminal(statemachine.ClassConflict,
			fmt.Errorf("run %q exists, of machine %s %s: this %s was not applied", s.run, s.state.Machine, how, h.event.Kind)))
	case statemachine.Ended:
		what := "signal"
		switch h.m.Kind {
		case queue.Event:
			what = "command"
		case queue.Result:
			what = "callback"
		}
		l.refuse(ctx, s, h, statemachine.Terminal("run_ended", fmt.Errorf("run %q has ended (%s): the %s %s was not applied", s.run, s.state.Status, what, h.m.Name)))
	case statemachine.Stale:
		l.late(ctx, s, h)
	case statemachine.Early: // its own time does not change: only a copy can come later
		if at := s.dueAt(h.m.ID); at != nil {
			l.postponeTo(ctx, s, h, *at)
		}
	}
}

// refuse dead-letters a message that its run cannot take. The letter is
// stored first; only then is nothing left to do but the ack.
func (l *lane) refuse(ctx context.Context, s *slot, h *held, err error) {
	stored := false
	l.beatWhile(ctx, func() { stored = l.w.deadLetter(ctx, h.m, err) })
	if stored {
		h.spent = true
		_ = h.m.Ack() // at once: others may take long to be dealt with, and it would come again
		return
	}
	s.waiting = max(s.waiting, l.w.cfg.beat(), l.w.letters.wait())
}

// orphans deals with messages for a run that does not exist.
func (l *lane) orphans(ctx context.Context, s *slot) {
	var r *statemachine.Stored
	var err error
	l.beatWhile(ctx, func() { r, err = l.w.ports.Log.Look(ctx, s.run) })
	switch {
	case errors.Is(err, statemachine.ErrFormat):
		s.strange, s.again = err, true
		return
	case err != nil:
		l.w.trouble(onNATS, err)
		s.waiting = max(s.waiting, l.w.cfg.beat())
		return
	case r != nil: // the copy was old
		s.history, s.again = true, true
		return
	}
	for _, h := range s.held {
		if h.spent {
			continue
		}
		if (h.m.Kind == queue.Signal || h.m.Kind == queue.Event || h.m.Kind == queue.Child) && h.m.Tries < maxTries {
			l.postpone(ctx, s, h)
			continue
		}
		l.refuse(ctx, s, h, statemachine.Terminal("unknown_run", fmt.Errorf("there is no run %q", s.run)))
	}
}

// stranger deals with a message for a machine that this worker lacks: if
// another may have it, it comes again; if nobody ever registered it, it is
// dead-lettered.
func (l *lane) stranger(ctx context.Context, s *slot, h *held, machine string, version int) {
	if s.state == nil && s.strange == nil {
		var known bool
		var err error
		l.beatWhile(ctx, func() { known, err = l.w.ports.Machines.Known(ctx, machine, version) })
		if err != nil {
			l.w.trouble(onNATS, err)
			s.waiting = max(s.waiting, l.w.cfg.beat())
			return
		}
		if !known {
			class, text := "unknown_machine", fmt.Errorf("no worker of this fleet knows a machine %q", machine)
			if version != 0 {
				class, text = "unknown_version", fmt.Errorf("no worker of this fleet knows version %d of machine %q", version, machine)
			}
			l.refuse(ctx, s, h, statemachine.Terminal(class, text))
			return
		}
	}
	l.w.metrics.orphans.WithLabelValues(machine, strconv.Itoa(version)).Inc() // registered names only: bounded
	l.postpone(ctx, s, h)
}

// postpone has a copy of the message come again later, to whoever takes it.
func (l *lane) postpone(ctx context.Context, s *slot, h *held) {
	wait := min(5*time.Second<<min(h.m.Tries, 4), time.Minute)
	l.postponeTo(ctx, s, h, time.Now().Add(wait))
}

// postponeTo has a copy of the message come again at a given time.
func (l *lane) postponeTo(ctx context.Context, s *slot, h *held, at time.Time) {
	var err error
	l.beatWhile(ctx, func() { err = l.w.ports.Source.Postpone(ctx, h.m, at, h.m.Tries+1) })
	if err != nil {
		l.w.trouble(onNATS, err)
		s.waiting = max(s.waiting, l.w.cfg.beat())
		return
	}
	l.log.Info("postponed a message", logkey.Run, s.run, logkey.Wait, time.Until(at), logkey.Tries, h.m.Tries+1)
	h.spent = true
}

// deadLetter stores a letter for a message that no run has; it reports
// whether it is stored. Of what runs tell each other there are no letters: a
// start's parent is told, and the rest comes to runs that wait no more.
func (w *Worker) deadLetter(ctx context.Context, m queue.Message, cause error) bool {
	if m.Fault == nil && (m.Parent != nil || m.Kind == queue.Child) {
		return m.Kind != queue.Start || w.tellParent(ctx, m, cause)
	}
	if !w.letters.open() {
		return false
	}
	kind := deadletter.KindOther
	switch m.Kind {
	case queue.Start:
		kind = deadletter.KindStart
	case queue.Signal:
		kind = deadletter.KindSignal
	}
	class := statemachine.ClassOf(cause)
	headers := m.Headers
	switch { // an id that was made is kept
	case m.Kind == queue.Start && m.Fault == nil:
		headers = with(headers, "Pawl-Run-Id", m.Run)
	case m.Kind == queue.Signal && m.Fault == nil:
		headers = with(headers, "Pawl-Signal-Id", m.ID)
	}
	l := deadletter.Letter{
		// One letter for one message: what it is judged to be may change (a run
		// may exist by the next delivery), the first verdict stands.
		ID:   m.LetterID(),
		Kind: kind, Machine: m.Machine, Run: m.Run, Class: class, Cause: messageOf(cause),
		Print: statemachine.FaultPrint(m.Machine, "", string(m.Kind), class, messageOf(cause)),
		First: m.Time.UTC(), Last: time.Now().UTC(), Build: w.cfg.Build,
		Source: m.Subject, SrcSeq: m.Seq, Headers: headers, Body: m.Body, Redrives: m.Redrives,
	}
	sent := time.Now()
	err := w.ports.Source.DeadLetter(ctx, l)
	_ = crash.Point("letter.stored")
	w.posted(sent, err, logkey.Run, m.Run, logkey.Class, class)
	if err != nil {
		return false // the message stays where it is
	}
	w.metrics.letter(string(kind), class)
	w.log.Warn("dead-lettered a message", logkey.Kind, string(kind), logkey.Run, m.Run, logkey.Class, class, logkey.Cause, l.Cause)
	return true
}

// with returns a copy of headers with one more.
func with(headers map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(headers)+1)
	for k, v := range headers {
		out[k] = v
	}
	out[key] = value
	return out
}
