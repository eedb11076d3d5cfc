package explain

import (
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// Code says why something waits: for programs.
type Code string

// The codes.
const (
	// The run as a whole.
	NotFound      Code = "not_found"       // there is no run, and nothing that will make it
	StartWaits    Code = "start_waits"     // there is no run yet: its start may be among those that wait
	StartRefused  Code = "start_refused"   // its start is a dead letter
	Ended         Code = "ended"           // it has ended
	Paused        Code = "paused"          // a person paused it
	NewerFormat   Code = "newer_format"    // its last record is of a newer build
	NoWorkers     Code = "no_workers"      // no worker answers
	NotReady      Code = "not_ready"       // workers answer, and pull nothing: what they need is away
	NoMachine     Code = "no_machine"      // no worker has the machine in the run's version
	StreamFull    Code = "stream_full"     // a stream takes no more messages
	EventWaits    Code = "event_waits"     // a signal or a command is stored and not applied yet
	NothingToWait Code = "nothing_awaited" // nothing is pending, and it has not ended

	// An effect of it.
	GivenUp      Code = "given_up"        // parked: waits for a person
	Held         Code = "held"            // asked while the run is paused
	Performing   Code = "performing"      // a worker is at it
	OwnerLost    Code = "owner_lost"      // a worker was at it that answers no more: its lease runs out
	Inline       Code = "inline"          // a worker is at it, says the record; claims were not seen
	Unclaimed    Code = "unclaimed"       // nobody is at it: its message, or the sweeper, brings it back
	InQueue      Code = "in_queue"        // its message waits for a worker
	Delivered    Code = "delivered"       // a worker has its message, and has not begun
	Again        Code = "comes_again"     // a worker could not take its message, which comes again
	NoHandler    Code = "no_handler"      // no worker performs effects of this type
	Lost         Code = "message_missing" // its message is nowhere: the sweeper sends it again
	Retry        Code = "retry"           // its last try failed: waits for the next
	Throttled    Code = "throttled"       // its last try was put off by who performs it: no attempt spent
	RetryDue     Code = "retry_due"       // the wait is over: waits for a worker
	Accepted     Code = "accepted"        // who performs it has taken it on, and tells the result later
	InDoubt      Code = "in_doubt"        // parked: nobody knows whether it was performed, and a person has to say
	Crashed      Code = "crashed"         // parked: workers died while they performed it
	Unverified   Code = "unverified"      // a try may have performed it: the next finds out whether it did
	Verifying    Code = "verifying"       // a worker finds out whether a try before performed it
	Unconfirmed  Code = "unconfirmed"     // a fork asks what its original did not: a person is asked first
	Undoing      Code = "undoing"         // it takes back what the run did, and takes its course
	UndoRetry    Code = "undo_retry"      // … its last try failed: waits for the next
	UndoGivenUp  Code = "undo_given_up"   // … and is parked: waits for a person
	KeyHeld      Code = "key_held"        // another run holds its business key
	EffectPaused Code = "effect_paused"   // an operator holds up its type
	StatePaused  Code = "state_paused"    // … or the state it is asked in
	KeyClosed    Code = "key_closed"      // its provider wants no more with its flow key until a time
	Limited      Code = "limited"         // its type has limits over all workers, and it waits for its turn
	Elsewhere    Code = "waits"           // it waits in a place that this build does not know

	// A time or a signal that it waits for.
	Sleeping     Code = "sleeping"        // its state is over at a time
	AwaitsChild  Code = "awaits_child"    // its state is over when another run is
	AwaitsPeople Code = "awaits_approval" // its state is over when people have decided
	AwaitsSignal Code = "awaits_signal"   // its state is over when somebody sends a signal
	Bounded      Code = "bounded"         // its state, or the run, may take until a time
	WaitDue      Code = "wait_due"        // that time has come: waits for a worker
)

// Explanation says why a run does not move.
type Explanation struct {
	Run      string              `json:"run"`
	Machine  string              `json:"machine,omitempty"`
	Version  int                 `json:"version,omitempty"`
	State    string              `json:"state,omitempty"`
	Status   statemachine.Status `json:"status,omitempty"`
	Revision uint64              `json:"revision,omitempty"`
	Since    time.Time           `json:"since,omitzero"` // its last record
	// Cause is the code of the first of Because, which says most.
	Cause   Code     `json:"cause"`
	Because []Reason `json:"because"`
	More    int      `json:"more,omitempty"` // reasons that are left out
	Unseen  []Unseen `json:"unseen,omitempty"`
}

// Reason is one thing the run waits for.
type Reason struct {
	Code Code   `json:"code"`
	Text string `json:"text"` // one line
	// Alone tells that it goes on by itself, nobody having to do anything.
	Alone bool      `json:"goes_on_by_itself"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"` // when it goes on, if that is known

	Effect   string              `json:"effect,omitempty"` // type
	EffectID string              `json:"effect_id,omitempty"`
	Key      string              `json:"key,omitempty"` // a business key
	Place    statemachine.Place  `json:"place,omitempty"`
	Attempt  int                 `json:"attempt,omitempty"`
	Try      int                 `json:"try,omitempty"`
	Error    *statemachine.Cause `json:"error,omitempty"`
	Child    string              `json:"child,omitempty"`   // run that it waits for
	Wait     string              `json:"wait,omitempty"`    // id of a wait
	Signal   string              `json:"signal,omitempty"`  // name of a signal
	Undoes   string              `json:"undoes,omitempty"`  // id of the effect that it takes back
	Crashes  int                 `json:"crashes,omitempty"` // workers that died at it, one after the other

	Holder  string    `json:"holder,omitempty"`     // worker that holds it, run that holds its key, or who holds it up
	Lease   time.Time `json:"lease_until,omitzero"` // of the worker's claim
	Message *Message  `json:"message,omitempty"`    // that wakes the run
	Letter  uint64    `json:"letter,omitempty"`     // sequence in DLQ
	// Help is the command that would help, or shows more; several are divided
	// by "; ".
	Help string `json:"help,omitempty"`
}
