// Package deadletter is what is known of messages and effects given up on,
// and how they are selected, planned and re-driven.
package deadletter

import (
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// Kind tells what was given up.
type Kind string

// The kinds of letters; a letter's subject names its kind and machine.
const (
	KindStart  Kind = "start"  // a start that no run took: the letter is the only copy of it
	KindSignal Kind = "signal" // a signal that no run took
	KindEffect Kind = "effect" // an effect whose attempts are used up; its run is parked
	KindOther  Kind = "other"  // a message that is none of these
)

// Letter is a dead letter.
type Letter struct {
	ID       string            `json:"id"`            // the same fault of the same message has the same id
	Seq      uint64            `json:"seq,omitempty"` // its sequence in DLQ, once stored
	Kind     Kind              `json:"kind"`
	Machine  string            `json:"machine,omitempty"`
	Run      string            `json:"run,omitempty"`
	State    string            `json:"state,omitempty"`
	Effect   string            `json:"effect,omitempty"`    // effect type
	EffectID string            `json:"effect_id,omitempty"` // effect id
	Key      string            `json:"key,omitempty"`       // idempotency key
	Class    string            `json:"class"`               // malformed, unknown_machine, invalid_input, id_conflict, … or the error's class
	Cause    string            `json:"cause"`               // one line for people
	Attempts int               `json:"attempts,omitempty"`
	Print    string            `json:"fingerprint"` // same fault, same fingerprint
	First    time.Time         `json:"first_failure"`
	Last     time.Time         `json:"last_failure"`
	Build    string            `json:"build,omitempty"`
	Redrives int               `json:"redrives,omitempty"`
	Source   string            `json:"source,omitempty"`     // subject of the original
	SrcSeq   uint64            `json:"source_seq,omitempty"` // its stream sequence
	Headers  map[string]string `json:"headers,omitempty"`    // of the original
	Body     []byte            `json:"body,omitempty"`       // the original, or the effect's input
}

// Tenant is whose letter it is, as the producer of the start said; "" if they
// did not, or it is of a signal.
func (l *Letter) Tenant() string { return l.Headers["Pawl-Tenant"] }

// SignalID is the id of the signal that a letter is about. Letters before a
// made id was kept have none: those have one made of the letter's.
func (l *Letter) SignalID() string {
	for _, name := range []string{"Pawl-Signal-Id", "Nats-Msg-Id"} {
		if id := l.Headers[name]; id != "" {
			return id
		}
	}
	return "letter-" + statemachine.Fingerprint(l.ID, nil)
}

// RedriveID is the id of the command that re-drives the letter of an effect: a
// letter has one, however often it is sent.
func (l *Letter) RedriveID() string { return "redrive-" + l.ID }
