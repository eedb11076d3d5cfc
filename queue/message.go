// Package queue is the vocabulary of messages: what a worker is handed, and
// the tokens by which runs appear in subjects and keys. It knows no broker.
package queue

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// Kind tells which queue a message came from.
type Kind string

// The kinds of messages.
const (
	Start  Kind = "start"  // a producer asks for a run
	Signal Kind = "signal" // somebody tells a run something
	Event  Kind = "event"  // the fleet tells a run something
	Due    Kind = "due"    // a timer of a run fired
	Effect Kind = "effect" // a queued effect of a run is to be performed
	Result Kind = "result" // who accepted an effect says what came of it
	Child  Kind = "child"  // a child of the run has ended, or could not begin
)

// Message is one delivery. The fields that its kind does not have are zero.
type Message struct {
	Kind      Kind
	Run       string     // run id; for a start without one, made from the stream's sequence
	Machine   string     // start: name of the machine
	Version   int        // start: Pawl-Machine-Version, 0 if absent
	Priority  Priority   // start
	StartAt   *time.Time // start: when the run is to begin; nil: at once
	Tenant    string     // start: whose it is, "" if nobody says
	Parent    *Parent    // start and event: of the run that sent it; nil: it comes from no run
	Name      string     // signal: its name; event: the command; effect: the effect type; result: an Outcome; child: its run
	ID        string     // signal and event: the sender's id; effect, due, result and child: the effect id
	Try       int        // due: the try that is due; result: the one it is of
	Asked     uint64     // effect, due and child: the run's record with this sequence asked for it
	Body      []byte     // start, signal, event and child: JSON
	Subject   string     // as it was published
	Headers   map[string]string
	Seq       uint64    // its stream sequence
	Time      time.Time // the broker's
	Tries     int       // how often it was postponed before; set by the fleet only
	Letter    string    // id of the dead letter that it was re-driven from, if it was
	Redrives  int       // how often it was re-driven, this time included
	Behind    int       // how many more wait in its queue
	Delivered int       // which delivery this is, from 1; an estimate
	Fault     error     // set if the message cannot be understood; it is dead-lettered
	Delivery            // how to answer it
}

// Parent is the run that sent a message to its child.
type Parent struct {
	Run    string `json:"run"`
	Effect string `json:"effect"` // id of the pending effect that stands for the child
	Asked  uint64 `json:"asked"`  // sequence of the parent's record that asked for the child
	Level  int    `json:"level"`  // of the child
}

// What a message of kind Result tells.
const (
	OutcomeResult    = "result"
	OutcomeFailure   = "failure"   // Headers have its code and text, as micro services do
	OutcomeHeartbeat = "heartbeat" // nothing yet

	// OutcomeAccepted is none of those: an answer that says that they will come.
	OutcomeAccepted = "accepted"
)

// The headers of a failure, and of a heartbeat.
const (
	HeaderFailureCode = "Nats-Service-Error-Code"
	HeaderFailureText = "Nats-Service-Error"
	HeaderRetryAfter  = "Retry-After"  // of a failure: seconds
	HeaderOutcome     = "Pawl-Outcome" // "heartbeat"; of an answer: "accepted"
)

// LetterID is the id of the letter of a message, within its stream: what it is
// judged to be may change from one delivery to the next, the letter is one.
func LetterID(kind Kind, seq uint64) string { return string(kind) + "-" + strconv.FormatUint(seq, 10) }

// LetterID is the id of the letter of this message. One that was re-driven has
// one letter for each time it was, however often that is repeated; it names
// what is said, too, so that nobody's other message is taken for it.
func (m *Message) LetterID() string {
	if m.Letter == "" {
		return LetterID(m.Kind, m.Seq)
	}
	h := sha256.New()
	for _, part := range []string{string(m.Kind), m.Letter, m.Machine, m.Run, string(m.Body)} {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		h.Write([]byte{':'})
		h.Write([]byte(part))
	}
	return "again-" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// Delivery is the broker's side of a message.
type Delivery interface {
	Ack() error                    // done with; it goes
	Nak(delay time.Duration) error // give back, to come again after delay
	Beat() error                   // still at it
}
