package transitions

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// sinkApproval is what a step of a script asks people.
type sinkApproval struct {
	By       []string              `json:"by"`
	Quorum   int                   `json:"quorum,omitempty"`
	Pinned   bool                  `json:"pinned,omitempty"`
	Show     json.RawMessage       `json:"show,omitempty"` // what they decide about
	Remind   statemachine.Duration `json:"remind,omitempty"`
	Escalate []statemachine.Level  `json:"escalate,omitempty"`
	Expire   statemachine.Duration `json:"expire,omitempty"`
	Default  statemachine.Verdict  `json:"default,omitempty"`
	// Tell is the effect by which they are told, with a sinkNotice as its
	// input; default: "log".
	Tell string `json:"tell,omitempty"`
}

// sinkNotice is what approvers are told.
type sinkNotice struct {
	Run      string                  `json:"run"`
	Kind     statemachine.NoticeKind `json:"kind"`
	Approval string                  `json:"approval"`
	To       []string                `json:"to"`
	Deadline *time.Time              `json:"deadline,omitempty"`
	Show     json.RawMessage         `json:"show,omitempty"`
}

// check says what is wrong with the approval, as far as the engine does not say
// it when it begins.
func (a *sinkApproval) check(effects []string) error {
	switch {
	case len(a.By) == 0:
		return errors.New("approve names nobody in by")
	case a.Tell != "" && !slices.Contains(effects, a.Tell):
		return fmt.Errorf("effect %q is not known here: there are %s", a.Tell, strings.Join(effects, ", "))
	}
	return a.approval().Check()
}

func (a *sinkApproval) approval() statemachine.Approval {
	all := statemachine.Approval{
		By: a.By, Quorum: a.Quorum, Pinned: a.Pinned, Remind: time.Duration(a.Remind), Expire: time.Duration(a.Expire), Default: a.Default,
	}
	for _, e := range a.Escalate {
		all.Escalate = append(all.Escalate, statemachine.Escalation{After: time.Duration(e.After), By: e.By})
	}
	return all
}

func (s *sinkData) asking() bool { return s.step().Approve != nil }

func (s *sinkData) approval() statemachine.Approval {
	if a := s.step().Approve; a != nil {
		return a.approval()
	}
	return statemachine.Approval{}
}

func (s *sinkData) shown() json.RawMessage {
	if a := s.step().Approve; a != nil {
		return a.Show
	}
	return nil
}

func (s *sinkData) decided(d statemachine.Decision) {
	result, err := json.Marshal(d)
	if err != nil { // texts and times
		return
	}
	s.Results.Append(result)
	if s.Refused = !d.Approved(); !s.Refused {
		s.At++
	}
}

func (s *sinkData) refused() bool { return s.Refused }

// notice is the effect by which approvers are told, and its input.
func (s *sinkData) notice() (effect string, input json.RawMessage) {
	a, n := s.step().Approve, s.Notice()
	if a == nil {
		return "", nil
	}
	input, err := json.Marshal(sinkNotice{s.RunID(), n.Kind, n.Approval, n.To, n.Deadline, a.Show})
	if err != nil { // texts, times, and what is JSON
		return "", nil
	}
	if a.Tell == "" {
		return logEffect.Name(), input
	}
	return a.Tell, input
}
