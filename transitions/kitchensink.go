package transitions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// maxSinkSteps is how many effects a kitchensink run may perform.
const maxSinkSteps = 1_000_000

// sinkData is what a run of "kitchensink" is about: its input is the script.
// The script stays as it is, two counters say how far the run has come, and
// the results are in a log: so the millionth step costs what the first did.
type sinkData struct {
	statemachine.Meta
	Steps []sinkStep `json:"steps"`

	At      int                               `json:"at,omitempty"`      // the step under way
	Done    int                               `json:"done,omitempty"`    // how many of its repeats are
	Refused bool                              `json:"refused,omitempty"` // somebody rejected what the step asks
	Results statemachine.Log[json.RawMessage] `json:"results"`           // of all effects, in order
}

// sinkStep is a line of the script: an effect to perform, a wait, or the end.
type sinkStep struct {
	Do    string          `json:"do,omitempty"` // effect type
	Input json.RawMessage `json:"input,omitempty"`
	// Key is the business key, taken as it stands: with Repeat, the effect is
	// performed once, and each further repeat is given the recorded result.
	Key    string `json:"key,omitempty"`
	Repeat int    `json:"repeat,omitempty"` // how often; default 1
	Flow   string `json:"flow,omitempty"`   // flow key; default: the host of the input's "url", if it has one
	Place  string `json:"place,omitempty"`  // "queued": never by the worker that asks for it
	Fail   string `json:"fail,omitempty"`   // ends the run as failed, for this reason

	// Catch makes a result of what is given up, {"error": class, "message": …}, and
	// the script goes on. Undo takes back what was performed, if the run fails or is
	// cancelled; the last first.
	Catch bool      `json:"catch,omitempty"`
	Undo  *sinkUndo `json:"undo,omitempty"`

	Sleep   statemachine.Duration `json:"sleep,omitempty"`   // how long to wait
	Await   string                `json:"await,omitempty"`   // name of a signal; its payload is a result
	Timeout statemachine.Duration `json:"timeout,omitempty"` // how long to wait for that, or for people; default 10 years

	// Fan are effects to perform at once, all of them Repeat times: Limit at a
	// time, with results in their order. "{item}" in an input or a key of theirs is
	// the effect's number, from 1.
	Fan   []sinkStep `json:"fan,omitempty"`
	Limit int        `json:"limit,omitempty"` // default 8

	ContinueAsNew bool `json:"continue_as_new,omitempty"` // the run rolls: it goes on in the next epoch

	Approve *sinkApproval `json:"approve,omitempty"` // what to ask people; their decision is a result
	Child   *sinkChild    `json:"child,omitempty"`   // a run to wait for; what it comes to is a result
}

// sinkUndo is an effect that takes another back.
type sinkUndo struct {
	Do    string          `json:"do"`
	Input json.RawMessage `json:"input,omitempty"` // default {}
}

// sinkChild is a run that a script waits for.
type sinkChild struct {
	Machine string          `json:"machine"`
	Input   json.RawMessage `json:"input,omitempty"` // default {}
	ID      string          `json:"id,omitempty"`    // of the run
}

// kitchensink performs a script of effects: for trying out a fleet, for tests
// and for measurements. It may use every effect the fleet has.
//
// Version 1 does not wait, and version 2 performs one effect at a time, has no
// children, asks nobody, and neither catches nor undoes; version 3 rolls only by
// itself, and takes no updates. They are there for the runs that began with them.
func kitchensink(effects []string, version int) *statemachine.Machine[sinkData] {
	m := statemachine.New[sinkData]("kitchensink", version)
	m.Check(func(s *sinkData) error { return s.check(effects, version) })
	next := m.Decide("next").When((*sinkData).failing, "failed").When((*sinkData).finished, "done")
	if version > 1 {
		next.When((*sinkData).sleeping, "sleep").When((*sinkData).awaiting, "await")
	}
	if version > 2 {
		next.When((*sinkData).begetting, "child").When((*sinkData).fanning, "fan")
		next.When((*sinkData).tryingToBook, "try_to_book").When((*sinkData).trying, "try").When((*sinkData).booking, "book")
		next.When((*sinkData).asking, "ask")
	}
	if version > 3 {
		next.When((*sinkData).rolling, "roll")
	}
	next.Then("perform")
	m.Query("progress", func(s *sinkData) any {
		return map[string]int{"step": s.At, "of": len(s.Steps), "results": s.Results.Len()}
	})
	if version > 3 {
		statemachine.Update(m, "note", (*sinkData).note)
	}
	perform := func(state string) *statemachine.State[sinkData] {
		return m.State(state, statemachine.CallOf(statemachine.ToolNames(effects...), (*sinkData).pick, (*sinkData).performed).
			Key((*sinkData).key).Flow((*sinkData).flow).QueuedWhen((*sinkData).queued)).
			Visits(maxSinkSteps, "too_long").Then("next")
	}
	undo := statemachine.CallOf(statemachine.ToolNames(effects...), (*sinkData).takeBack, nil)
	perform("perform")
	if version > 1 {
		m.State("sleep", statemachine.Sleep((*sinkData).nap, (*sinkData).waited)).Visits(maxSinkSteps, "too_long").Then("next")
		m.State("await", statemachine.SignalOf((*sinkData).awaited, (*sinkData).heard)).WithinOf((*sinkData).patience, "unheard").
			Visits(maxSinkSteps, "too_long").Then("next")
		m.Fail("unheard", "await_timeout")
	}
	if version > 2 {
		m.State("child", statemachine.ChildOf((*sinkData).child, (*sinkData).heard).ID((*sinkData).childID)).
			Visits(maxSinkSteps, "too_long").Then("next")
		perform("try").Catch("*", "caught")
		perform("book").Undo(undo)
		perform("try_to_book").Undo(undo).Catch("*", "caught")
		m.State("caught", statemachine.Sleep((*sinkData).notAtAll, (*sinkData).gaveUp)).Visits(maxSinkSteps, "too_long").Then("next")
		m.State("fan", statemachine.EachOf((*sinkData).items, defaultAtOnce, statemachine.ToolNames(effects...), (*sinkData).pickItem, (*sinkData).itemDone).
			LimitOf((*sinkData).atOnce).Key((*sinkData).itemKey).Flow((*sinkData).itemFlow).QueuedWhen((*sinkData).itemQueued)).
			Visits(maxSinkSteps, "too_long").Then("next")
		tell := statemachine.CallOf(statemachine.ToolNames(effects...), (*sinkData).notice, nil)
		m.State("ask", statemachine.ApproveOf((*sinkData).approval, (*sinkData).shown, (*sinkData).decided).Tell(tell)).
			WithinOf((*sinkData).patience, "undecided").Visits(maxSinkSteps, "too_long").
			When((*sinkData).refused, "rejected").Then("next")
		m.Fail("undecided", "approval_timeout")
		m.Fail("rejected", "rejected")
	}
	if version > 3 {
		m.State("roll", statemachine.Roll((*sinkData).waited)).Visits(maxSinkSteps, "too_long").Then("next")
	}
	m.Succeed("done")
	m.Fail("failed", "scripted_failure").Because((*sinkData).reason)
	m.Fail("too_long", "too_long")
	return m
}

// check says what is wrong with the script.
func (s *sinkData) check(effects []string, version int) error {
	if s.At != 0 || s.Done != 0 || s.Refused || s.Results.Len() != 0 {
		return errors.New("at, done, refused and results are the run's own: they cannot be given")
	}
	var faults []error
	total := 0
	for i, step := range s.Steps {
		if err := step.check(effects, version); err != nil {
			faults = append(faults, fmt.Errorf("steps[%d]: %w", i, err))
			continue
		}
		if total += step.effects(); total > maxSinkSteps {
			faults = append(faults, fmt.Errorf("steps[%d]: the script has more than %d effects", i, maxSinkSteps))
			break
		}
	}
	return errors.Join(faults...)
}

func (p sinkStep) check(effects []string, version int) error {
	what := 0
	for _, is := range []bool{p.Do != "", p.Fail != "", p.Sleep != 0, p.Await != "", p.Child != nil, p.Fan != nil, p.Approve != nil, p.ContinueAsNew} {
		if is {
			what++
		}
	}
	waits := p.Sleep != 0 || p.Await != ""
	switch {
	case what != 1:
		return errors.New("a step has exactly one of do, sleep, await, child, fan, approve, continue_as_new and fail")
	case version == 1 && (waits || p.Timeout != 0):
		return errors.New("version 1 of the machine does not wait")
	case version < 4 && p.ContinueAsNew:
		return fmt.Errorf("version %d of the machine rolls only by itself", version)
	case version < 3 && p.Child != nil:
		return fmt.Errorf("version %d of the machine has no children", version)
	case version < 3 && (p.Catch || p.Undo != nil):
		return fmt.Errorf("version %d of the machine neither catches nor undoes", version)
	case p.Do == "" && (p.Input != nil || p.Key != "" || p.Flow != "" || p.Repeat != 0 && p.Fan == nil || p.Place != "" || p.Catch || p.Undo != nil):
		return errors.New("input, key, flow, repeat, place, catch and undo are of a step with do")
	case p.Timeout != 0 && p.Await == "" && p.Approve == nil:
		return errors.New("timeout is of a step with await or approve")
	case version < 3 && p.Approve != nil:
		return fmt.Errorf("version %d of the machine asks nobody", version)
	case p.Sleep < 0 || time.Duration(p.Sleep) > statemachine.MaxWait:
		return fmt.Errorf("sleep is %s, not 0 to %s", time.Duration(p.Sleep), statemachine.MaxWait)
	case p.Timeout < 0 || time.Duration(p.Timeout) > statemachine.MaxWait:
		return fmt.Errorf("timeout is %s, not 0 to %s", time.Duration(p.Timeout), statemachine.MaxWait)
	case p.Await != "" && !queue.IsName(p.Await):
		return fmt.Errorf("await is %q, not %s", p.Await, queue.NameGrammar)
	case p.Child != nil && !queue.IsName(p.Child.Machine):
		return fmt.Errorf("child.machine is %q, not %s", p.Child.Machine, queue.NameGrammar)
	case p.Child != nil && len(p.Child.ID) > statemachine.MaxID:
		return fmt.Errorf("child.id has more than %d bytes", statemachine.MaxID)
	case p.Approve != nil:
		return p.Approve.check(effects)
	case p.Do == "":
		return p.checkFan(effects, version)
	case p.Limit != 0:
		return errors.New("limit is of a step with fan")
	case !slices.Contains(effects, p.Do):
		return fmt.Errorf("effect %q is not known here: there are %s", p.Do, strings.Join(effects, ", "))
	case p.Undo != nil && !slices.Contains(effects, p.Undo.Do):
		return fmt.Errorf("undo: effect %q is not known here: there are %s", p.Undo.Do, strings.Join(effects, ", "))
	case p.Repeat < 0 || p.Repeat > maxSinkSteps:
		return fmt.Errorf("repeat is %d, not 1 to %d", p.Repeat, maxSinkSteps)
	case p.Place != "" && p.Place != "queued":
		return fmt.Errorf(`place is %q: it can be "queued" or be left out`, p.Place)
	case len(p.Key) > statemachine.MaxID:
		return fmt.Errorf("the key has more than %d bytes", statemachine.MaxID)
	case len(p.Flow) > statemachine.MaxID:
		return fmt.Errorf("the flow key has more than %d bytes", statemachine.MaxID)
	}
	return nil
}

func (p sinkStep) times() int { return max(p.Repeat, 1) }

func (s *sinkData) step() sinkStep {
	if s.At >= len(s.Steps) {
		return sinkStep{}
	}
	return s.Steps[s.At]
}

func (s *sinkData) failing() bool { return s.step().Fail != "" }

func (s *sinkData) finished() bool { return s.At >= len(s.Steps) }

func (s *sinkData) sleeping() bool { return s.step().Sleep != 0 }

func (s *sinkData) awaiting() bool { return s.step().Await != "" }

func (s *sinkData) rolling() bool { return s.step().ContinueAsNew }

func (s *sinkData) begetting() bool { return s.step().Child != nil }

func (s *sinkData) child() (machine string, input json.RawMessage) {
	c := s.step().Child
	return c.Machine, c.Input
}

func (s *sinkData) childID() string { return s.step().Child.ID }

func (s *sinkData) nap() time.Duration { return time.Duration(s.step().Sleep) }

func (s *sinkData) waited() { s.At++ }

func (s *sinkData) awaited() string { return s.step().Await }

func (s *sinkData) patience() time.Duration {
	if d := time.Duration(s.step().Timeout); d != 0 {
		return d
	}
	return statemachine.MaxWait
}

func (s *sinkData) heard(payload json.RawMessage) {
	s.Results.Append(payload)
	s.At++
}

// sinkNote is the payload of the update "note".
type sinkNote struct {
	Note   json.RawMessage `json:"note"`             // becomes a result
	Refuse string          `json:"refuse,omitempty"` // it is not taken, for this reason
}

// note takes a note, and answers which of the results it is, from 1.
func (s *sinkData) note(n sinkNote) (int, error) {
	switch {
	case n.Refuse != "":
		return 0, errors.New(n.Refuse)
	case len(n.Note) == 0:
		return 0, errors.New("there is no note")
	}
	s.Results.Append(n.Note)
	return s.Results.Len(), nil
}

func (s *sinkData) pick() (effect string, input json.RawMessage) {
	step := s.step()
	if len(step.Input) == 0 {
		return step.Do, json.RawMessage(`{}`)
	}
	return step.Do, step.Input
}

func (s *sinkData) trying() bool { return s.step().Catch }

func (s *sinkData) booking() bool { return s.step().Undo != nil }

func (s *sinkData) tryingToBook() bool { return s.trying() && s.booking() }

// takeBack is the undo of the step that was performed last.
func (s *sinkData) takeBack() (effect string, input json.RawMessage) {
	at := s.At
	if s.Done == 0 {
		at--
	}
	u := s.Steps[at].Undo
	if len(u.Input) == 0 {
		return u.Do, json.RawMessage(`{}`)
	}
	return u.Do, u.Input
}

func (s *sinkData) notAtAll() time.Duration { return 0 }

func (s *sinkData) gaveUp() {
	c := s.Cause()
	b, _ := json.Marshal(map[string]string{"error": c.Class, "message": c.Message}) // strings
	s.performed(b)
}

func (s *sinkData) performed(result json.RawMessage) {
	s.Results.Append(result)
	if s.Done++; s.Done >= s.step().times() {
		s.At, s.Done = s.At+1, 0
	}
}

func (s *sinkData) key() string { return s.step().Key }

func (s *sinkData) flow() string { return s.step().flowKey() }

func (p sinkStep) flowKey() string {
	if p.Flow != "" || !bytes.Contains(p.Input, []byte(`"url"`)) {
		return p.Flow
	}
	var in struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(p.Input, &in) != nil {
		return "" // it has no URL, whatever it is
	}
	return flowHost(in.URL)
}

func (s *sinkData) queued() bool { return s.step().Place == "queued" }

func (s *sinkData) reason() string { return s.step().Fail }
