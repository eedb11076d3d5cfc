package bulk

import (
	"encoding/json"
	"time"
)

// The steps of a change, in the audit record.
const (
	StepBegin = "begin" // nothing is changed yet
	StepItems = "items" // these are changed next
	StepEnd   = "end"   // what came of it; missing if the tool was killed
)

// Entry is a line of the audit record.
type Entry struct {
	ID        string          `json:"id"` // of the change: all its lines have the same
	Step      string          `json:"step"`
	At        time.Time       `json:"at"`
	What      string          `json:"what"` // "redrive letters", "cancel runs", …
	By        string          `json:"by,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Selection json.RawMessage `json:"selection,omitempty"` // begin: what was asked for
	Items     []string        `json:"items,omitempty"`
	Report    *Report         `json:"report,omitempty"` // end
	Error     string          `json:"error,omitempty"`  // end: why it ended early
}
