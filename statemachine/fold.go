package statemachine

import (
	"encoding/json"
	"time"
)

// Env is what a fold needs of the world, as data.
type Env struct {
	Now   time.Time              // the worker's clock, UTC
	Build string                 // goes into the record
	By    string                 // goes into the record
	Place func(p *Pending) Place // decides Inline or Queued for a new effect; nil: Queued
}

// Outcome says what an event did to the run.
type Outcome int

// The outcomes of applying an event.
const (
	Applied   Outcome = iota // it moved the run; a record must be written
	Duplicate                // it was applied before
	Stale                    // it answers nothing that is pending (in this state)
	Ended                    // the run has ended: the event comes too late
	Unknown                  // there is no such run yet, and the event does not start one
	Conflict                 // a start of a run that exists, with another input or machine
	Early                    // a timer fired before its time; it comes again
)

// Fold builds the next record of a run from the record before and events, one
// after the other: each event is checked against the state it meets.
type Fold struct {
	_ struct{} // fields are the package's own
}

// Begin starts a fold on the run's last record; from is nil if the run has
// none yet.
func (d *Definition) Begin(run string, from *Stored, env Env) *Fold { panic("seam") }

// Apply applies one event. An error means that the machine cannot take the
// event (a *LimitError, an invalid input, a panic in a callback); the fold is
// then as it was before the event.
func (f *Fold) Apply(e Event) (Outcome, error) { panic("seam") }

// SealLog notes that the unsealed items of a log now lie in the chunk with
// this hash, stored before. Call it before Apply.
func (f *Fold) SealLog(log, head string, count int) { panic("seam") }

// Sealed is a record ready to be appended.
type Sealed struct {
	Stored                   // Record and Bytes are set, Seq is not known yet
	Blobs  map[string][]byte // by hash; to be stored before the append
}

// Seal ends the fold, checks every size and encodes the record. A *LimitError
// says which limit the record would break.
func (f *Fold) Seal() (*Sealed, error) { panic("seam") }

// Decode reads an encoded record. ErrFormat is returned for a record of a
// newer format, and for bytes that are no record.
func Decode(b []byte) (*Record, error) { panic("seam") }

// BlobRef is a value stored in BLOBS: {"$blob": hash, "size": bytes}.
type BlobRef struct {
	Hash string `json:"$blob"`
	Size int    `json:"size"`
}

// AsBlobRef reports whether v is a reference to a blob.
func AsBlobRef(v json.RawMessage) (BlobRef, bool) { panic("seam") }
