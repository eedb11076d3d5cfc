package statemachine

import (
	"fmt"
	"time"
)

// Limits on sizes, in bytes unless the name says otherwise. They are checked
// before anything is committed.
const (
	MaxData    = 100 << 10 // the machine's data
	MaxInbox   = 128 << 10 // signals that nobody waited for yet
	MaxWork    = 384 << 10 // pending effects and outbox
	MaxUndos   = 128 << 10 // Undos registered
	MaxRecord  = 900 << 10 // an encoded record
	MaxValue   = 32 << 20  // one input, result, payload or log item
	MaxInline  = 8 << 10   // a value in a record; larger ones are stored as blobs
	MaxSignal  = 64 << 10  // the payload of a signal
	MaxChild   = 512 << 10 // the input of a child
	MaxIndex   = 256       // the value of an index field
	MaxAnswers = 8 << 20   // what the effects of a fork's original came to, but for results over 8 KB
	MaxID      = 256       // a run id, the id of a signal, a business key
	MaxMessage = 2 << 10   // the message of a cause
	MaxReply   = 8 << 10   // the answer to a command

	maxRepliesSize = 64 << 10 // all answers that are kept

	MaxDepth   = 1000                      // levels of a JSON value; readers of JSON stop at 10,000, and a record adds some
	MaxApplied = 1024                      // ids of signals and commands remembered
	MaxWait    = 10 * 365 * 24 * time.Hour // a sleep, or the bound of a state or run
	MaxIndexes = 8                         // index fields of a machine
	MaxLevels  = 16                        // children below children
	MaxEpoch   = 1000                      // records of an epoch: then the run rolls by itself. So many stay at least
	MaxReplies = 64                        // answers to commands that are kept
	MaxMoves   = 1000                      // moves between states in one event
	MaxAtOnce  = 200                       // items at once, or branches, of a state
	MaxItems   = 100_000                   // items of a state

	MaxApprovers = 32  // of one approval
	MaxReminders = 100 // of one approval

	roomToPark = 8 << 10 // by which a record may be larger that parks a run since its next one is too large

	sealItems = 256      // unsealed log items from which a log is to be sealed
	sealBytes = 64 << 10 // the same, in bytes
)

// LimitError says which size was exceeded.
type LimitError struct {
	What string // "data", "record", "value nested", "inbox", "undos", "pending and outbox", "value", "key", "id", "name", "items", "index <field>"
	Size int    // in Unit
	Max  int
	Unit string // "" for bytes
}

func (e *LimitError) Error() string {
	unit := e.Unit
	if unit == "" {
		unit = "bytes"
	}
	return fmt.Sprintf("%s of %d %s exceeds the limit of %d %s", e.What, e.Size, unit, e.Max, unit)
}

// within returns a *LimitError if size is above the limit.
func within(what string, size, most int) error {
	if size > most {
		return &LimitError{What: what, Size: size, Max: most}
	}
	return nil
}

// depthWithin returns a *LimitError if a JSON value is nested too deep. The
// value is known to be JSON.
func depthWithin(what string, v []byte) error {
	if len(v) <= MaxDepth { // nearly all of them
		return nil
	}
	depth, inString := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > MaxDepth {
				return &LimitError{What: what + " nested", Size: depth, Max: MaxDepth, Unit: "levels"}
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}
