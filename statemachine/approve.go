package statemachine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Approval says who decides, and by when.
type Approval struct {
	// By are those who may decide: users, as the control API names them. At
	// most MaxApprovers, those of Escalate included; each answers once.
	By []string
	// Quorum is how many of them have to approve; 0 is 1. One who rejects
	// rejects.
	Quorum int
	// Pinned takes answers only from users whom the server's permissions pin to
	// their subjects, and not from who merely says who they are.
	Pinned bool
	// Remind is after how long those who have not answered are told again, and
	// again, at most MaxReminders times; 0: they are not. At least a second.
	Remind time.Duration
	// Escalate lets others decide as well, one after the other, if it takes long.
	Escalate []Escalation
	// Expire is after how long Default decides; 0: never. A state may say
	// [State.Within] instead, which leads elsewhere.
	Expire  time.Duration
	Default Verdict
}

// Escalation is who may decide as well once an approval has waited for some
// time, counted from its beginning.
type Escalation struct {
	After time.Duration
	By    []string
}

// Verdict is what somebody says about what they were shown.
type Verdict string

// The verdicts.
const (
	Approved Verdict = "approve"
	Rejected Verdict = "reject"
)

// Known reports whether it is one of the verdicts.
func (v Verdict) Known() bool { return v == Approved || v == Rejected }

// Decision is how an approval ended.
type Decision struct {
	Verdict Verdict `json:"verdict"`
	Expired bool    `json:"expired,omitempty"` // nobody decided in time: Approval.Default did
	Answers []Vote  `json:"answers,omitempty"` // in the order in which they came
}

// Approved reports whether what was shown may go ahead.
func (d Decision) Approved() bool { return d.Verdict == Approved }

// Vote is what one approver said.
type Vote struct {
	By      string    `json:"by"` // after "unverified:" if the server's permissions do not vouch for it
	Verdict Verdict   `json:"verdict"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
}

// ApproveAction asks people, and waits for what they decide.
type ApproveAction[T any] struct{ a *action }

// Approve shows something to people and waits for their decision: shown makes
// what they see of the data, decided puts the decision into the data; both are
// pure. What is shown is recorded with its hash, and stays as it is while they
// decide. A state that asks for an approval says for how long, as one that waits
// for a signal does, unless the approval expires by itself.
func Approve[T, V any](a Approval, shown func(*T) V, decided func(*T, Decision)) *ApproveAction[T] {
	action := approve(func(any) Approval { return a }, shown, decided)
	action.static = &a
	return &ApproveAction[T]{action}
}

// ApproveOf is [Approve] for an approval that is taken of the data when the
// state is entered.
func ApproveOf[T, V any](a func(*T) Approval, shown func(*T) V, decided func(*T, Decision)) *ApproveAction[T] {
	if a == nil {
		return &ApproveAction[T]{approve[T](nil, shown, decided)}
	}
	return &ApproveAction[T]{approve(func(d any) Approval { return a(d.(*T)) }, shown, decided)}
}

func approve[T, V any](a func(any) Approval, shown func(*T) V, decided func(*T, Decision)) *action {
	action := &action{kind: KindApprove, approval: a}
	action.shown = func(d any) (json.RawMessage, error) {
		if shown == nil {
			return rawNull, nil
		}
		return marshal(shown(d.(*T)))
	}
	action.take = func(d any, body json.RawMessage) error {
		var what Decision
		if err := unmarshal(body, &what); err != nil {
			return err
		}
		if decided != nil {
			decided(d.(*T), what)
		}
		return nil
	}
	return action
}

// Tell names the [Call] by which approvers hear that something waits for them:
// when it begins, when they are reminded, when it is escalated or delegated.
// [Meta.Notice] tells the Call's function whom and why. It is an effect like any
// other, but nothing waits for it: what comes of it is dropped, it is given up
// with a letter and without parking the run, and the decision ends it.
func (p *ApproveAction[T]) Tell(a Action[T]) *ApproveAction[T] {
	p.a.tellTwice = p.a.tell != nil
	p.a.tell = nil
	if a != nil {
		p.a.tell = a.erase(nil)
	}
	return p
}

func (p *ApproveAction[T]) erase(*T) *action { return p.a }

// Notice is what approvers are told.
type Notice struct {
	Kind     NoticeKind `json:"kind"`
	Approval string     `json:"approval"` // its id
	To       []string   `json:"to"`       // whom
	Hash     string     `json:"hash"`     // of what is shown
	Deadline *time.Time `json:"deadline,omitempty"`
	Reminder int        `json:"reminder,omitempty"` // which one it is, from 1
}

// NoticeKind says why approvers are told.
type NoticeKind string

// The kinds of notices.
const (
	NoticeAsk      NoticeKind = "ask"      // it has begun
	NoticeRemind   NoticeKind = "remind"   // they have not answered yet
	NoticeEscalate NoticeKind = "escalate" // it has taken long: they may decide as well
	NoticeDelegate NoticeKind = "delegate" // an approver handed their part to them
)

// Check says what is wrong with an approval, in one line.
func (a Approval) Check() error {
	if len(a.By) == 0 {
		return errors.New("it names nobody who may decide")
	}
	all := slices.Clone(a.By)
	last := time.Duration(0)
	for _, e := range a.Escalate {
		switch {
		case len(e.By) == 0:
			return errors.New("an escalation names nobody")
		case e.After <= last || e.After > MaxWait:
			return fmt.Errorf("an escalation after %s: it is later than the one before, at most %s", e.After, MaxWait)
		}
		last = e.After
		all = append(all, e.By...)
	}
	for i, who := range all {
		switch {
		case !validApprover(who):
			return fmt.Errorf("approver %q is not one token of a subject, of at most %d bytes", trim(who, maxName), maxName)
		case slices.Contains(all[:i], who):
			return fmt.Errorf("approver %q is named twice", who)
		}
	}
	switch {
	case len(all) > MaxApprovers:
		return fmt.Errorf("it names %d approvers, over %d", len(all), MaxApprovers)
	case a.Quorum < 0 || a.Quorum > len(all):
		return fmt.Errorf("its quorum is %d, of %d approvers", a.Quorum, len(all))
	case a.Remind != 0 && (a.Remind < time.Second || a.Remind > MaxWait):
		return fmt.Errorf("its Remind is %s, not 1s to %s", a.Remind, MaxWait)
	case a.Expire < 0 || a.Expire > MaxWait:
		return fmt.Errorf("its Expire is %s, not 0s to %s", a.Expire, MaxWait)
	case a.Expire != 0 && !a.Default.Known():
		return errors.New("it expires: its Default says what is decided then, approve or reject")
	case a.Expire == 0 && a.Default != "":
		return errors.New("it has a Default, and does not say when it expires")
	}
	return nil
}

// validApprover reports whether a user can have this name: one token of a
// subject.
func validApprover(name string) bool {
	return name != "" && len(name) <= maxName && validID(name) && !strings.ContainsAny(name, ".*> \t\r\n")
}
