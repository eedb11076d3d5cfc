package statemachine

import (
	"encoding/json"
	"reflect"
	"strconv"
	"time"
)

// FormatVersion is the highest version of the record format that this code
// reads and writes; a record that needs nothing of it has a lower one. A record
// of a higher version is refused, never coerced. See docs/format.md.
const FormatVersion = 6

// Record is one committed transition of a run: a message on HISTORY. It holds
// everything that is needed to go on (state, pending work, applied ids) and
// everything that must follow from it (the outbox), so that appending it is
// the whole transaction. Field names are permanent; docs/format.md describes
// them and testdata/records holds golden files.
type Record struct {
	V        int       `json:"v"`                   // format version
	Run      string    `json:"run"`                 // run id, any UTF-8, at most 256 bytes
	Machine  string    `json:"machine"`             // name of the machine
	Version  int       `json:"version"`             // version of the machine the run started with
	Def      string    `json:"def"`                 // hash of the definition that made this record
	Schema   int       `json:"schema,omitempty"`    // version of the last data migration
	Epoch    int       `json:"epoch,omitempty"`     // number of rolls (continue-as-new)
	Rev      uint64    `json:"rev"`                 // 1, 2, 3 …
	Prev     uint64    `json:"prev"`                // stream sequence of the record before, 0 for the first
	PrevTxid string    `json:"prev_txid,omitempty"` // its txid: the records of a run form a hash chain
	Txid     string    `json:"txid"`                // hash of this record's bytes with txid blanked
	At       time.Time `json:"at"`                  // UTC, never before the record before
	Started  time.Time `json:"started"`             // At of the first record
	Build    string    `json:"build,omitempty"`     // build of the worker that made it
	By       string    `json:"by,omitempty"`        // the worker that made it
	Tenant   string    `json:"tenant,omitempty"`    // whose the run is, as its producer said
	Parent   *Parent   `json:"parent,omitempty"`    // whose child it is; nil: nobody's

	Events []Event `json:"events"` // what was applied, in order
	From   string  `json:"from"`   // root state before, "" for the first record
	To     string  `json:"to"`     // root state after
	Status Status  `json:"status"`

	Frames  []Frame                      `json:"frames"`         // what is alive; [0] is the root
	Data    json.RawMessage              `json:"data,omitempty"` // the machine's data, opaque to all but the machine
	Logs    map[string]LogRef            `json:"logs,omitempty"` // append-only fields of Data
	Adds    map[string][]json.RawMessage `json:"adds,omitempty"` // the items this record adds to them
	Index   map[string]string            `json:"index,omitempty"`
	Budgets map[string]Spent             `json:"budgets,omitempty"` // how much of what it may spend is used
	Pending []Pending                    `json:"pending,omitempty"`
	Waits   []Wait                       `json:"waits,omitempty"`
	Undos   []Undo                       `json:"undos,omitempty"`  // how to take back what was performed, oldest first
	Ending  *Ending                      `json:"ending,omitempty"` // how the run ends once it is unwound
	Inbox   []InboxSignal                `json:"inbox,omitempty"`
	Applied []string                     `json:"applied,omitempty"` // ids of the last applied signals and commands
	Replies []Reply                      `json:"replies,omitempty"` // what was answered to the last commands that ask for an answer
	Outbox  []Entry                      `json:"outbox,omitempty"`
	Cause   *Cause                       `json:"cause,omitempty"`  // why the run failed, is parked or paused, or was cancelled
	Input   string                       `json:"input"`            // fingerprint of the start's input and machine
	Origin  *Origin                      `json:"origin,omitempty"` // where a fork began
	Roll    *Epoch                       `json:"roll,omitempty"`   // where the epoch began; nil in the first
	Tomb    *Tombstone                   `json:"tomb,omitempty"`   // set on the record that stands for an archived run
}

// Stored is a record where it lies: in HISTORY, or a copy of it.
type Stored struct {
	*Record
	Seq   uint64    // its stream sequence
	Time  time.Time // the broker's time of it; zero if the copy does not know
	Bytes []byte    // its encoded form
}

// Status says whether a run is under way, and how it ended.
type Status string

// The statuses of a run.
const (
	StatusRunning   Status = "running"
	StatusParked    Status = "parked" // an effect was given up: waits for a person
	StatusPaused    Status = "paused" // a person paused it: nothing new is performed until it is resumed
	StatusSucceeded Status = "succeeded"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
)

// Ended reports whether no event can move the run any more.
func (s Status) Ended() bool {
	return s == StatusSucceeded || s == StatusFailed || s == StatusCancelled
}

// Frame is one live thread of a run: there is the root. What a state does many
// times at once has no frames of its own, see Fan.
type Frame struct {
	ID     int            `json:"id"`               // 0 for the root
	Parent *int           `json:"parent,omitempty"` // nil for the root
	Kind   FrameKind      `json:"kind"`
	Item   int            `json:"item,omitempty"`   // index among the siblings
	State  string         `json:"state"`            // where this frame is
	Visit  int            `json:"visit"`            // how often State was entered, from 1
	Visits map[string]int `json:"visits,omitempty"` // visits of the states that can be entered again
	Cause  *Cause         `json:"cause,omitempty"`  // the failure it caught last
	Fan    *Fan           `json:"fan,omitempty"`    // how far a state has come that does many at once
}

// FrameKind tells what a frame is a thread of.
type FrameKind string

// The kinds of frames.
const (
	FrameRoot   FrameKind = "root"
	FrameBranch FrameKind = "branch"
	FrameItem   FrameKind = "item"
)

// Event is a fact delivered to a run; it is applied at most once.
type Event struct {
	ID      string          `json:"id"` // see the ids in ids.go
	Kind    EventKind       `json:"kind"`
	At      time.Time       `json:"at"`
	Seq     uint64          `json:"seq,omitempty"`    // stream sequence of the message that carried it, 0 if none did
	Effect  string          `json:"effect,omitempty"` // id of the effect it is about
	Name    string          `json:"name,omitempty"`   // effect type, or name of the signal or update, or run of the child
	Try     int             `json:"try,omitempty"`    // which try of the effect, see Pending
	Body    json.RawMessage `json:"body,omitempty"`   // input, result or payload; by reference when over 8 KB
	Cause   *Cause          `json:"cause,omitempty"`
	RetryAt *time.Time      `json:"retry_at,omitempty"` // failure: when the next try is due, drawn by the worker; nil: given up
	Free    bool            `json:"free,omitempty"`     // failure: spends no attempt (throttled, key held by another)
	Tenant  string          `json:"tenant,omitempty"`   // start: whose the run is, as its producer said
	Due     *time.Time      `json:"due,omitempty"`      // start: when the run is to begin, if not at once
	Parent  *Parent         `json:"parent,omitempty"`   // start: whose child it is
	// Recorded says of an outcome that it was the original's of this fork:
	// nothing was performed.
	Recorded bool `json:"recorded,omitempty"`
}

// EventKind tells what happened.
type EventKind string

// The kinds of events.
const (
	EventStart   EventKind = "start"   // a producer asked for the run
	EventSignal  EventKind = "signal"  // somebody outside tells the run something
	EventResult  EventKind = "result"  // a handler succeeded
	EventFailure EventKind = "failure" // an attempt failed; RetryAt nil means: given up
	EventDue     EventKind = "due"     // the wait before the next attempt, or another that has a time, is over
	EventQueue   EventKind = "queue"   // an inline effect is handed to the fleet
	EventCancel  EventKind = "cancel"  // a person ends the run
	EventPause   EventKind = "pause"   // a person holds it
	EventResume  EventKind = "resume"  // and lets it go on
	EventRedrive EventKind = "redrive" // a person has given-up effects tried anew

	EventCallback EventKind = "callback" // who accepted an effect says what came of it
	EventBeat     EventKind = "beat"     // … or that it is still at it
	EventLapse    EventKind = "lapse"    // … or has said nothing for too long
	EventResolve  EventKind = "resolve"  // a person says what a given-up effect came to

	EventTerminate EventKind = "terminate" // a person ends the run at once

	EventChild    EventKind = "child"    // a child has ended, or could not begin
	EventApproval EventKind = "approval" // an approver says what they decide
	EventDelegate EventKind = "delegate" // … or hands that on to somebody else
	EventUpdate   EventKind = "update"   // somebody tells the run something, and is answered
	EventFork     EventKind = "fork"     // a person asked for the run, from a checkpoint of another
	EventConfirm  EventKind = "confirm"  // a person lets a fork perform what the other run did not
)

// Pending is an effect that was asked and has no result yet. It is carried in
// every record until it has one.
type Pending struct {
	ID      string          `json:"id"`              // f(run, causing event, index), see EffectID
	Frame   int             `json:"frame"`           // the frame that waits for it
	Item    int             `json:"item,omitempty"`  // which item or branch of the state it is for, from 1; 0: the state itself
	Effect  string          `json:"effect"`          // effect type
	Key     string          `json:"key,omitempty"`   // business key; empty: the id is the idempotency key
	Flow    string          `json:"flow,omitempty"`  // flow key: what limits per key and closed keys go by
	Input   json.RawMessage `json:"input"`           // may refer to logs and blobs; by reference when over 8 KB
	Print   string          `json:"print"`           // fingerprint of type and input, with references to logs but not to blobs
	Place   Place           `json:"place"`           // how it is performed
	Wake    string          `json:"wake,omitempty"`  // inline: id of the event or effect whose message resumes it
	Rev     uint64          `json:"rev"`             // revision of the record that gave it its place
	At      time.Time       `json:"at"`              // At of that record
	Try     int             `json:"try"`             // from 1: every time it is performed anew, paid for or not
	Attempt int             `json:"attempt"`         // from 1: the tries that were paid for
	Depth   int             `json:"depth,omitempty"` // inline results since the wake's own record
	RetryAt *time.Time      `json:"retry_at,omitempty"`
	Timeout Duration        `json:"timeout,omitempty"`  // of one attempt; zero: the policy's
	CanUndo bool            `json:"can_undo,omitempty"` // its result registers an Undo
	Undoes  string          `json:"undoes,omitempty"`   // it is the last of Undos: id of the effect it takes back
	Tells   string          `json:"tells,omitempty"`    // it tells somebody of an approval, whose id this is: nothing waits for its result
	Cause   *Cause          `json:"cause,omitempty"`    // of the last failed attempt
	First   *time.Time      `json:"first_failure,omitempty"`
	// Redriven is the try that the last redrive began, 0 if there was none:
	// about those before it a person has decided.
	Redriven int `json:"redriven,omitempty"`
	Redrives int `json:"redrives,omitempty"` // how often it was given up and tried anew
	Edits    int `json:"edits,omitempty"`    // how often a redrive gave it another input

	Child *ChildRef `json:"child,omitempty"` // the run it stands for, if it is no effect
}

// Undo is an effect that takes back another, registered with the other's
// result. It is asked for when the run is unwound, after all that were
// registered later, and stands in the record until it was performed.
type Undo struct {
	Of      string          `json:"of"`    // id of the effect that it takes back
	State   string          `json:"state"` // which asked for that
	Effect  string          `json:"effect"`
	Key     string          `json:"key,omitempty"`
	Flow    string          `json:"flow,omitempty"`
	Input   json.RawMessage `json:"input"` // as in Pending
	Print   string          `json:"print"`
	Timeout Duration        `json:"timeout,omitempty"`
	Queued  bool            `json:"queued,omitempty"` // it is never asked for inline
}

// Ending is an end that waits until what is under way has an outcome, and what
// was done is undone.
type Ending struct {
	Status Status `json:"status"` // failed or cancelled
	Cause  *Cause `json:"cause,omitempty"`
}

// IdempotencyKey is what the handler is given to make repeats harmless. What
// was edited is another request, so the key that stands for the request is
// another one; a business key stands for what it names, however it is asked.
func (p *Pending) IdempotencyKey() string {
	switch {
	case p.Key != "":
		return p.Key
	case p.Edits > 0:
		return p.ID + "~" + strconv.Itoa(p.Edits)
	}
	return p.ID
}

// Place says how a pending effect is performed, and so what wakes it.
type Place string

// The places of a pending effect. Only a record turns one into another.
const (
	Inline Place = "inline" // by the worker that commits the record; resumed by a holder of its wake
	Queued Place = "queued" // by whoever holds its EFFECTS message
	Retry  Place = "retry"  // waits for RetryAt, by a schedule in TIMERS
	Parked Place = "parked" // given up; waits for a redrive
	Held   Place = "held"   // asked while the run is paused; waits for its resume

	ChildRun Place = "child" // a run of its own; woken by that one's end
)

// Entry is one message of a record's outbox. It names what is to be published;
// subject and headers are made when it is, and carry the record's sequence
// ("asked"). Publishing it again is harmless.
type Entry struct {
	Kind   EntryKind       `json:"kind"`
	ID     string          `json:"id"`               // effect id, or id of the letter, or "finished"
	Effect string          `json:"effect,omitempty"` // effect type
	Try    int             `json:"try,omitempty"`    // timer: which try is due
	Due    *time.Time      `json:"due,omitempty"`    // timer: when it fires
	Body   json.RawMessage `json:"body,omitempty"`   // letter: the letter; stop: a Stop
}

// EntryKind tells where an entry is published.
type EntryKind string

// The kinds of outbox entries.
const (
	EntryEffect   EntryKind = "effect"   // EFFECTS: perform the pending effect ID
	EntryTimer    EntryKind = "timer"    // TIMERS: wake the run at Due for try Try of effect ID
	EntryLetter   EntryKind = "letter"   // DLQ: ID was given up
	EntryFinished EntryKind = "finished" // FINISHED: the run ended
	EntryChild    EntryKind = "child"    // EVENTS: start the run that the pending effect ID stands for
	EntryStop     EntryKind = "stop"     // EVENTS: cancel or terminate the child that the effect ID stood for
	EntryAnswer   EntryKind = "answer"   // EVENTS: tell the parent how the run ended; ID is the effect it was
)

// Command is the body of an event by which a person steers a run.
type Command struct {
	By     string `json:"by,omitempty"`     // who; "unverified:" and a name if they only say so
	Reason string `json:"reason,omitempty"` // why, at most 2 KB
	Effect string `json:"effect,omitempty"` // redrive: id of the effect; empty: all that were given up. resolve, and resume with To: id of the effect
	To     string `json:"to,omitempty"`     // resume of a parked run: an exit of its state, which it takes; the effect is left for good. delegate: who decides instead

	// Try, of a redrive of one effect: only if it is this try that was given up.
	// So it means one letter, however late it comes.
	Try    int             `json:"try,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`   // redrive of one effect: what it is tried with instead, at most 512 KB. update: what the run is told, at most 64 KB
	Result json.RawMessage `json:"result,omitempty"`  // resolve: what the effect came to
	NoUndo bool            `json:"no_undo,omitempty"` // cancel: at once, and what was done stays done

	Approval string  `json:"approval,omitempty"` // answer, delegate: id of the approval
	Verdict  Verdict `json:"verdict,omitempty"`  // answer
	Hash     string  `json:"hash,omitempty"`     // answer: of what the approver was shown; empty: they do not say
	Name     string  `json:"name,omitempty"`     // update: which
}

// IsZero reports whether nothing is said.
func (c Command) IsZero() bool { return reflect.ValueOf(c).IsZero() }

// InboxSignal is a signal that nothing waited for yet.
type InboxSignal struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	At   time.Time       `json:"at"`
	Seq  uint64          `json:"seq,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// LogRef is an append-only field: how much it holds, and where. Items
// [0, Sealed) lie in chunks in BLOBS that link backwards from Head; items
// [Sealed, Count) are the Adds of the run's records after stream sequence
// After.
type LogRef struct {
	Count  int    `json:"count"`
	Sealed int    `json:"sealed,omitempty"`
	Head   string `json:"head,omitempty"` // hash of the last sealed chunk
	After  uint64 `json:"after,omitempty"`
	Bytes  int    `json:"bytes,omitempty"` // size of the unsealed items
}

// Chunk is a sealed part of a log, stored as a blob under the hash of its
// encoded form.
type Chunk struct {
	Prev  string            `json:"prev,omitempty"` // hash of the chunk before
	First int               `json:"first"`          // index of Items[0]
	Items []json.RawMessage `json:"items"`          // at most 256, or 64 KB
}

// Cause says why something failed.
type Cause struct {
	Class   string `json:"class"`             // what kind of failure; what Catch matches
	Message string `json:"message"`           // for people, at most 2 KB
	State   string `json:"state,omitempty"`   // where the run was
	Effect  string `json:"effect,omitempty"`  // effect type
	Attempt int    `json:"attempt,omitempty"` // which attempt
	By      string `json:"by,omitempty"`      // who cancelled or paused the run, as the command said
}

// Letter is an effect given up on: the body of a letter entry.
type Letter struct {
	ID       string          `json:"id"` // effect id and try: the same giving-up has the same id
	Run      string          `json:"run"`
	Machine  string          `json:"machine"`
	State    string          `json:"state"`
	Effect   string          `json:"effect"`    // effect type
	EffectID string          `json:"effect_id"` // effect id
	Key      string          `json:"key"`       // idempotency key
	Input    json.RawMessage `json:"input"`     // as recorded, by reference when over 8 KB
	Class    string          `json:"class"`
	Cause    string          `json:"cause"`
	Attempts int             `json:"attempts"`
	Print    string          `json:"print"` // fingerprint of the fault: see FaultPrint
	First    time.Time       `json:"first_failure"`
	Last     time.Time       `json:"last_failure"`
	Build    string          `json:"build,omitempty"`
	Redrives int             `json:"redrives,omitempty"` // how often it was tried anew before
	Tenant   string          `json:"tenant,omitempty"`   // of the run
}

// Tombstone stands for a run whose records were archived or purged.
type Tombstone struct {
	Revs uint64    `json:"revs"` // how many records it had
	At   time.Time `json:"at"`   // when they were removed
}

// Duration is a time.Duration written as Go writes it ("30s").
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
