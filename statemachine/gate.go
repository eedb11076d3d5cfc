package statemachine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Gate is an approval that waits for people: who may decide, what they were
// shown, and what they said so far.
type Gate struct {
	By        []string        `json:"by"` // who may decide, those who have answered included
	Quorum    int             `json:"quorum"`
	Pinned    bool            `json:"pinned,omitempty"` // no answer is taken whose sender nobody vouches for
	Visit     int             `json:"visit"`            // of the state
	Shown     json.RawMessage `json:"shown"`            // by reference when over 8 KB
	Hash      string          `json:"hash"`             // of what is shown
	Remind    Duration        `json:"remind,omitempty"`
	Escalate  []Level         `json:"escalate,omitempty"` // what is still to come
	Default   Verdict         `json:"default,omitempty"`  // what is decided when it expires
	Answers   []Vote          `json:"answers,omitempty"`
	Delegated []Delegation    `json:"delegated,omitempty"`
}

// Level is an escalation that is still to come.
type Level struct {
	After Duration `json:"after"` // from the beginning of the approval
	By    []string `json:"by"`
}

// Delegation is an approver's part that was handed on.
type Delegation struct {
	From   string    `json:"from"` // who did; after "unverified:" as in Vote
	To     string    `json:"to"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// unverified begins the name of a sender for whom nobody vouches.
const unverified = "unverified:"

// approver is the name by which somebody is looked for among the approvers.
func approver(by string) (name string, verified bool) {
	name, claimed := strings.CutPrefix(by, unverified)
	return name, !claimed
}

// Missing are those who may decide and have not answered.
func (g *Gate) Missing() []string {
	return slices.DeleteFunc(slices.Clone(g.By), func(who string) bool { return g.answer(who) != nil })
}

// answer is what an approver said; nil if nothing yet.
func (g *Gate) answer(name string) *Vote {
	for i := range g.Answers {
		if who, _ := approver(g.Answers[i].By); who == name {
			return &g.Answers[i]
		}
	}
	return nil
}

// decides is what the answers come to; "" while they do not decide.
func (g *Gate) decides() Verdict {
	yes := 0
	for _, a := range g.Answers {
		if a.Verdict == Rejected {
			return Rejected
		}
		yes++
	}
	if yes >= g.Quorum {
		return Approved
	}
	return ""
}

// size is that of a gate as the limit counts it.
func (g *Gate) size() int {
	if g == nil {
		return 0
	}
	const part = 192 // an answer or a delegation without its reason
	n := len(g.Shown) + maxName*MaxApprovers
	for i := range g.Answers {
		n += part + len(g.Answers[i].Reason)
	}
	for i := range g.Delegated {
		n += part + len(g.Delegated[i].Reason)
	}
	return n
}

// Gate returns an approval that the run waits for, by its id, and when its time
// is over; false if it waits for no such approval. The id may be "" where there
// is only one.
func (r *Record) Gate(id string) (*Wait, bool) {
	var found *Wait
	for i := range r.Waits {
		w := &r.Waits[i]
		if w.Gate == nil || id != "" && w.ID != id {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = w
	}
	return found, found != nil
}

// Deadline is when an approval's time is over: it expires, or its state is left;
// nil if it has all the time there is.
func (r *Record) Deadline(w *Wait) *time.Time {
	due := w.Due
	for i := range r.Waits {
		o := &r.Waits[i]
		if (o.Kind == WaitWithin && o.Frame == w.Frame || o.Kind == WaitDeadline) && (due == nil || o.Due.Before(*due)) {
			due = o.Due
		}
	}
	return due
}

// Refusal says why an approval does not take a command at a time; nil if it
// does.
func (r *Record) Refusal(kind EventKind, c Command, at time.Time) *Cause {
	w, ok := r.Gate(c.Approval)
	if !ok {
		return &Cause{Class: ClassUnknownApproval, Message: fmt.Sprintf("the run waits for no approval %s: it was decided, or its time was over, or it never was", c.Approval)}
	}
	g := w.Gate
	name, verified := approver(c.By)
	allowed := strings.Join(g.By, ", ")
	switch due := r.Deadline(w); {
	case due != nil && !at.Before(*due):
		return &Cause{Class: ClassTooLate, Message: fmt.Sprintf("its time was over at %s", due.Format(time.RFC3339))}
	case name == "":
		return &Cause{Class: ClassNotAllowed, Message: "nobody says who decides: it can be " + allowed}
	case !slices.Contains(g.By, name):
		return &Cause{Class: ClassNotAllowed, Message: fmt.Sprintf("%q may not decide: it can be %s", trim(name, maxName), allowed)}
	case g.Pinned && !verified:
		return &Cause{Class: ClassNotAllowed, Message: fmt.Sprintf("nobody vouches for %q: the approval takes only users whom the server's permissions pin", name)}
	case c.Hash != "" && c.Hash != g.Hash:
		return &Cause{Class: ClassShownChanged, Message: fmt.Sprintf("what is shown has the hash %s, not %s", g.Hash, trim(c.Hash, maxName))}
	}
	if said := g.answer(name); said != nil {
		return &Cause{Class: ClassAnswered, Message: fmt.Sprintf("%s answered at %s: %s", name, said.At.Format(time.RFC3339), said.Verdict)}
	}
	if kind == EventDelegate {
		switch {
		case slices.Contains(g.By, c.To):
			return &Cause{Class: ClassNotAllowed, Message: fmt.Sprintf("%q is an approver already", c.To)}
		case len(g.Delegated) >= MaxApprovers:
			return &Cause{Class: ClassNotAllowed, Message: fmt.Sprintf("it was delegated %d times, which is the limit", len(g.Delegated))}
		}
	}
	return nil
}

// asks reports whether a run waits for people, or has answered commands.
func (r *Record) asks() bool {
	return len(r.Replies) > 0 || slices.ContainsFunc(r.Waits, func(w Wait) bool { return w.Gate != nil })
}
