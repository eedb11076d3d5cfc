package natsqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// What runs tell each other goes through EVENTS, which only the disk bounds:
// were children started through START, a flood of starts would keep every
// parent from its next record.

// The names of events that are no commands.
const (
	nameStart = "start" // of a child, by its parent
	nameChild = "child" // the end of a child, to its parent
)

// childStart is the message that starts a child. Its input is the parent's, so a
// large one is read from the parent's blobs.
func (p *Publisher) childStart(ctx context.Context, item outbox.Item) (*nats.Msg, error) {
	of := pendingOf(item)
	if of == nil || of.Child == nil {
		return nil, errors.New("its record has no such child")
	}
	input := of.Input
	if ref, ok := statemachine.AsBlobRef(input); ok {
		var err error
		if input, err = p.getBlob(ctx, runPart(item.Run), ref.Hash); err != nil {
			return nil, fmt.Errorf("the input of the child: %w", err)
		}
	}
	level := 1
	if item.Record.Parent != nil {
		level += item.Record.Parent.Level
	}
	m := p.toRun(of.Child.Run, nameStart, queue.Parent{Run: item.Run, Effect: of.ID, Asked: item.Seq, Level: level})
	m.Header[headerMachine] = []string{of.Child.Machine}
	if t := item.Record.Tenant; t != "" {
		m.Header[headerTenant] = []string{t}
	}
	m.Data = input
	return m, nil
}

// pendingOf is the pending effect that an entry is about.
func pendingOf(item outbox.Item) *statemachine.Pending {
	if item.Record == nil {
		return nil
	}
	for i := range item.Record.Pending {
		if p := &item.Record.Pending[i]; p.ID == item.Entry.ID {
			return p
		}
	}
	return nil
}

// childStop is the command that ends a child. Its id is made of the effect that
// stood for the child: repeated, it is one.
func (p *Publisher) childStop(item outbox.Item) (*nats.Msg, error) {
	var stop statemachine.Stop
	if err := json.Unmarshal(item.Entry.Body, &stop); err != nil {
		return nil, fmt.Errorf("the end of a child: %w", err)
	}
	m := p.toRun(stop.Run, string(stop.Kind), queue.Parent{Run: item.Run, Effect: item.Entry.ID, Asked: item.Seq, Level: 1})
	m.Header[headerEvent] = []string{string(stop.Kind) + ":" + item.Entry.ID}
	body, err := json.Marshal(statemachine.Command{By: "its parent", Reason: stop.Reason})
	if err != nil {
		return nil, err
	}
	m.Data = body
	return m, nil
}

// answer is the message that tells a parent of the end of its child: what the
// child's last record says, or what the entry does.
func (p *Publisher) answer(item outbox.Item) (*nats.Msg, error) {
	var a statemachine.Answer
	switch {
	case len(item.Entry.Body) > 0:
		if err := json.Unmarshal(item.Entry.Body, &a); err != nil {
			return nil, fmt.Errorf("the answer to a parent: %w", err)
		}
	case item.Record == nil:
		return nil, errors.New("an answer of no record")
	default:
		var ok bool
		if a, ok = item.Record.Answer(); !ok {
			return nil, errors.New("the run has not ended, or is nobody's child")
		}
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // data stays as it is in the record
	if err := enc.Encode(a); err != nil {
		return nil, fmt.Errorf("the answer to a parent: %w", err)
	}
	return &nats.Msg{Subject: p.subj.event(a.Run), Data: bytes.TrimSuffix(body.Bytes(), []byte{'\n'}), Header: nats.Header{headerRun: {headerValue(a.Run)}, headerName: {nameChild}}}, nil
}

// toRun is a message from a parent to its child. The run id is one that the
// parent's machine made, so it may be such that a header cannot carry it.
func (p *Publisher) toRun(run, name string, from queue.Parent) *nats.Msg {
	parent, _ := json.Marshal(from) // strings and numbers
	return &nats.Msg{Subject: p.subj.event(run), Header: nats.Header{
		headerRun: {headerValue(run)}, headerName: {name}, headerParent: {headerValue(string(parent))},
	}}
}

// fillChildStart reads the start of a child: it is a start like any other.
func fillChildStart(q *queue.Message) error {
	q.Kind, q.Name, q.Machine, q.Priority = queue.Start, "", q.Headers[headerMachine], queue.Normal
	var err error
	if q.Parent, err = parentOf(q); err == nil && q.Parent == nil {
		err = fmt.Errorf("%s is missing", headerParent)
	}
	return first(err, checkName("machine", q.Machine), fillStanding(q))
}

// fillAnswer reads the end of a child.
func fillAnswer(q *queue.Message) error {
	q.Kind = queue.Child
	var a statemachine.Answer
	if err := json.Unmarshal(q.Body, &a); err != nil {
		return fmt.Errorf("the body is no answer of a child: %w", err)
	}
	if a.Run != q.Run {
		return fmt.Errorf("the body is for run %s, not that of subject %s", quoted(a.Run), quoted(q.Subject))
	}
	q.ID, q.Name, q.Asked = a.Effect, a.Child, a.Asked
	return nil
}

// parentOf reads which run sent a message to its child; nil if none did.
func parentOf(q *queue.Message) (*queue.Parent, error) {
	value, ok := q.Headers[headerParent]
	if !ok {
		return nil, nil
	}
	text, err := textOf(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", headerParent, err)
	}
	parent := new(queue.Parent)
	if err := json.Unmarshal([]byte(text), parent); err != nil {
		return nil, fmt.Errorf("%s is no parent: %w", headerParent, err)
	}
	return parent, first(queue.CheckRun(parent.Run), checkID(headerParent, parent.Effect, mostID))
}
