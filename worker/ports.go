package worker

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Errors of the ports. Everything else is infrastructure trouble, too: it
// spends nothing, and the worker tries again.
var (
	// ErrTooLarge is an append that can never be stored.
	ErrTooLarge = errors.New("record too large for the stream")
	// ErrFull is a queue that has reached its limit.
	ErrFull = errors.New("full")
	// ErrUnavailable is "no space", "not permitted", "no quorum", "not
	// connected": the worker stops pulling and is not ready.
	ErrUnavailable = errors.New("unavailable")
)

// Log is HISTORY: the only truth.
type Log interface {
	// Append appends one record per run, each on the condition that the
	// run's last record is still the one it names. Every outcome is settled
	// by reading before it returns: the answers are parallel to the appends.
	// It returns early only when ctx ends; then Err is set and the outcome
	// of that run is unknown until it is read.
	Append(ctx context.Context, appends []Append) []Appended
	// Last reads the last records of runs in bulk. It may be a little stale
	// (any replica answers). Runs without a record are nil in the answer.
	Last(ctx context.Context, runs []string) ([]*statemachine.Stored, error)
	// Look reads a run's last record from the stream's leader; nil if none.
	Look(ctx context.Context, run string) (*statemachine.Stored, error)
	// Looks is Look for many runs, side by side; the answers are parallel.
	Looks(ctx context.Context, looks []Look) ([]*statemachine.Stored, []error)
	// Read yields the run's records with a stream sequence after the given
	// one, in order.
	Read(ctx context.Context, run string, after uint64) iter.Seq2[*statemachine.Stored, error]
	// Sweep yields the last record of every run of a partition.
	Sweep(ctx context.Context, partition int) iter.Seq2[*statemachine.Stored, error]
}

// Look names a run to be looked at. Known is a record of it that the caller
// has: if it still is the last, it is the answer, with the broker's time, and
// nothing is decoded.
type Look struct {
	Run   string
	Known *statemachine.Stored // nil: none
}

// Append is one conditional append.
type Append struct {
	Record *statemachine.Record // Prev is the expected sequence, Txid tells whose it is
	Bytes  []byte
}

// Appended is the outcome of an append: exactly one of Seq, Last and Err is
// set. It is settled unless Err is.
type Appended struct {
	Seq  uint64               // committed, with this sequence
	Sent time.Time            // when the bytes that were committed were first sent
	Last *statemachine.Stored // lost: another record is the run's last
	// Err is ErrTooLarge: nothing is stored and never will be; or
	// ErrUnavailable or ctx's: the outcome is unknown until the run is read,
	// and a copy that is still on its way may yet be committed.
	Err error
}

// Shadow is the Redis copy of runs. It may forget anything at any moment.
type Shadow interface {
	// Load returns what it knows of runs; nil for a run it does not know.
	Load(ctx context.Context, runs []string) ([]*Copy, error)
	// Save writes records, each only if newer, and in the same step claims
	// and releases effects. Answers are parallel to the saves.
	Save(ctx context.Context, saves []Save) ([]Saved, error)
	// Flushed notes that the outbox of the record with this txid was
	// published.
	Flushed(ctx context.Context, hints []Hint) error
	// Tail returns items [from, to) of a log, or false if it does not hold
	// all of them.
	Tail(ctx context.Context, run, log string, from, to int) ([][]byte, bool, error)
	// Incomplete names the partitions of which not every run was written
	// since the last loss.
	Incomplete(ctx context.Context) ([]int, error)
	// BeginRebuild notes that all runs of a partition are being written. The
	// token is empty if there is nothing to do: the partition is complete, or
	// another began less than a lease ago and has not ended.
	BeginRebuild(ctx context.Context, partition int, lease time.Duration) (token string, err error)
	// SetComplete notes that they were written, unless what BeginRebuild noted
	// was lost meanwhile: then runs written before that may be, too, and it
	// notes nothing.
	SetComplete(ctx context.Context, partition int, token string) error
	// Keeps reports whether a run belongs here: an ended one does for a while.
	Keeps(r *statemachine.Stored) bool
	// Tidy drops what lists would say of runs of a partition that are gone.
	Tidy(ctx context.Context, partition int) error
}

// Copy is a record as Redis has it.
type Copy struct {
	statemachine.Stored
	Flushed string // txid of the record whose outbox is known to be published
}

// Hint names a record by its txid.
type Hint struct{ Run, Txid string }

// Save is one write of a run's record.
type Save struct {
	Stored  *statemachine.Stored
	Earlier map[string][]json.RawMessage // items of logs that records before it added, and that were not saved yet
	Claim   []string                     // ids of effects to claim, if no one holds them
	Release []string                     // ids of effects to let go, if Owner holds them
	Owner   string                       // token of this worker; a claim of the same owner is not granted twice
	Lease   time.Duration
}

// Saved tells what Save did.
type Saved struct {
	Newer   uint64 // sequence of a newer copy that was there; then nothing was written or claimed
	Granted []bool // parallel to Claim
}

// Claims are leases on effects: economy, never safety.
type Claims interface {
	// Claim takes each free effect; granted is parallel. A held one says how
	// long its lease still runs.
	Claim(ctx context.Context, claims []Claim) ([]Granted, error)
	// Renew prolongs the leases that Owner still holds, and takes again those
	// that nobody does.
	Renew(ctx context.Context, claims []Claim) error
	// Release lets go of what Owner holds.
	Release(ctx context.Context, claims []Claim) error
}

// Claim names an effect of a run and who wants it.
type Claim struct {
	Run, Effect, Owner string
	Lease              time.Duration
}

// Granted answers a claim.
type Granted struct {
	OK   bool
	Left time.Duration // if not: what is left of the other's lease
}

// Progress is where what handlers tell of attempts under way goes. Nothing
// depends on it.
type Progress interface {
	// Tell gives it away without waiting; false if it is lost, since there is
	// too much of it.
	Tell(t queue.Progress) bool
	// Flush has what was told sent soon, since no more will be of it.
	Flush()
}

// Blobs keep values over 8 KB, under the hash of their bytes, and go with
// their run.
type Blobs interface {
	// Put stores blobs that are not there yet.
	Put(ctx context.Context, run string, blobs map[string][]byte) error
	// Get returns one blob.
	Get(ctx context.Context, run, hash string) ([]byte, error)
}

// Ledger holds what business keys stand for, across runs.
type Ledger interface {
	// Claim creates the entry if the key has none, and returns the one that
	// is there, with its sequence.
	Claim(ctx context.Context, key string, e LedgerEntry) (LedgerEntry, uint64, error)
	// Settle replaces the entry that has this sequence, and returns that of
	// the new one; 0 if another was there.
	Settle(ctx context.Context, key string, seq uint64, e LedgerEntry) (uint64, error)
	// Clear forgets a key that nobody will ask for any more.
	Clear(ctx context.Context, key string) error
}

// LedgerEntry says who claimed a key, for what, and what came of it.
type LedgerEntry struct {
	Run     string
	Effect  string // effect id
	Print   string // fingerprint of what is asked
	State   LedgerState
	Result  []byte
	Try     int       // the try of the effect that claimed it; 0: by a build that did not say
	By      string    // the worker
	Until   time.Time // when that try is over at the latest; past it, and still claimed, its worker died
	Crashes int       // workers that died at tries before, one after the other
	Doubt   bool      // claimed to find out whether a try before performed it, first
}

// LedgerState says what is known of the try that claimed a key.
type LedgerState string

// The states of a ledger entry.
const (
	LedgerClaimed  LedgerState = "claimed"  // it is under way, or ended with its worker
	LedgerDone     LedgerState = "done"     // it has the result
	LedgerFailed   LedgerState = "failed"   // it did nothing; another follows
	LedgerUnknown  LedgerState = "unknown"  // it ended, and nobody knows what it did
	LedgerReleased LedgerState = "released" // its effect is given up: any run may take the key
	LedgerCleared  LedgerState = "cleared"  // a record has answered its effect; soon gone
)

// Mail publishes outboxes, and tells which of their messages are still there.
type Mail interface {
	outbox.Publisher
	// Stored reports for each effect or timer entry whether its message
	// (for a timer: its schedule, or the message it fired) is still stored.
	Stored(ctx context.Context, items []outbox.Item) ([]bool, error)
}

// Timers are the schedules that were armed by outboxes.
type Timers interface {
	// Disarm takes schedules away; the answers are parallel. It is for those
	// that a last record does not wait for: one that is not there, or has fired,
	// is no error.
	Disarm(ctx context.Context, timers []Timer) []error
	// Armed returns the schedules of a partition that were stored before a
	// time, without those that known is true for: it is asked with the tokens of
	// run and id, see queue.Token.
	Armed(ctx context.Context, partition int, before time.Time, known func(Timer) bool) ([]Timer, error)
}

// Source delivers messages.
type Source interface {
	// Fetch returns up to n messages of one queue, waiting at most wait for
	// the first. Name is a consumer's: "start", that of a line, "signal", "event", "due", or
	// "effect-" and the token of an effect type. Messages may come for a fetch
	// that has returned: they wait for the next one. With a ctx that has ended
	// it returns such messages alone, and no more will come.
	Fetch(ctx context.Context, consumer string, n int, wait time.Duration) ([]queue.Message, error)
	// Postpone schedules a copy of the message to come again at the given
	// time, and returns when that is stored; the caller acks the original.
	Postpone(ctx context.Context, m queue.Message, at time.Time, tries int) error
	// LineUp puts starts in lines, one each, and returns when that is stored,
	// with answers parallel to the messages; the caller acks the originals.
	// What it gives ErrFull for may find room later.
	LineUp(ctx context.Context, messages []queue.Message, lines []queue.Line) []error
	// Requeue gives postponed effects back to the queue that they came from,
	// and returns when that is stored, with answers parallel to the messages;
	// the caller acks the copies.
	Requeue(ctx context.Context, messages []queue.Message) []error
	// DeadLetter stores a letter for a message that no run has; it returns
	// when that is stored.
	DeadLetter(ctx context.Context, l deadletter.Letter) error
}

// Machines is the fleet's registry of definitions.
type Machines interface {
	// Register creates the entry name@version; it returns the hash that is
	// registered, which is not the one given if another came first.
	Register(ctx context.Context, name string, version int, hash string) (string, error)
	// Known reports whether any version of a machine is registered, or the
	// given one if version is not 0.
	Known(ctx context.Context, name string, version int) (bool, error)
}

// Flow is what is held up for the whole fleet, by operators and by providers.
type Flow interface {
	// Board is what is held up now; it is kept up to date.
	Board() *flow.Board
	// Post tells all workers, and returns when the notice is stored.
	Post(ctx context.Context, n flow.Notice) error
}

// Permits bound how many effects of a type and of a flow key are under way and
// begin, over all workers. They are leases: those of a worker that dies run
// out. When their store forgets, more may begin until they are renewed.
type Permits interface {
	// Take takes a permit for each effect that may begin now; the answers are
	// parallel. Who may not is told when to ask again, in about its turn.
	Take(ctx context.Context, permits []Permit) ([]Taken, error)
	// RenewPermits prolongs permits, and takes again those that were forgotten,
	// whatever the limit is.
	RenewPermits(ctx context.Context, permits []Permit) error
	// Return gives permits back.
	Return(ctx context.Context, permits []Permit) error
}

// Permit is the leave for an effect to be performed.
type Permit struct {
	Effect, Key string // effect type and flow key
	ID          string // of the effect
	Owner       string // who performs it
	Limit       flow.Limit
	Lease       time.Duration
	Took        time.Duration // when returned: how long it was in use
}

// Taken answers a Take: it is OK, or a limit was met.
type Taken struct {
	OK   bool
	Wait time.Duration // if not: when to ask again
	By   LimitKind     // … and what was met
}

// LimitKind tells which limit an effect met.
type LimitKind string

// The limits, as metrics call them.
const (
	LimitConcurrency LimitKind = "concurrency"
	LimitRate        LimitKind = "rate"
	LimitPerKey      LimitKind = "per_key"
	LimitRatePerKey  LimitKind = "rate_per_key"
)
