package deadletter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/statemachine"
)

// Fleet is what re-driving needs of a fleet. Errors that are about a single
// letter are *bulk.RefusedError.
type Fleet interface {
	// Last reads the last records of runs; nil for a run that has none. If the
	// error wraps statemachine.ErrFormat, some that there are could not be read.
	Last(ctx context.Context, runs []string) ([]*statemachine.Stored, error)
	// Blob reads a value that a record of a run refers to.
	Blob(ctx context.Context, run, hash string) ([]byte, error)
	// Registered reports whether a worker has registered a version of a
	// machine; any, if it is 0.
	Registered(ctx context.Context, machine string, version int) (bool, error)
	// Command has a run apply a redrive, once for an id. It returns when that
	// is durable, as does
	Command(ctx context.Context, run, id string, c statemachine.Command) error
	// Redrive, which puts the message of a letter back on its stream.
	Redrive(ctx context.Context, l Letter) error
	// Remove removes a letter that was read.
	Remove(ctx context.Context, l Letter) error
	// Next is the id of the letter that a message becomes if it is given up
	// again, and Known tells whether there ever was a letter with an id.
	Next(ctx context.Context, l Letter) (string, error)
	Known(ctx context.Context, id string) (bool, error)
}

// Case is a letter that something is to be done about.
type Case struct {
	Letter
	Err error // why it cannot be read in full

	edited json.RawMessage // nil: as it was
	fixed  string          // why its input cannot be edited; "": it can
	known  bool            // it was re-driven before: only the letter is left
	next   string          // id of the letter that it becomes if it is given up again
}

// Name names the case for people, and for the audit record.
func (c *Case) Name() string {
	name := "letter " + strconv.FormatUint(c.Seq, 10)
	if c.Run != "" {
		name += " of " + c.Run
	}
	return name
}

// Redriver has letters tried anew. An effect's is an event to its run, which
// has an id made of the letter's and names the try that the letter is about;
// a start or a signal goes back to its stream under the id that it had. All
// may be sent again. Only when it is durable does the letter go, so whoever is
// stopped at any moment may begin anew: nothing is lost, or done twice.
type Redriver struct {
	Fleet      Fleet
	By, Reason string // for the record
	Edit       []byte // JSON merge patch of the input; empty: none
}

// Decide says what re-driving would do, for a bulk.Job.
func (r *Redriver) Decide(ctx context.Context, cases []*Case) ([]bulk.Decision, error) {
	runs := make([]string, len(cases))
	for i, c := range cases {
		runs[i] = c.Run
	}
	last, err := r.Fleet.Last(ctx, runs)
	unreadable := errors.Is(err, statemachine.ErrFormat)
	if err != nil && !unreadable {
		return nil, err
	}
	out := make([]bulk.Decision, len(cases))
	for i, c := range cases {
		if unreadable && last[i] == nil && c.Run != "" {
			out[i] = refuse("there is no record of its run that this build can read")
			continue
		}
		if out[i], err = r.decide(ctx, c, last[i]); err != nil {
			return nil, err
		}
		if out[i].Do && !c.known && len(r.Edit) > 0 {
			out[i], err = r.edit(ctx, c, out[i])
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func refuse(format string, a ...any) bulk.Decision {
	return bulk.Decision{Reason: fmt.Sprintf(format, a...)}
}

// again is the decision on a letter that was re-driven before, by somebody who
// did not come to remove it.
func (c *Case) again() bulk.Decision {
	c.known = true
	return bulk.Decision{Do: true, What: "remove the letter of what was re-driven already"}
}

func (r *Redriver) decide(ctx context.Context, c *Case, run *statemachine.Stored) (bulk.Decision, error) {
	if c.Err != nil {
		return refuse("the letter cannot be read: %v", c.Err), nil
	}
	switch c.Kind {
	case KindEffect:
		return r.effect(ctx, c, run)
	case KindStart:
		return r.start(ctx, c, run)
	case KindSignal:
		return signal(c, run), nil
	}
	return refuse("it is a message of a kind that is not re-driven: send it anew, or discard it"), nil
}

func (r *Redriver) effect(ctx context.Context, c *Case, run *statemachine.Stored) (bulk.Decision, error) {
	if run == nil {
		return refuse("its run is gone"), nil
	}
	if slices.Contains(run.Applied, statemachine.CommandEventID(c.RedriveID())) {
		return c.again(), nil
	}
	if run.Status.Ended() {
		return refuse("its run has ended (%s)", run.Status), nil
	}
	p := pending(run, c.EffectID)
	try := statemachine.LetterTry(c.EffectID, c.ID)
	switch {
	case p == nil:
		return refuse("its run has moved on, and waits for the effect no more"), nil
	case try == 0:
		return refuse("the letter does not say which try it is about"), nil
	case p.Try < try:
		return refuse("its run is not yet where the letter was written: what was read is old, or was restored"), nil
	case p.Try > try && p.Place == statemachine.Parked:
		return refuse("it was tried anew since, and given up again: there is a newer letter"), nil
	case p.Place != statemachine.Parked:
		return refuse("its run has moved on: the effect is being tried"), nil
	}
	ok, err := r.Fleet.Registered(ctx, run.Machine, run.Version)
	if err != nil || !ok {
		return refuse("no worker has registered machine %s version %d", run.Machine, run.Version), err
	}
	switch {
	case isWait(run, p.ID):
		c.fixed = "it is a timer, which has no input"
		return bulk.Decision{Do: true, What: "let the run go on from " + c.State + " again"}, nil
	case p.Key != "":
		c.fixed = "it has a business key, which stands for the input that it was asked with: it cannot be edited"
	}
	return bulk.Decision{Do: true, What: "perform " + c.Effect + " again"}, nil
}

// pending returns what the letter of an effect, or of a wait, is about; nil if
// the run waits for it no more.
func pending(run *statemachine.Stored, effect string) *statemachine.Pending {
	all := run.Awaited()
	if i := slices.IndexFunc(all, func(p statemachine.Pending) bool { return p.ID == effect }); i >= 0 {
		return &all[i]
	}
	return nil
}

func isWait(run *statemachine.Stored, id string) bool {
	return slices.ContainsFunc(run.Waits, func(w statemachine.Wait) bool { return w.ID == id })
}

func (r *Redriver) start(ctx context.Context, c *Case, run *statemachine.Stored) (bulk.Decision, error) {
	var input bytes.Buffer
	if err := json.Compact(&input, c.Body); err != nil {
		return refuse("its body is not JSON: have it sent anew, and discard the letter"), nil
	}
	if c.Run == "" {
		return refuse("it names no run: have it sent anew, and discard the letter"), nil
	}
	if run != nil {
		if run.Machine == c.Machine && run.Input == statemachine.Fingerprint(c.Machine, input.Bytes()) {
			return c.again(), nil
		}
		if len(r.Edit) > 0 && run.Machine == c.Machine {
			return r.startEdited(c, run)
		}
		return refuse("a run of its id exists, with another input or of another machine"), nil
	}
	version, _ := strconv.Atoi(c.Headers["Pawl-Machine-Version"]) // what is none is refused when it comes
	ok, err := r.Fleet.Registered(ctx, c.Machine, version)
	switch {
	case err != nil:
		return bulk.Decision{}, err
	case !ok && version > 0:
		return refuse("no worker has registered version %d of its machine %s", version, c.Machine), nil
	case !ok:
		return refuse("no worker has registered its machine %s", c.Machine), nil
	}
	return bulk.Decision{Do: true, What: "start " + c.Machine + " again"}, nil
}

// startEdited decides on a start whose run exists: it may be that of the
// edited input, begun by a redrive before.
func (r *Redriver) startEdited(c *Case, run *statemachine.Stored) (bulk.Decision, error) {
	edited, err := MergePatch(c.Body, r.Edit)
	if err != nil {
		return bulk.Decision{}, err
	}
	var b bytes.Buffer
	if json.Compact(&b, edited) == nil && run.Input == statemachine.Fingerprint(c.Machine, b.Bytes()) {
		return c.again(), nil
	}
	return refuse("a run of its id exists, with another input or of another machine"), nil
}

func signal(c *Case, run *statemachine.Stored) bulk.Decision {
	switch {
	case len(c.Body) > 0 && !json.Valid(c.Body):
		return refuse("its body is not JSON: have it sent anew, and discard the letter")
	case run == nil:
		return refuse("there is no such run")
	case slices.Contains(run.Applied, statemachine.SignalEventID(c.SignalID())):
		return c.again()
	case run.Status.Ended():
		return refuse("its run has ended (%s)", run.Status)
	}
	return bulk.Decision{Do: true, What: "signal the run again"}
}

// mostInput is how large an edited input may be.
const mostInput = 512 << 10

// edit makes the input that a letter is tried with instead.
func (r *Redriver) edit(ctx context.Context, c *Case, d bulk.Decision) (bulk.Decision, error) {
	input := c.Body
	if ref, ok := statemachine.AsBlobRef(input); ok && c.Kind == KindEffect {
		var err error
		if input, err = r.Fleet.Blob(ctx, c.Run, ref.Hash); err != nil {
			if _, is := errors.AsType[*bulk.RefusedError](err); is {
				return refuse("its input cannot be read"), nil
			}
			return d, err
		}
	}
	edited, err := MergePatch(input, r.Edit)
	if err != nil {
		return d, err
	}
	if len(edited) > mostInput {
		return refuse("its edited input is over %d bytes", mostInput), nil
	}
	if sameJSON(input, edited) {
		return d, nil // the same request, under the same key
	}
	if c.fixed != "" {
		return refuse("%s", c.fixed), nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, edited); err != nil {
		return d, fmt.Errorf("edit %s: %w", c.Name(), err)
	}
	c.edited = b.Bytes()
	d.What += ", edited"
	return d, nil
}

// sameJSON compares JSON, whatever the order of its fields.
func sameJSON(a, b []byte) bool {
	var values [2]any
	for i, text := range [][]byte{a, b} {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// Do re-drives a letter that was decided on.
func (r *Redriver) Do(ctx context.Context, c *Case) error {
	if !c.known {
		if err := r.send(ctx, c); err != nil {
			return err
		}
	}
	err := r.Fleet.Remove(ctx, c.Letter)
	c.Body, c.edited = nil, nil // what comes of it is told without
	return err
}

func (r *Redriver) send(ctx context.Context, c *Case) (err error) {
	if c.Kind == KindEffect {
		return r.Fleet.Command(ctx, c.Run, c.RedriveID(), statemachine.Command{
			By: r.By, Reason: r.Reason, Effect: c.EffectID, Try: statemachine.LetterTry(c.EffectID, c.ID), Input: c.edited,
		})
	}
	l := c.Letter
	if c.edited != nil {
		l.Body = c.edited
	}
	if c.next, err = r.Fleet.Next(ctx, l); err != nil {
		return err
	}
	return r.Fleet.Redrive(ctx, l)
}

// Outcome says how re-driving went. An effect's went well when the run has its
// result, a start's when there is a run and it is not parked, a signal's when
// the run has it.
func (r *Redriver) Outcome(ctx context.Context, cases []*Case) ([]bulk.Outcome, error) {
	runs := make([]string, len(cases))
	for i, c := range cases {
		runs[i] = c.Run
	}
	last, err := r.Fleet.Last(ctx, runs)
	if err != nil && !errors.Is(err, statemachine.ErrFormat) {
		return nil, err
	}
	out := make([]bulk.Outcome, len(cases))
	for i, c := range cases {
		if out[i] = c.outcome(last[i]); out[i] == bulk.Open && c.next != "" {
			again, err := r.Fleet.Known(ctx, c.next)
			if err != nil {
				return nil, err
			}
			if again {
				out[i] = bulk.Bad
			}
		}
	}
	return out, nil
}

func (c *Case) outcome(run *statemachine.Stored) bulk.Outcome {
	if run == nil {
		return bulk.Open
	}
	bad := run.Status == statemachine.StatusFailed || run.Status == statemachine.StatusCancelled
	switch c.Kind {
	case KindEffect:
		p := pending(run, c.EffectID)
		switch {
		case p != nil && p.Place == statemachine.Parked && p.Try > statemachine.LetterTry(c.EffectID, c.ID):
			return bulk.Bad
		case p == nil && !bad:
			return bulk.Good
		}
	case KindSignal:
		if slices.Contains(run.Applied, statemachine.SignalEventID(c.SignalID())) {
			return bulk.Good
		}
		bad = run.Status.Ended()
	case KindStart:
		if bad = bad || run.Status == statemachine.StatusParked; !bad {
			return bulk.Good
		}
	}
	if bad {
		return bulk.Bad
	}
	return bulk.Open
}

// Discarder removes letters, and nothing else: a run that is parked stays so.
type Discarder struct{ Fleet Fleet }

// Decide says what discarding would do, for a bulk.Job.
func (d *Discarder) Decide(_ context.Context, cases []*Case) ([]bulk.Decision, error) {
	out := make([]bulk.Decision, len(cases))
	for i, c := range cases {
		out[i] = bulk.Decision{Do: true, What: "discard the letter of " + named(c)}
	}
	return out, nil
}

func named(c *Case) string {
	switch {
	case c.Kind == KindStart:
		return "a start of " + c.Machine
	case c.Kind == KindSignal:
		return "a signal"
	case c.Effect != "":
		return c.Effect
	}
	return "a message"
}

// Do removes a letter.
func (d *Discarder) Do(ctx context.Context, c *Case) error {
	err := d.Fleet.Remove(ctx, c.Letter)
	c.Body = nil
	return err
}
