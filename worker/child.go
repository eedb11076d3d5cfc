package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// A child's start, its stop and its answer are entries of outboxes and events of
// runs, like everything else. What has no record is told here: that a child
// could not begin, and once more how one ended that its parent asks for again.

// admitAnswer reads the end of a child. A child and an effect have one answer
// only, however often it comes: so its id is its wake.
func admitAnswer(h *held) error {
	var a statemachine.Answer
	if err := json.Unmarshal(h.m.Body, &a); err != nil {
		return statemachine.Terminal("malformed", fmt.Errorf("the body is no answer of a child: %w", err))
	}
	h.wake = statemachine.ChildEventID(a.Effect, a.Child)
	h.event = &statemachine.Event{ID: h.wake, Kind: statemachine.EventChild, At: h.m.Time.UTC(), Seq: h.m.Seq, Effect: a.Effect, Name: a.Child, Body: a.Result, Cause: a.Cause}
	return nil
}

// tellParent tells the parent of a child why that could not begin; it reports
// whether that is stored.
func (w *Worker) tellParent(ctx context.Context, m queue.Message, cause error) bool {
	of := statemachine.Parent{Run: m.Parent.Run, Effect: m.Parent.Effect, Asked: m.Parent.Asked, Level: m.Parent.Level}
	a := of.Answer(m.Run)
	a.Cause = &statemachine.Cause{Class: statemachine.ClassOf(cause), Message: messageOf(cause)}
	body, err := json.Marshal(a)
	if err != nil { // texts and numbers
		return false
	}
	item := outbox.Item{Run: m.Run, Machine: m.Machine, Entry: statemachine.Entry{Kind: statemachine.EntryAnswer, ID: a.Effect, Body: body}}
	if err := w.ports.Mail.Publish(ctx, []outbox.Item{item})[0]; err != nil {
		w.trouble(onNATS, err)
		return false
	}
	w.log.Warn("told a parent that its child could not begin", logkey.Run, m.Run, logkey.Parent, m.Parent.Run, logkey.Class, a.Cause.Class, logkey.Cause, a.Cause.Message)
	return true
}

// answerAgain tells a parent that asks for a child which has ended how it did:
// under an id that it was given, a child is there once. It reports whether
// nothing is left to tell.
func (l *lane) answerAgain(ctx context.Context, s *slot, h *held) bool {
	if h.m.Kind != queue.Start || h.m.Parent == nil || !s.state.Status.Ended() {
		return true
	}
	var err error
	item := outbox.Item{Run: s.run, Machine: s.state.Machine, State: s.state.To, Seq: s.state.Seq, Txid: s.state.Txid, Record: s.state.Record,
		Entry: statemachine.Entry{Kind: statemachine.EntryAnswer, ID: h.m.Parent.Effect}}
	l.beatWhile(ctx, func() { err = l.w.ports.Mail.Publish(ctx, []outbox.Item{item})[0] })
	if err != nil {
		l.w.trouble(onNATS, err)
	}
	return err == nil
}
