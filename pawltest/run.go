package pawltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// Run is a run under test.
type Run struct {
	t       testing.TB
	id      string
	machine string
	version int
	def     *sm.Definition
	catalog *sm.Catalog // nil if a machine alone is tested

	scripts  map[string]script
	policies map[string]sm.Policy
	ends     map[string]script // of children, by machine

	providers []*Provider // that handlers call
	history   *history    // of what befalls it; nil: nothing

	parent   *Run            // whose child it is
	children map[string]*Run // by run id

	now     time.Time
	records []*sm.Stored
	calls   map[string][]Call
	keys    map[string]sm.Pending        // who used a key first
	results map[string]json.RawMessage   // by key
	blobs   map[string][]byte            // by hash
	logs    map[string][]json.RawMessage // by name
	checked int                          // records that were folded again
	answers int                          // that approvals and updates were sent
}

// Call is one attempt of an effect.
type Call struct {
	Key     string // idempotency key
	Attempt int    // from 1
	At      time.Time
	Input   json.RawMessage // as the handler gets it
	Result  json.RawMessage
	Err     error
}

// Start starts a run with an input and drives it until it has ended or is
// parked. Given a catalog, effects that no option performs go to its handlers.
// The input is anything that encodes to the JSON of the machine's data; a
// json.RawMessage is taken as it is. The test fails if the start is refused.
func Start(t testing.TB, m sm.Machines, input any, options ...Option) *Run {
	t.Helper()
	r := newRun(t, m, options)
	if err := r.start(input); err != nil {
		t.Fatalf("start of %s: %v", r.def.Name, err)
	}
	r.drive()
	return r
}

// Refused starts a run whose input must be refused, and returns the error.
func Refused(t testing.TB, m sm.Machines, input any, options ...Option) error {
	t.Helper()
	r := newRun(t, m, options)
	err := r.start(input)
	if err == nil {
		t.Fatalf("start of %s was not refused", r.def.Name)
	}
	return err
}

func newRun(t testing.TB, m sm.Machines, options []Option) *Run {
	t.Helper()
	r := &Run{
		t: t, id: "test", now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		scripts: map[string]script{}, policies: map[string]sm.Policy{}, calls: map[string][]Call{},
		ends: map[string]script{}, children: map[string]*Run{},
		keys: map[string]sm.Pending{}, results: map[string]json.RawMessage{},
		blobs: map[string][]byte{}, logs: map[string][]json.RawMessage{},
	}
	r.catalog, _ = m.(*sm.Catalog)
	for _, o := range options {
		o(r)
	}
	for _, d := range m.Definitions() {
		fits := r.machine == "" || d.Name == r.machine && (r.version == 0 || d.Version == r.version)
		if !fits {
			continue
		}
		if r.def != nil && r.def.Name != d.Name {
			t.Fatalf("there are several machines: choose with pawltest.Machine")
		}
		r.def = d // versions come in order
	}
	if r.def == nil {
		t.Fatalf("there is no machine %q version %d", r.machine, r.version)
	}
	if err := r.def.Check(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Run) start(input any) error {
	body, err := json.Marshal(input)
	if err != nil {
		return err
	}
	return r.apply(sm.Event{Kind: sm.EventStart, Body: body})
}

// Signal sends the run a signal, and drives it until it has come to rest
// again.
func (r *Run) Signal(id, name string, body any) sm.Outcome {
	r.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	e := sm.Event{ID: sm.SignalEventID(id), Kind: sm.EventSignal, Name: name, Body: raw}
	o, err := r.fold(e)
	if err != nil {
		r.t.Fatalf("signal %s: %v", name, err)
	}
	r.settle()
	return o
}

// Advance lets time go by: what is due meanwhile happens in its order, and the
// run is driven until it has come to rest again.
func (r *Run) Advance(d time.Duration) {
	r.t.Helper()
	end := r.now.Add(d)
	for {
		of, w := r.firstOfAll()
		if w == nil || w.Due.After(end) {
			break
		}
		of.elapse(w)
		of.settle()
	}
	if end.After(r.now) {
		r.now = end
	}
}

// Waits are the times, signals and approvals that the run waits for.
func (r *Run) Waits() []sm.Wait { return slices.Clone(r.last().Waits) }

// Command gives the run a command (cancel, terminate, pause, resume or redrive), and drives
// it until it has come to rest again.
func (r *Run) Command(id string, kind sm.EventKind, c sm.Command) sm.Outcome {
	r.t.Helper()
	body, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	o, err := r.fold(sm.Event{ID: sm.CommandEventID(id), Kind: kind, Body: body})
	if err != nil {
		r.t.Fatalf("command %s: %v", kind, err)
	}
	r.settle()
	return o
}

// Decide has an approver decide what the run asks, and drives it until it has
// come to rest again. The error says why the answer is refused. Where the run
// waits for several approvals, the id of one is given; [Run.Waits] has them.
func (r *Run) Decide(by string, verdict sm.Verdict, approval ...string) error {
	r.t.Helper()
	id := ""
	if len(approval) > 0 {
		id = approval[0]
	}
	w, ok := r.last().Gate(id)
	if !ok {
		r.t.Fatalf("run %s waits for no approval %s, or for several", r.id, id)
	}
	r.answers++
	request := fmt.Sprintf("answer-%d", r.answers)
	r.Command(request, sm.EventApproval, sm.Command{By: by, Verdict: verdict, Approval: w.ID})
	return refusal(r.last().Reply(sm.CommandEventID(request)))
}

// Update tells the run something that its machine answers, and drives it until
// it has come to rest again. The answer is decoded into answer, unless that is
// nil. The error says why the update is refused.
func (r *Run) Update(name string, payload, answer any) error {
	r.t.Helper()
	input, err := json.Marshal(payload)
	if err != nil {
		r.t.Fatal(err)
	}
	r.answers++
	request := fmt.Sprintf("answer-%d", r.answers)
	if o := r.Command(request, sm.EventUpdate, sm.Command{Name: name, Input: input}); o != sm.Applied {
		return fmt.Errorf("update %s: run %s is %s: %s", name, r.id, r.last().Status, o)
	}
	reply := r.last().Reply(sm.CommandEventID(request))
	if err := refusal(reply); err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(reply.Value, answer); err != nil {
		r.t.Fatalf("the answer to update %s: %v", name, err)
	}
	return nil
}

// refusal is why a command was refused; nil if it was not.
func refusal(reply *sm.Reply) error {
	if reply == nil || reply.Cause == nil {
		return nil
	}
	return sm.Classed(reply.Cause.Class, errors.New(reply.Cause.Class+": "+reply.Cause.Message))
}

// Status tells whether the run has ended, and how, or is parked or paused.
func (r *Run) Status() sm.Status { return r.last().Status }

// State is the state the run is in.
func (r *Run) State() string { return r.last().To }

// Cause tells why the run failed or is parked, with zero fields if it is
// neither.
func (r *Run) Cause() sm.Cause {
	if c := r.last().Cause; c != nil {
		return *c
	}
	return sm.Cause{}
}

// Now is the run's time: of its start, and all waits since.
func (r *Run) Now() time.Time { return r.now }

// Data decodes the machine's data into v, with the items of its logs.
func (r *Run) Data(v any) {
	r.t.Helper()
	if err := json.Unmarshal(r.resolve(r.last().Data), v); err != nil {
		r.t.Fatalf("data of run %s: %v", r.id, err)
	}
}

// Log returns the items of a log, by the JSON name of its field.
func (r *Run) Log(name string) []json.RawMessage { return slices.Clone(r.logs[name]) }

// Index returns the fields the run is found by.
func (r *Run) Index() map[string]string { return r.last().Index }

// Calls returns the attempts of an effect type.
func (r *Run) Calls(effect string) []Call { return slices.Clone(r.calls[effect]) }

// Records returns the run's records.
func (r *Run) Records() []*sm.Stored { return slices.Clone(r.records) }

// Path returns the states in which the run came to rest, in the order it
// entered them.
func (r *Run) Path() []string {
	var path []string
	var before sm.Frame
	for _, rec := range r.records {
		if at := rec.Frames[0]; at.State != before.State || at.Visit != before.Visit {
			path = append(path, at.State)
			before = at
		}
	}
	return path
}

// Letters returns the dead letters of the run.
func (r *Run) Letters() []sm.Letter {
	r.t.Helper()
	var letters []sm.Letter
	for _, rec := range r.records {
		for _, e := range rec.Outbox {
			if e.Kind != sm.EntryLetter {
				continue
			}
			var l sm.Letter
			if err := json.Unmarshal(e.Body, &l); err != nil {
				r.t.Fatalf("letter %s: %v", e.ID, err)
			}
			letters = append(letters, l)
		}
	}
	return letters
}

func (r *Run) last() *sm.Stored {
	if len(r.records) == 0 {
		return nil
	}
	return r.records[len(r.records)-1]
}
