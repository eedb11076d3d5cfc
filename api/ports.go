package api

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

var (
	// ErrNotFound is returned for a run or a letter that does not exist.
	ErrNotFound = errors.New("not found")
	// ErrCursor is returned for a cursor that no list gave out.
	ErrCursor = errors.New("cursor is none that a list gave out")
	// ErrTooLarge is returned by a Sender for what no stream will ever take.
	ErrTooLarge = errors.New("too large")
	// ErrFull is returned by a Sender for what a stream has no room for: nothing
	// was stored.
	ErrFull = errors.New("full")
)

// Log is what is read of HISTORY.
type Log interface {
	// Look reads a run's last record; nil if there is none.
	Look(ctx context.Context, run string) (*statemachine.Stored, error)
	// Read yields a run's records with a stream sequence after the given one,
	// in order.
	Read(ctx context.Context, run string, after uint64) iter.Seq2[*statemachine.Stored, error]
	// Sweep yields the last record of every run of a partition. An error that
	// is statemachine.ErrFormat is about one run, any other ends it.
	Sweep(ctx context.Context, partition int) iter.Seq2[*statemachine.Stored, error]
}

// Blobs keep values that are too large for a record.
type Blobs interface {
	Get(ctx context.Context, run, hash string) ([]byte, error)
	// Piece returns at most so many bytes from an offset on, and how many the
	// whole has. ErrNotFound is returned if there is no such value.
	Piece(ctx context.Context, run, hash string, offset int64, most int) ([]byte, int64, error)
}

// Letters is what is read of DLQ.
type Letters interface {
	// Of yields the letters of a kind and a machine with a sequence after the
	// given one, oldest first; "" stands for all. After an error that is about
	// one letter it goes on, if it may.
	Of(ctx context.Context, kind deadletter.Kind, machine string, after uint64) iter.Seq2[deadletter.Letter, error]
	// Get returns a letter by its sequence, and false if there is none.
	Get(ctx context.Context, seq uint64) (deadletter.Letter, bool, error)
	// OfStart returns the letter of a start, by the sequence under which its
	// message was stored, and false if there is none.
	OfStart(ctx context.Context, machine string, message uint64) (deadletter.Letter, bool, error)
}

// Bell rings for runs.
type Bell interface {
	// Bell has f called whenever a record of a run is about to be committed,
	// with the status it leads to, until silence is called. It may miss some,
	// and ring for some that are not committed after all. F must be quick.
	Bell(run string, f func(statemachine.Status)) (silence func(), err error)
}

// Registry is the machines that workers have registered.
type Registry interface {
	// Machines lists them by name, without their runs.
	Machines(ctx context.Context) ([]Machine, error)
}

// Counts says how many runs there are, as far as the index knows.
type Counts interface {
	// Counts returns the runs of each machine by status; ok is false while the
	// index is incomplete.
	Counts(ctx context.Context) (counts map[string]map[statemachine.Status]int, ok bool, err error)
}

// Streams is where the streams of the fleet are looked at.
type Streams interface {
	// Streams describes each of them, those that are missing included.
	Streams(ctx context.Context) ([]Stream, error)
}

// Index finds runs without reading all of them. It may have lost some.
type Index interface {
	// List answers a page of a filter. ErrCursor is returned for a cursor that
	// is none of its own.
	List(ctx context.Context, f Filter) (*Listing, error)
}

// Sender tells the fleet something. Everything that changes a run goes this
// way: as a message, whose acknowledgement says that it is durable, and which
// the run applies once, whoever sends it again.
type Sender interface {
	// Start returns the sequence of the message that was stored.
	Start(ctx context.Context, s Start) (uint64, error)
	Signal(ctx context.Context, s SignalTo) error
	Command(ctx context.Context, c Command) error
}

// Results takes what came of effects that somebody accepted.
type Results interface {
	// Awaited says which try a token is of; false if the fleet gave out none
	// like it.
	Awaited(ctx context.Context, token string) (queue.Callback, bool, error)
	// Result returns when it is stored.
	Result(ctx context.Context, r ResultOf) error
}

// ResultOf is what came of an effect that was accepted.
type ResultOf struct {
	Token     string
	Body      []byte // the result, JSON
	Heartbeat bool   // there is none yet
	Code      int    // not 0: it failed, with a code as in HTTP
	Error     string // … and why
}

// Start asks for a run.
type Start struct {
	Machine string
	Run     string // id, at most 256 bytes of UTF-8
	Version int    // of the machine; 0: the highest
	Input   []byte // JSON, at most 900 KB

	Priority queue.Priority // "": none is named
	Tenant   string         // "": nobody's
	At       *time.Time     // when the run is to begin; nil: at once
}

// SignalTo tells a run something from outside.
type SignalTo struct {
	Run  string
	Name string
	ID   string // of the signal: the same is applied once
	Body []byte // JSON, at most 64 KB
}

// Command steers a run.
type Command struct {
	Run  string
	Kind statemachine.EventKind // cancel, pause, resume or redrive
	ID   string                 // of the request: the same is applied once
	statemachine.Command
}

// Copies are of what lies in HISTORY, and quick to read wherever that is cold.
type Copies interface {
	// Current returns a run's last record if a copy is known to be it; nil if
	// that is not known.
	Current(ctx context.Context, run string) *statemachine.Stored
	// Tail returns items [from, to) of a log, or false if it does not hold all
	// of them.
	Tail(ctx context.Context, run, log string, from, to int) ([][]byte, bool, error)
}

// exits lists the states that the one a run is in may lead to; false if its
// machine is not known here.
func (a *Answers) exits(r *statemachine.Record) ([]string, bool) {
	d := a.maker(r)
	if d == nil {
		return nil, false
	}
	return d.Exits(r.Frames[0].State), true
}

// branches lists the names of what the state of a run does at once, if it has
// any and the run's machine is known here.
func (a *Answers) branches(r *statemachine.Record) []string {
	if d := a.maker(r); d != nil {
		return d.Branches(r.Frames[0].State)
	}
	return nil
}

// maker is the machine that made a record; nil if it is not known here.
func (a *Answers) maker(r *statemachine.Record) *statemachine.Definition {
	if a.Definitions == nil || len(r.Frames) == 0 {
		return nil
	}
	if d, ok := a.Definitions.Definition(r.Machine, r.Version); ok && d.Hash == r.Def {
		return d
	}
	return nil
}

// Answers makes the answers. It may be used concurrently. All but the first
// three may be nil: then lists are made from HISTORY, nothing can be changed,
// runs that are waited for are looked at more often, and what the others know
// is not known.
type Answers struct {
	Log      Log
	Blobs    Blobs
	Letters  Letters
	Copies   Copies
	Index    Index
	Sender   Sender
	Bell     Bell
	Registry Registry
	Counts   Counts
	Streams  Streams
	Flow     Flow
	Mailroom Mailroom
	// Definitions are the machines of this process; those of others may be others.
	Definitions Definitions
	// Policy is that of an effect type in this process; false if it has none.
	Policy func(effect string) (EffectPolicy, bool)
	Forker Forker
	// Observers see what explains a run, beside its record and letters.
	Observers []Observer
}
