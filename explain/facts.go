package explain

import (
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// Facts are what was seen of a run, at about the same time.
type Facts struct {
	Now     time.Time
	Run     string
	Record  *statemachine.Record // its last; nil: it has none
	Strange string               // why this build cannot read its last record; "" if it can

	// Wakes are the messages that will wake the run, by the id of the effect.
	// An effect that is not in it was not looked for.
	Wakes map[string]Message
	// Told are the signals and commands that are stored for the run and that it
	// has not applied yet.
	Told []Message
	// Starts is the queue of starts, if the run has no record.
	Starts *Queue
	// Letters are those of the run's effects that were given up, by effect; and
	// by "" that of its start, if there is no run. An effect that is parked and
	// not in it has none yet.
	Letters map[string]Letter
	// Keys are who holds the business keys of effects, by effect.
	Keys map[string]KeyHolder
	// Tries are what is noted of the last tries of effects, by effect. Few have
	// a note: those that are not simply repeated, or came more than once.
	Tries map[string]Try
	// Holds are what flow control keeps effects from beginning by, by effect.
	Holds map[string]Hold
	// Limits are what bounds effect types over all workers, in words.
	Limits map[string]string
	// Children are the last records of the runs that it waits for, by effect; nil
	// if one has none.
	Children map[string]*statemachine.Record
	// Claims are who performs effects, by effect; nil if that was not seen.
	Claims map[string]Claim
	// Workers are those that answer; nil if nobody looked.
	Workers []Worker
	// Full are the streams that take no more messages, with how full they are.
	Full []FullStream

	// Exits are the states that the one the run is in may lead to; nil if its
	// machine is not known.
	Exits []string
	// Branches are the names of what that state does at once; nil if it has none,
	// or its machine is not known.
	Branches []string

	Unseen []Unseen
}

// Place is where a message is.
type Place string

// The places of a message.
const (
	Scheduled Place = "scheduled" // it will be there at Due
	InLine    Place = "in_line"   // stored, and not yet given to a worker
	InHand    Place = "in_hand"   // given to a worker, which has not acked it
	Postponed Place = "postponed" // a worker could not take it: it comes again at Due
	Missing   Place = "missing"   // it is nowhere
)

// Message is a message that wakes a run.
type Message struct {
	Place  Place     `json:"place"`
	Stream string    `json:"stream,omitempty"`
	Seq    uint64    `json:"seq,omitempty"`
	Stored time.Time `json:"stored,omitzero"`
	Due    time.Time `json:"due,omitzero"`    // scheduled or postponed: when it comes
	Tries  int       `json:"tries,omitempty"` // postponed: how often it was
	Ahead  uint64    `json:"ahead,omitempty"` // in line: at most so many are given out before it
	// Again is how long after a worker was given it, and is silent, it is given
	// to another.
	Again time.Duration `json:"-"`
	// Pulls is how many workers' pulls wait for messages of this queue.
	Pulls int `json:"-"`
	// Kind is "signal" or "command" of what the run was told, and Name which.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// Queue is messages that wait for workers.
type Queue struct {
	Waiting, InHand uint64
	InLine          uint64 // of those that wait: sorted by priority and tenant, since no worker could begin them at once
	Oldest          time.Time
	Postponed       *Message // the start that was asked about, if a worker could not take it
}

// Letter is a dead letter.
type Letter struct {
	Seq   uint64 // 0: it was taken out of DLQ
	Class string
	Cause string
	At    time.Time
}

// KeyHolder is the run that holds a business key.
type KeyHolder struct {
	Run, Effect string
	Done        bool // its result is recorded
}

// Try is what is noted of a try where it cannot be forgotten.
type Try struct {
	N       int       // which try of the effect
	By      string    // the worker
	Until   time.Time // when it is over at the latest
	Crashes int       // workers that died at the effect before, one after the other
	Open    bool      // it began, and no end of it is noted
	Unknown bool      // it was cut off: it may have performed the effect
	Asks    bool      // it finds out first whether a try before performed the effect
}

// Hold is what keeps an effect from beginning: an operator, or its provider.
type Hold struct {
	Code           Code   // EffectPaused, StatePaused or KeyClosed
	What           string // is held up, in words
	Effect         string // EffectPaused, KeyClosed: the type
	Key            string // KeyClosed: the flow key
	Machine, State string // StatePaused
	By             string // who said so
	Reason         string
	Since          time.Time
	Until          time.Time // of a closed key
}

// Claim is a claim on an effect.
type Claim struct {
	Owner string        // the worker
	Left  time.Duration // of its lease; 0: it has run out
}

// Worker is a worker that answers.
type Worker struct {
	ID    string
	Ready bool
	// Machines, as name@version, and Effects are what it can do; nil if it does
	// not say.
	Machines, Effects []string
}

// FullStream is a stream that takes no more messages.
type FullStream struct {
	Name, What string
	Letters    bool // it is the one of letters: only what is given up needs it
}

// Unseen is something that could not be looked at.
type Unseen struct {
	What string `json:"what"` // redis, workers, …
	Why  string `json:"why"`
}

// Due are the ids of the effects that somebody may be performing.
func (f *Facts) Due() []string {
	if f.Record == nil {
		return nil
	}
	var ids []string
	for _, p := range f.Record.Pending {
		if p.Place == statemachine.Inline || p.Place == statemachine.Queued {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
