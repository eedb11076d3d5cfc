package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Every change is a message that the fleet applies. What is read here before
// it is sent only spares those that can come to nothing, and what is read
// afterwards only tells what became of it.

// start asks for a run, and waits for its first record or its letter.
func (s *Server) start(ctx context.Context, _ Caller, q *StartRequest) (*Started, error) {
	timeout, err := q.check()
	if err != nil {
		return nil, err
	}
	if s.answers.Sender == nil {
		return nil, errReadOnly()
	}
	print, err := startPrint(q.Machine, q.Input)
	if err != nil {
		return nil, badf("input: %s", err)
	}
	sooner, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	r, err := s.answers.Log.Look(sooner, q.ID)
	if err != nil {
		return nil, err
	}
	if r != nil { // what a run began with is so for ever: nothing need be sent
		return startedAs(q, print, r, false)
	}
	seq, err := s.answers.Sender.Start(sooner, Start{Machine: q.Machine, Run: q.ID, Version: q.Version, Input: q.Input, Priority: q.Priority, Tenant: q.Tenant, At: q.At})
	if err != nil {
		return nil, err
	}
	if timeout == 0 {
		return s.acceptedStart(ctx, q), nil
	}
	return s.started(ctx, timeout, q, print, seq)
}

// started waits for what became of a start.
func (s *Server) started(ctx context.Context, timeout time.Duration, q *StartRequest, print string, seq uint64) (*Started, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	refused := make(chan *Error, 1) // size: the one who looks for a letter never waits
	looking := make(chan struct{})
	go func() {
		defer close(looking)
		defer func() {
			if p := recover(); p != nil { // what became of the start is seen without it
				_ = s.fault("looking for the letter of a start", p)
			}
		}()
		if e := s.refused(ctx, q.Machine, seq); e != nil {
			refused <- e
			cancel()
		}
	}()
	r, err := s.until(ctx, timeout, q.ID, true, func(r *statemachine.Stored) (bool, error) { return r != nil, nil })
	cancel()
	<-looking
	if r != nil {
		return startedAs(q, print, r, s.beganWith(r, seq))
	}
	select {
	case e := <-refused:
		return nil, e
	default:
	}
	if err != nil && !over(err) {
		return nil, err
	}
	return s.acceptedStart(context.WithoutCancel(ctx), q), nil
}

// acceptedStart is the answer to a start that nothing came of yet. If no worker
// has its machine, nothing will for now.
func (s *Server) acceptedStart(ctx context.Context, q *StartRequest) *Started {
	a := &Started{ID: q.ID, Outcome: OutcomeAccepted}
	if s.answers.Mailroom == nil {
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if known, err := s.answers.Mailroom.Registered(ctx, q.Machine, q.Version); err == nil && !known {
		a.Note = "no worker has registered machine " + q.Machine
		if q.Version > 0 {
			a.Note += fmt.Sprintf(" version %d", q.Version)
		}
	}
	return a
}

// refused looks for the letter of a start, less and less often, until ctx ends.
func (s *Server) refused(ctx context.Context, machine string, seq uint64) *Error {
	if seq == 0 {
		return nil
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		// A letter that cannot be read yet is looked for again.
		if l, ok, err := s.answers.Letters.OfStart(ctx, machine, seq); ok && err == nil {
			return errorf(l.Class, "the start was refused: %s: %s", l.Class, strings.TrimPrefix(l.Cause, l.Class+": "))
		}
	}
}

// startedAs is what a start is to a run that exists; created says that the run
// began with this one, and not with another like it.
func startedAs(q *StartRequest, print string, r *statemachine.Stored, created bool) (*Started, error) {
	if r.Machine != q.Machine {
		return nil, errorf(ClassConflict, "run %s exists, of machine %s", quoted(q.ID), r.Machine)
	}
	if r.Input != print {
		return nil, errorf(ClassConflict, "run %s exists, with another input", quoted(q.ID))
	}
	a := &Started{ID: q.ID, Outcome: OutcomeExists, Status: r.Status, Revision: r.Rev}
	if created {
		a.Outcome = OutcomeCreated
	}
	return a, nil
}

// beganWith reports whether a run that was not there before began with the
// message of this sequence. A start whose ack was lost is sent twice and knows
// the second sequence only: then it did not, as with somebody else's. If its first record cannot be read, it did.
func (s *Server) beganWith(r *statemachine.Stored, seq uint64) bool {
	if r.Rev > 1 {
		ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timeout)
		defer cancel()
		for first, err := range s.answers.Log.Read(ctx, r.Run, 0) {
			if err != nil || first.Rev != 1 {
				return true
			}
			r = first
			break
		}
	}
	for i := range r.Events {
		if e := &r.Events[i]; e.Kind == statemachine.EventStart {
			return e.Seq == 0 || seq == 0 || e.Seq == seq
		}
	}
	return true
}

// startPrint is the fingerprint that a run has of its start.
func startPrint(machine string, input []byte) (string, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, input); err != nil {
		return "", err
	}
	return statemachine.Fingerprint(machine, b.Bytes()), nil
}

// check says all that is wrong with a start, and sets its defaults.
func (q *StartRequest) check() (time.Duration, error) {
	var f faults
	f.name("machine", q.Machine)
	if q.ID == "" {
		q.ID = q.Machine + "-" + queue.NewID()
	}
	f.run(q.ID)
	f.header("run id", q.ID)
	if q.Version < 0 {
		f.addf("version %d is not 1 or more", q.Version)
	}
	if q.Priority != "" {
		if _, err := queue.ParsePriority(string(q.Priority)); err != nil {
			f.addf("%s", err)
		}
	}
	if q.Tenant != "" {
		if err := queue.CheckTenant(q.Tenant); err != nil {
			f.addf("%s", err)
		}
	}
	if q.At != nil {
		if err := queue.CheckStartAt(*q.At); err != nil {
			f.addf("at: %s", err)
		}
	}
	if len(q.Input) == 0 {
		q.Input = json.RawMessage("{}")
	}
	timeout := f.timeout(q.Timeout, usualWait)
	if err := f.err(); err != nil {
		return 0, err
	}
	if len(q.Input) > maxBody {
		return 0, errorf(ClassTooLarge, "the input has %d bytes, over %d", len(q.Input), maxBody)
	}
	return timeout, nil
}

// signal tells a run something from outside.
func (s *Server) signal(ctx context.Context, _ Caller, q *SignalRequest) (*Told, error) {
	var f faults
	f.run(q.ID)
	f.name("signal", q.Name)
	timeout := f.timeout(q.Timeout, usualWait)
	f.id("signal_id", &q.SignalID)
	if err := f.err(); err != nil {
		return nil, err
	}
	if len(q.Body) > statemachine.MaxSignal { // a worker would only have a letter of it
		return nil, errorf(ClassTooLarge, "the body has %d bytes, over %d", len(q.Body), statemachine.MaxSignal)
	}
	told, err := s.tell(ctx, timeout, message{
		run: q.ID, what: "signal " + quoted(q.Name), event: statemachine.SignalEventID(q.SignalID),
		fits: func(r *statemachine.Stored) error { return s.answers.takesSignal(r.Record, q) },
		send: func(ctx context.Context) error {
			return s.answers.Sender.Signal(ctx, SignalTo{Run: q.ID, Name: q.Name, ID: q.SignalID, Body: q.Body})
		},
	})
	if told != nil {
		told.SignalID = q.SignalID
	}
	return told, err
}

// takesSignal refuses a signal that no run of the machine takes, neither in the
// version that the run has nor in the highest, and one whose payload does not
// fit. A machine that is not known here is judged by who drives it.
func (a *Answers) takesSignal(r *statemachine.Record, q *SignalRequest) error {
	d := a.maker(r)
	if d == nil {
		return nil
	}
	err := d.CheckSignal(q.Name, q.Body)
	if statemachine.ClassOf(err) == statemachine.ClassUnknownSignal {
		if newest, ok := a.Definitions.Definition(r.Machine, 0); ok && newest.CheckSignal(q.Name, q.Body) == nil {
			return nil // it stays in the inbox
		}
	}
	return notTaken(r.Run, err)
}

// command is the action of a verb that steers a run.
func (s *Server) command(v Verb) func(context.Context, Caller, *CommandRequest) (*Told, error) {
	kind := map[Verb]statemachine.EventKind{
		RunsCancel: statemachine.EventCancel, RunsTerminate: statemachine.EventTerminate, RunsPause: statemachine.EventPause,
		RunsResume: statemachine.EventResume, RunsRetry: statemachine.EventRedrive, RunsResolve: statemachine.EventResolve,
		RunsConfirm: statemachine.EventConfirm,
	}[v]
	name := strings.TrimPrefix(string(v), "runs.")
	return func(ctx context.Context, c Caller, q *CommandRequest) (*Told, error) {
		var f faults
		f.run(q.ID)
		f.id("request_id", &q.RequestID)
		by := c.recorded(q.By)
		f.text("by", by, maxID)
		f.text("reason", q.Reason, maxReason)
		f.text("effect", q.Effect, maxID)
		if q.Effect != "" && v != RunsRetry && v != RunsResolve && v != RunsConfirm && q.To == "" {
			f.addf("effect is for a retry, a resolve, a confirm, or a resume that names a state only")
		}
		if q.To != "" {
			f.name("to", q.To)
			if v != RunsResume {
				f.addf("to is for a resume only")
			}
			if strings.TrimSpace(q.Reason) == "" {
				f.addf("reason is missing: why is the run sent on?")
			}
		}
		if v == RunsResolve && (q.Effect == "" || len(q.Result) == 0) {
			f.addf("a resolve needs the effect and its result")
		}
		if len(q.Result) > 0 && v != RunsResolve {
			f.addf("result is for a resolve only")
		}
		if q.NoUndo && v != RunsCancel {
			f.addf("no_undo is for a cancel only")
		}
		timeout := f.timeout(q.Timeout, usualWait)
		if err := f.err(); err != nil {
			return nil, err
		}
		told, err := s.tell(ctx, timeout, message{
			run: q.ID, what: name, event: statemachine.CommandEventID(q.RequestID),
			fits: func(r *statemachine.Stored) error { return s.fits(v, q, r) },
			send: func(ctx context.Context) error {
				return s.answers.Sender.Command(ctx, Command{
					Run: q.ID, Kind: kind, ID: q.RequestID, Command: statemachine.Command{By: by, Reason: q.Reason, Effect: q.Effect, To: q.To, NoUndo: q.NoUndo, Result: q.Result},
				})
			},
		})
		if told != nil {
			told.RequestID = q.RequestID
		}
		return told, err
	}
}

// fits refuses what names an effect that the run has not given up, or a state
// that it cannot be sent on to, or has nothing to confirm: such a command would
// be recorded, and change nothing. A machine that is not known here is judged by who drives it.
func (s *Server) fits(v Verb, q *CommandRequest, r *statemachine.Stored) error {
	open := slices.ContainsFunc(r.Pending, func(p statemachine.Pending) bool {
		return p.Unconfirmed() && (q.Effect == "" || p.ID == q.Effect)
	})
	switch {
	case v == RunsConfirm && !open:
		return badf("run %s has nothing to confirm", quoted(r.Run))
	case v == RunsConfirm:
		return nil
	case v == RunsRetry && open && q.Effect != "":
		return badf("run %s: effect %s was not given up, it waits to be confirmed", quoted(r.Run), quoted(q.Effect))
	}
	if q.To != "" {
		effect, err := r.SendOn(q.Effect)
		if err != nil {
			return badf("run %s cannot be sent on: %s", quoted(r.Run), err)
		}
		q.Effect = effect // it is left, and no other that is given up by then
		exits, known := s.answers.exits(r.Record)
		if known && !slices.Contains(exits, q.To) {
			return badf("run %s cannot be sent on to %s: state %s leads to %s", quoted(r.Run), q.To, r.Frames[0].State, strings.Join(exits, ", "))
		}
		return nil
	}
	given := q.Effect == "" || slices.ContainsFunc(r.Pending, func(p statemachine.Pending) bool { return p.ID == q.Effect && p.Place == statemachine.Parked }) ||
		slices.ContainsFunc(r.Waits, func(w statemachine.Wait) bool { return w.ID == q.Effect && w.Cause != nil })
	if given {
		return nil
	}
	return badf("run %s has given up no effect %s", quoted(r.Run), quoted(q.Effect))
}

func ended(r *statemachine.Stored, what string) error {
	return errorf(ClassEnded, "run %s has ended (%s): %s was not applied", quoted(r.Run), howEnded(r.Record), what)
}

// howEnded says how a run ended, and who ended it if a person did.
func howEnded(r *statemachine.Record) string {
	how := string(r.Status)
	if c := r.Cause; c != nil && r.Status == statemachine.StatusCancelled {
		if c.Class == statemachine.ClassTerminated {
			how = c.Class
		}
		if c.By != "" {
			how += " by " + c.By
		}
	}
	return how
}

func errReadOnly() error { return errorf(ClassUnavailable, "nothing can be changed here") }

// id checks the id of a signal or a command; one is made if there is none.
func (f *faults) id(what string, id *string) {
	if *id == "" {
		*id = queue.NewID()
	}
	f.text(what, *id, maxID)
	f.header(what, *id)
}
