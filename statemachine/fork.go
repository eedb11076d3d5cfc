package statemachine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Origin is in every record of a fork: the run and the revision it began with.
type Origin struct {
	Run     string `json:"run"`
	Rev     uint64 `json:"rev"`
	Answers string `json:"answers,omitempty"` // hash of the blob that has what the original's effects came to, see Answers
	Perform bool   `json:"perform,omitempty"` // what the original did not ask is performed, and not held until a person confirms it
}

// Fork is the body of the event that begins a fork: a checkpoint of another run,
// and what is changed in it. What that run did before is the other's, and stays
// done: a fork takes back only what it performed itself.
type Fork struct {
	Origin  Origin          `json:"origin"`
	Machine string          `json:"machine"`
	Version int             `json:"version"`       // of the fork
	Set     json.RawMessage `json:"set,omitempty"` // an object that is merged into Data
	By      string          `json:"by,omitempty"`  // who asked for it, as in a Command
	Reason  string          `json:"reason,omitempty"`

	State  string            `json:"state"` // that is entered again
	Visits map[string]int    `json:"visits,omitempty"`
	Cause  *Cause            `json:"cause,omitempty"` // the failure that was caught last
	Data   json.RawMessage   `json:"data,omitempty"`
	Logs   map[string]LogRef `json:"logs,omitempty"` // all sealed, in chunks that the fork has
	Inbox  []InboxSignal     `json:"inbox,omitempty"`
	Tenant string            `json:"tenant,omitempty"`
}

// Fork takes the checkpoint that a record is; the caller adds what is changed,
// where the logs lie, and what effects came to. The error says in one line why
// nothing can begin there.
func (r *Record) Fork() (*Fork, error) {
	at := fmt.Sprintf("run %q, revision %d", r.Run, r.Rev)
	switch {
	case r.Tomb != nil:
		return nil, fmt.Errorf("run %q: its records were removed, only the last is left", r.Run)
	case r.Status.Ended():
		return nil, fmt.Errorf("%s: the run has ended there: nothing follows from it", at)
	case r.Ending != nil:
		return nil, fmt.Errorf("%s: the run was about to be %s there, and took back what it did", at, r.Ending.Status)
	case slices.ContainsFunc(r.Waits, func(w Wait) bool { return w.Kind == WaitStart }):
		return nil, fmt.Errorf("%s: the run has not begun there", at)
	case len(r.Frames) > 1:
		return nil, fmt.Errorf("%s: the run is in several branches there: take a revision before them, or after", at)
	}
	root := &r.Frames[0]
	if fan := root.Fan; fan != nil && fan.Taken+fan.Failed+len(fan.Held) > 0 {
		return nil, fmt.Errorf("%s: state %s does many at once, and some of it was done there: take a revision before it, or after", at, root.State)
	}
	return &Fork{
		Origin: Origin{Run: r.Run, Rev: r.Rev}, Machine: r.Machine, Version: r.Version, Tenant: r.Tenant,
		State: root.State, Visits: root.Visits, Cause: root.Cause, Data: r.Data, Inbox: r.Inbox,
	}, nil
}

// Print is the fingerprint of what is asked for: the same fork is asked for
// again, or another.
func (k *Fork) Print() (string, error) {
	set, err := compact(k.Set)
	if err != nil {
		return "", err
	}
	return digest([]byte("fork"), []byte(k.Machine), []byte(strconv.Itoa(k.Version)), []byte(k.Origin.Run),
		strconv.AppendUint(nil, k.Origin.Rev, 10), strconv.AppendBool(nil, k.Origin.Perform), set), nil
}

// ParseFork reads the body of a fork.
func ParseFork(body []byte) (*Fork, error) {
	k := new(Fork)
	if err := unmarshalStrict(body, k); err != nil {
		return nil, fmt.Errorf("body of a fork: %w", inputError(err))
	}
	if k.Machine == "" || k.Version < 1 || k.State == "" || k.Origin.Run == "" || k.Origin.Rev == 0 {
		return nil, fmt.Errorf("body of a fork: it names no machine, version, state, run or revision")
	}
	return k, nil
}

// refuseFork compares a fork with the run that is there.
func (f *Fold) refuseFork(e *Event) (Outcome, bool) {
	if f.rec.Input == "" && f.from == nil {
		return Applied, false
	}
	k, err := ParseFork(e.Body)
	if err != nil {
		return Conflict, true
	}
	if print, err := k.Print(); err != nil || print != f.rec.Input {
		return Conflict, true
	}
	return Duplicate, true
}

// fork begins the run with the checkpoint of another: the state is entered
// again, as the same visit, so its effects are asked anew, and its times begin
// anew.
func (f *Fold) fork(body json.RawMessage, e *Event) error {
	k, err := ParseFork(body)
	if err != nil {
		return &FaultError{Class: ClassInvalidInput, Err: err}
	}
	if k.Machine != f.d.Name || k.Version != f.d.Version {
		return fmt.Errorf("run %q is of machine %s version %d, not of %s version %d", f.rec.Run, k.Machine, k.Version, f.d.Name, f.d.Version)
	}
	if f.rec.Input, err = k.Print(); err != nil {
		return &FaultError{Class: ClassInvalidInput, Err: err}
	}
	visits := maps.Clone(k.Visits)
	if n := visits[k.State]; n > 1 { // it is counted when it is entered
		visits[k.State] = n - 1
	} else {
		delete(visits, k.State)
	}
	f.rec.Status, f.rec.Origin, f.rec.Tenant = StatusRunning, &k.Origin, k.Tenant
	f.rec.Frames = []Frame{{ID: 0, Kind: FrameRoot, State: k.State, Visit: 1, Visits: visits, Cause: k.Cause}}
	f.rec.Data, f.rec.Logs, f.rec.Inbox = k.Data, k.Logs, k.Inbox
	return f.step(e, StartEventID, func(s *step) error {
		if err := s.set(k.Set); err != nil {
			return err
		}
		s.deadline()
		return s.enter(k.State)
	})
}

// set merges an object into the data, strictly. What a machine checks of a start
// it does not check of a run that was under way.
func (s *step) set(fields json.RawMessage) error {
	if len(fields) > 0 {
		var of map[string]json.RawMessage
		if err := json.Unmarshal(fields, &of); err != nil || of == nil {
			return s.fault(ClassInvalidInput, fmt.Errorf("what is set is no JSON object"))
		}
		for _, l := range s.f.d.logs {
			for name := range of {
				if bytes.EqualFold([]byte(name), []byte(l.name)) {
					return s.fault(ClassInvalidInput, fmt.Errorf("field %s: a log cannot be set", name))
				}
			}
		}
		if err := unmarshalStrict(fields, s.data); err != nil {
			return s.fault(ClassInvalidInput, inputError(err))
		}
	}
	return nil
}

// AnswersOf is the blob of what effects came to.
type AnswersOf struct {
	Answers []Recalled `json:"answers"`
}

// Recalled is what an effect of the original came to.
type Recalled struct {
	Spot  string          `json:"spot"`  // where it was asked, see Spot
	Print string          `json:"print"` // fingerprint of what was asked
	Body  json.RawMessage `json:"body,omitempty"`
	Cause *Cause          `json:"cause,omitempty"` // it was given up, and the machine went on from there
}

// Spot is where an effect of a record is asked: the states and visits of its
// frame and of those above it, and its place among what they do at once. It is the
// same in a run and in a fork that goes the same way.
func (r *Record) Spot(p *Pending) string {
	spot := ""
	if p.Item > 0 {
		spot = "#" + strconv.Itoa(p.Item)
	}
	for id, depth := p.Frame, 0; depth <= len(r.Frames); depth++ {
		i := slices.IndexFunc(r.Frames, func(f Frame) bool { return f.ID == id })
		if i < 0 {
			break
		}
		f := &r.Frames[i]
		spot = "/" + strconv.Itoa(f.Item) + ":" + f.State + ":" + strconv.Itoa(f.Visit) + spot
		if f.Parent == nil {
			break
		}
		id = *f.Parent
	}
	return spot
}

// Answering gathers what the effects of a run came to, from its records: those
// that the first record has pending, and those asked later.
type Answering struct {
	AnswersOf
	asked map[string]Recalled // by id of the effect: those without an outcome yet
}

// Add takes the next record.
func (a *Answering) Add(r *Record) {
	if a.asked == nil {
		a.asked = map[string]Recalled{}
	} else {
		for i := range r.Events {
			a.event(&r.Events[i], r)
		}
	}
	for i := range r.Pending {
		if p := &r.Pending[i]; p.Undoes == "" && a.asked[p.ID].Print != p.Print { // one that was edited is asked again
			a.asked[p.ID] = Recalled{Spot: r.Spot(p), Print: p.Print}
		}
	}
}

// event takes what an event says of an effect. A failure is an outcome only if
// the effect is not waited for any more.
func (a *Answering) event(e *Event, r *Record) {
	effect, body := e.Effect, e.Body
	if e.Kind == EventResolve { // a command names the effect in its body
		c, err := ParseCommand(e.Kind, e.Body)
		if err != nil { // it was checked before it was recorded
			return
		}
		effect, body = c.Effect, c.Result
	}
	one, ok := a.asked[effect]
	if !ok {
		return
	}
	for i := range r.Pending {
		if r.Pending[i].ID == effect {
			return
		}
	}
	delete(a.asked, effect)
	switch e.Kind {
	case EventResult, EventCallback, EventFailure, EventLapse, EventResolve:
		if one.Body, one.Cause = body, e.Cause; one.Cause != nil {
			one.Body = nil
		}
	default:
		return
	}
	a.Answers = append(a.Answers, one)
}

// Unconfirmed reports whether the effect waits until a person says that it may
// be performed: its fork asks what the original did not.
func (p *Pending) Unconfirmed() bool {
	return p.Place == Parked && p.Cause != nil && p.Cause.Class == ClassUnconfirmed
}

// Told reports whether a person had the effect tried, as it is now: a fork asks
// the original no more what came of it.
func (p *Pending) Told() bool { return p.Redriven > 0 }

// confirm lets what waits for it be performed: one effect, or all.
func (f *Fold) confirm(c Command) {
	f.replaceAll(func(p *Pending) bool { return p.Unconfirmed() && (c.Effect == "" || p.ID == c.Effect) }, func(p *Pending) {
		p.Try++
		p.Attempt, p.Cause, p.First, p.Redriven = 1, nil, nil, p.Try
		f.queue(p)
	})
	f.rest()
}

// unconfirmed has a person asked whether an effect of a fork may be performed. It was
// not given up on: there is no letter. One that tells approvers parks no run.
func (f *Fold) unconfirmed(id string, c Cause) {
	if f.rec.Status != StatusPaused && f.pending(id).Tells == "" {
		f.rec.Status, f.rec.Cause = StatusParked, &c
	}
	f.replace(id, func(p *Pending) {
		p.Wake, p.Depth, p.RetryAt, p.Cause, p.Place = "", 0, nil, &c, Parked
	})
}
