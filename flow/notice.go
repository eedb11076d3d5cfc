package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/pawlrun/pawl/queue"
)

// Kind tells what a notice is about.
type Kind string

// The kinds of notices.
const (
	KindEffect Kind = "effect" // an effect type: nothing of it begins
	KindState  Kind = "state"  // a state of a machine: nothing that is asked in it begins
	KindKey    Kind = "key"    // a flow key of an effect type: nothing with it begins until a time
)

// Notice says that something is held up, or is so no more. The last one about
// a subject counts.
type Notice struct {
	Kind    Kind   `json:"kind"`
	Effect  string `json:"effect,omitempty"`  // effect, key: the effect type
	Key     string `json:"key,omitempty"`     // key: the flow key; empty is one, too
	Machine string `json:"machine,omitempty"` // state
	State   string `json:"state,omitempty"`   // state
	Held    bool   `json:"held"`              // false: it goes on

	Until  time.Time `json:"until,omitzero"` // key: when it is open again
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`     // who; "unverified:" and a name if they only say so, or a worker
	Reason string    `json:"reason,omitempty"` // why
}

// Sizes of what a notice says.
const (
	MaxKey    = 256
	MaxReason = 2048
)

// Subject is what a notice is about; it is comparable.
type Subject struct {
	Kind        Kind
	Name, Under string // effect type and key, or machine and state
}

// Subject returns what the notice is about.
func (n *Notice) Subject() Subject {
	if n.Kind == KindState {
		return Subject{n.Kind, n.Machine, n.State}
	}
	return Subject{n.Kind, n.Effect, n.Key}
}

// String names the subject, for people.
func (s Subject) String() string {
	switch {
	case s.Kind == KindState:
		return "state " + s.Under + " of machine " + s.Name
	case s.Kind == KindKey && s.Under != "":
		return fmt.Sprintf("key %q of effect %s", s.Under, s.Name)
	case s.Kind == KindKey:
		return "the empty key of effect " + s.Name
	}
	return "effect " + s.Name
}

// Holds reports whether the notice holds anything up at a time.
func (n *Notice) Holds(now time.Time) bool {
	return n.Held && (n.Kind != KindKey || now.Before(n.Until))
}

// Check says what is wrong with a notice, in one line.
func (n *Notice) Check() error {
	switch n.Kind {
	case KindEffect, KindKey:
		if !IsEffect(n.Effect) {
			return fmt.Errorf("%q is no effect type", clip(n.Effect))
		}
		if n.Machine != "" || n.State != "" {
			return errors.New("an effect type has no machine or state")
		}
	case KindState:
		if !queue.IsName(n.Machine) || !queue.IsName(n.State) {
			return fmt.Errorf("%q of %q is no state of a machine", clip(n.State), clip(n.Machine))
		}
		if n.Effect != "" {
			return errors.New("a state has no effect type")
		}
	default:
		return fmt.Errorf("nothing of kind %q can be held up", clip(string(n.Kind)))
	}
	switch {
	case n.Kind != KindKey && n.Key != "":
		return errors.New("only a closed key has a key")
	case len(n.Key) > MaxKey || !utf8.ValidString(n.Key):
		return fmt.Errorf("the key has %d bytes: at most %d of UTF-8 are allowed", len(n.Key), MaxKey)
	case n.Kind == KindKey && n.Held == n.Until.IsZero():
		return errors.New("a key is closed until a time, or open")
	case len(n.By) > MaxKey || len(n.Reason) > MaxReason || !utf8.ValidString(n.By+n.Reason):
		return fmt.Errorf("by and reason are UTF-8, of at most %d and %d bytes", MaxKey, MaxReason)
	}
	return nil
}

// Parse reads a notice as it is told.
func Parse(body []byte) (Notice, error) {
	var n Notice
	if err := json.Unmarshal(body, &n); err != nil {
		return n, fmt.Errorf("no notice of flow control: %w", err)
	}
	return n, n.Check()
}

// IsEffect reports whether s can be an effect type: a name that may have dots.
func IsEffect(s string) bool {
	if len(s) == 0 || len(s) > 64 || s[0] < 'a' || s[0] > 'z' || s[len(s)-1] == '.' {
		return false
	}
	for i, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
		case c == '.' && s[i-1] != '.':
		default:
			return false
		}
	}
	return true
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
