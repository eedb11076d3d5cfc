package api

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Role is what a caller must be allowed to do for a verb. It is a token of the
// verb's subject, so the server's permissions can grant it.
type Role string

// The roles.
const (
	RoleView    Role = "view"    // reads
	RoleProduce Role = "produce" // starts runs, and sends them signals and updates
	RoleDecide  Role = "decide"  // decides what runs ask people
	RoleOperate Role = "operate" // cancels, pauses, resumes, retries and forks them, changes letters, and holds effects up
)

// Verb is what is asked for: <noun>.<verb>, the end of its subject.
type Verb string

// The verbs. The comment names the types of the request and the answer.
const (
	RunsGet        Verb = "runs.get"        // RunQuery → Run
	RunsList       Verb = "runs.list"       // RunsQuery → Listing
	RunsHistory    Verb = "runs.history"    // HistoryQuery → HistoryPage
	RunsWait       Verb = "runs.wait"       // WaitQuery → Waited
	RunsExplain    Verb = "runs.explain"    // ExplainQuery → Explanation
	RunsReplay     Verb = "runs.replay"     // ReplayQuery → Replayed
	RunsDiff       Verb = "runs.diff"       // DiffQuery → Diff
	RunsAsk        Verb = "runs.query"      // Question → Answer
	RunsStart      Verb = "runs.start"      // StartRequest → Started
	RunsSignal     Verb = "runs.signal"     // SignalRequest → Told
	RunsUpdate     Verb = "runs.update"     // UpdateRequest → Told
	RunsFork       Verb = "runs.fork"       // ForkRequest → Forked
	RunsConfirm    Verb = "runs.confirm"    // CommandRequest → Told
	RunsCancel     Verb = "runs.cancel"     // CommandRequest → Told
	RunsTerminate  Verb = "runs.terminate"  // CommandRequest → Told
	RunsPause      Verb = "runs.pause"      // CommandRequest → Told
	RunsResume     Verb = "runs.resume"     // CommandRequest → Told
	RunsRetry      Verb = "runs.retry"      // CommandRequest → Told
	RunsResolve    Verb = "runs.resolve"    // CommandRequest → Told
	MachinesList   Verb = "machines.list"   // nothing → MachineList
	MachinesGet    Verb = "machines.get"    // MachineQuery → Machine
	LettersList    Verb = "letters.list"    // LettersQuery → LetterPage
	LettersGet     Verb = "letters.get"     // LetterQuery → Letter
	LettersPlan    Verb = "letters.plan"    // LettersChange → LettersReport
	LettersRedrive Verb = "letters.redrive" // LettersChange → LettersReport
	LettersDiscard Verb = "letters.discard" // LettersChange → LettersReport
	StreamsGet     Verb = "streams.get"     // nothing → StreamList
	BlobsGet       Verb = "blobs.get"       // BlobQuery → BlobPiece
	FlowGet        Verb = "flow.get"        // nothing → FlowList
	FlowHold       Verb = "flow.hold"       // FlowRequest → flow.Notice
	FlowRelease    Verb = "flow.release"    // FlowRequest → flow.Notice
)

// Verbs lists the verbs.
func Verbs() []Verb {
	return []Verb{
		RunsGet, RunsList, RunsHistory, RunsWait, RunsExplain, RunsReplay, RunsDiff, RunsAsk, RunsStart, RunsSignal, RunsUpdate, RunsCancel, RunsTerminate, RunsPause, RunsResume, RunsRetry, RunsResolve, RunsFork, RunsConfirm,
		ApprovalsGet, ApprovalsDecide, ApprovalsDelegate,
		MachinesList, MachinesGet, LettersList, LettersGet, LettersPlan, LettersRedrive, LettersDiscard, StreamsGet, BlobsGet, FlowGet, FlowHold, FlowRelease,
	}
}

// Role is the role that the verb needs; view for a verb that is none.
func (v Verb) Role() Role {
	switch v {
	case RunsStart, RunsSignal, RunsUpdate:
		return RoleProduce
	case ApprovalsDecide, ApprovalsDelegate:
		return RoleDecide
	case RunsCancel, RunsTerminate, RunsPause, RunsResume, RunsRetry, RunsResolve, RunsFork, RunsConfirm, LettersRedrive, LettersDiscard, FlowHold, FlowRelease:
		return RoleOperate
	}
	return RoleView
}

// ServiceName is the name under which the instances of the control API are
// found, and ServiceGroup the queue group in which they share requests.
const (
	ServiceName  = "pawl"
	ServiceGroup = "pawl-api"
)

// Subject is where a verb is asked for: <prefix>.api.<role>.<noun>.<verb>. With
// a user it is <prefix>.api.as.<user>.<role>.<noun>.<verb>: the server's
// permissions allow a user that subject with its own name only, so the name is
// verified. A user is one token of a subject.
func Subject(prefix, user string, v Verb) string {
	if user != "" {
		return prefix + ".api.as." + user + "." + string(v.Role()) + "." + string(v)
	}
	return prefix + ".api." + string(v.Role()) + "." + string(v)
}

// CheckUser says what is wrong with the name of a user: it is one token of a
// subject.
func CheckUser(user string) error {
	if user == "" || len(user) > maxUser || strings.ContainsAny(user, ".*> \t\r\n") {
		return badf("user %s is not one token of a subject, of at most %d bytes", quoted(user), maxUser)
	}
	return nil
}

// The headers of an answer that is an error, as micro services have them, with
// the code and the message of an Error. Its body is the Error as JSON.
const (
	HeaderCode  = "Nats-Service-Error-Code"
	HeaderError = "Nats-Service-Error"
)

// What bounds requests and answers.
const (
	MaxAnswer = 512 << 10 // bytes of an answer
	MaxPiece  = 256 << 10 // bytes of a blob in one answer
	MaxWait   = 30 * time.Second
	MaxPage   = 1000 // rows, revisions or letters of a page

	maxUser = 64
)

// RunQuery asks for a run.
type RunQuery struct {
	ID string `json:"id"`
	// Items is how many of the last items of each log are wanted; AllItems: all.
	Items int `json:"items,omitempty"`
}

// Source says where a list of runs is to be made from.
type Source string

// The sources.
const (
	SourceAny     Source = ""        // the index, or HISTORY if there is none, or it is away
	SourceIndex   Source = "index"   // Redis: fast; what it has lost, the answer says
	SourceHistory Source = "history" // the records: always complete; costs a read of the whole fleet
)

// RunsQuery asks for a page of the runs that a filter selects; what is absent
// is not looked at.
type RunsQuery struct {
	Machine string              `json:"machine,omitempty"`
	State   string              `json:"state,omitempty"`
	Status  statemachine.Status `json:"status,omitempty"`
	Where   map[string]string   `json:"where,omitempty"`  // index fields and their values
	Since   time.Time           `json:"since,omitzero"`   // moved at or after it
	Until   time.Time           `json:"until,omitzero"`   // moved before it
	Cursor  string              `json:"cursor,omitempty"` // Listing.Next of the page before, of the same filter
	Limit   int                 `json:"limit,omitempty"`  // at most MaxPage; default 50
	// Approver selects runs that wait for what they may decide and have not
	// answered yet; Anybody: for any approval. The rows say which.
	Approver string `json:"approver,omitempty"`
	Source   Source `json:"source,omitempty"`
}

// HistoryQuery asks for revisions of a run, oldest first.
type HistoryQuery struct {
	ID    string `json:"id"`
	After uint64 `json:"after,omitempty"` // with a stream sequence above it
	Limit int    `json:"limit,omitempty"` // at most MaxPage; default 100
}

// HistoryPage is a page of a run's revisions.
type HistoryPage struct {
	Revisions []*Revision `json:"revisions"`
	Next      uint64      `json:"next,omitempty"` // for After of the next page; 0: there is none yet
}

// WaitQuery asks for a run once something happened to it.
type WaitQuery struct {
	ID      string                 `json:"id"`
	Timeout *statemachine.Duration `json:"timeout,omitempty"` // at most MaxWait, which is the default; 0: nothing is waited for
	// Revision is the last one the caller knows: a later one is answered at
	// once. 0: only the end is waited for.
	Revision uint64 `json:"revision,omitempty"`
}

// Waited answers a WaitQuery. The run has no logs.
type Waited struct {
	Run   *Run `json:"run"`
	Ended bool `json:"ended"` // no event can move the run any more
}

// StartRequest asks for a run. The same start may be asked for again: a run
// with its id, machine and input is the same run. Who began it is told as far
// as it is known: a start that had to be sent twice finds the run that its
// first try began, and is answered OutcomeExists.
type StartRequest struct {
	Machine string          `json:"machine"`
	ID      string          `json:"id,omitempty"`      // of the run, at most 256 bytes; one is made if it is absent
	Version int             `json:"version,omitempty"` // of the machine; default: the highest
	Input   json.RawMessage `json:"input,omitempty"`   // default {}
	// Priority and Tenant say when the run begins if not all can at once.
	Priority queue.Priority `json:"priority,omitempty"` // high, normal (the default) or low
	Tenant   string         `json:"tenant,omitempty"`   // whose run it is, at most 256 bytes
	// At is when the run is to begin, at most ten years ahead; default: at once.
	// It exists from now on, and can be looked at and cancelled.
	At *time.Time `json:"at,omitempty"`
	// Timeout is how long the outcome is waited for; 0s: not at all. Default
	// 3 s, at most MaxWait.
	Timeout *statemachine.Duration `json:"timeout,omitempty"`
}

// Outcome says what became of a request by the time it was answered.
type Outcome string

// The outcomes.
const (
	// OutcomeAccepted: the request is stored and will be carried out. That has
	// not happened yet, or could not be seen.
	OutcomeAccepted  Outcome = "accepted"
	OutcomeCreated   Outcome = "created"   // the run began with this start
	OutcomeExists    Outcome = "exists"    // the run began with the same start; perhaps an earlier try of this one
	OutcomeApplied   Outcome = "applied"   // a record of the run has it
	OutcomeDuplicate Outcome = "duplicate" // a record of the run had it before
)

// Started answers a StartRequest.
type Started struct {
	ID       string              `json:"id"`
	Outcome  Outcome             `json:"outcome"`          // created, exists or accepted
	Status   statemachine.Status `json:"status,omitempty"` // of the run, unless accepted
	Revision uint64              `json:"revision,omitempty"`
	// Note says why it may take long, if that is known: accepted only.
	Note string `json:"note,omitempty"`
}

// SignalRequest tells a run something from outside.
type SignalRequest struct {
	ID       string                 `json:"id"` // of the run
	Name     string                 `json:"name"`
	SignalID string                 `json:"signal_id,omitempty"` // the same is applied once; one is made if it is absent
	Body     json.RawMessage        `json:"body,omitempty"`
	Timeout  *statemachine.Duration `json:"timeout,omitempty"` // as in StartRequest
}

// UpdateRequest tells a run something that its machine answers.
type UpdateRequest struct {
	ID       string                 `json:"id"` // of the run
	Name     string                 `json:"name"`
	UpdateID string                 `json:"update_id,omitempty"` // the same is answered once, with the same answer; one is made if it is absent
	By       string                 `json:"by,omitempty"`        // who says so, recorded after Unverified; for a verified caller, the caller
	Body     json.RawMessage        `json:"body,omitempty"`      // at most 64 KB
	Timeout  *statemachine.Duration `json:"timeout,omitempty"`   // as in StartRequest
}

// CommandRequest steers a run.
type CommandRequest struct {
	ID        string                 `json:"id"`                   // of the run
	RequestID string                 `json:"request_id,omitempty"` // the same is applied once; one is made if it is absent
	By        string                 `json:"by,omitempty"`         // who asks, recorded after Unverified; for a verified caller, the caller
	Reason    string                 `json:"reason,omitempty"`     // at most 2 KB
	Effect    string                 `json:"effect,omitempty"`     // retry, confirm: id of the effect; default: all. resolve: id of the effect
	To        string                 `json:"to,omitempty"`         // resume of a parked run: an exit of its state, which it takes; what was given up is left for good. Needs a reason
	Result    json.RawMessage        `json:"result,omitempty"`     // resolve: what the effect came to
	NoUndo    bool                   `json:"no_undo,omitempty"`    // cancel: at once, and what the run did stays done
	Timeout   *statemachine.Duration `json:"timeout,omitempty"`    // as in StartRequest
}

// Told answers a SignalRequest, an UpdateRequest, a CommandRequest and an
// ApprovalRequest.
type Told struct {
	ID        string              `json:"id"`
	SignalID  string              `json:"signal_id,omitempty"`
	UpdateID  string              `json:"update_id,omitempty"`
	RequestID string              `json:"request_id,omitempty"`
	Approval  string              `json:"approval,omitempty"` // id of the approval
	Outcome   Outcome             `json:"outcome"`            // applied, accepted or duplicate
	Status    statemachine.Status `json:"status"`             // of the run, as of Revision
	Revision  uint64              `json:"revision"`
	// Value is what the machine answers to an update; absent while it is accepted,
	// or if the record with the answer was removed.
	Value json.RawMessage `json:"value,omitempty"`
}

// MachineQuery asks for a machine.
type MachineQuery struct {
	Name string `json:"name"`
}

// MachineList is the machines that workers have registered, by name.
type MachineList struct {
	Machines []Machine `json:"machines"`
}

// Machine is one that workers have registered.
type Machine struct {
	Name     string           `json:"name"`
	Versions []MachineVersion `json:"versions"` // the lowest first
	// Runs is how many runs there are by status, if the index knows.
	Runs map[statemachine.Status]int `json:"runs,omitempty"`
}

// MachineVersion is a version of a machine.
type MachineVersion struct {
	Version    int       `json:"version"`
	Hash       string    `json:"hash"` // of its definition
	Registered time.Time `json:"registered"`
	// Effects are its effect types, if one machine is asked for and the worker
	// that answers has this version.
	Effects []EffectPolicy `json:"effects,omitempty"`
}

// LettersQuery asks for dead letters, oldest first; what is absent is not
// looked at.
type LettersQuery struct {
	Kind        deadletter.Kind `json:"kind,omitempty"`
	Machine     string          `json:"machine,omitempty"`
	State       string          `json:"state,omitempty"`
	Class       string          `json:"class,omitempty"`
	Effect      string          `json:"effect,omitempty"` // effect type
	Run         string          `json:"run,omitempty"`
	Fingerprint string          `json:"fingerprint,omitempty"`
	Build       string          `json:"build,omitempty"` // that gave up
	Tenant      string          `json:"tenant,omitempty"`
	Since       time.Time       `json:"since,omitzero"`  // last failure at or after it
	Until       time.Time       `json:"until,omitzero"`  // last failure before it
	After       uint64          `json:"after,omitempty"` // with a sequence above it
	Limit       int             `json:"limit,omitempty"` // at most MaxPage; default 50
}

// LetterPage is a page of letters, without their bodies: LettersGet has those.
type LetterPage struct {
	Letters    []*Letter `json:"letters"`
	Unreadable int       `json:"unreadable,omitempty"` // letters that are not given, since they cannot be read
	Next       uint64    `json:"next,omitempty"`       // for After of the next page; 0: there is none yet
}

// LetterQuery asks for a letter.
type LetterQuery struct {
	Seq uint64 `json:"seq"`
}

// StreamList is the health of the fleet's streams.
type StreamList struct {
	Streams []Stream `json:"streams"`
}

// Stream is the health of a stream.
type Stream struct {
	Name     string `json:"name"`
	Missing  bool   `json:"missing,omitempty"` // it does not exist, or not for this worker
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	// MaxMessages and MaxBytes are its limits; −1: none.
	MaxMessages int64            `json:"max_messages"`
	MaxBytes    int64            `json:"max_bytes"`
	FirstSeq    uint64           `json:"first_seq"`
	LastSeq     uint64           `json:"last_seq"`
	FirstTime   time.Time        `json:"first_time,omitzero"` // of the oldest message
	Replicas    int              `json:"replicas"`
	Leader      string           `json:"leader,omitempty"`  // of a cluster's stream; empty while there is none
	Lagging     []string         `json:"lagging,omitempty"` // replicas that are offline or behind
	Consumers   []StreamConsumer `json:"consumers,omitempty"`
}

// StreamConsumer is the health of a consumer that workers share.
type StreamConsumer struct {
	Name        string `json:"name"`
	Lag         uint64 `json:"lag"`         // messages not yet delivered
	InHand      int    `json:"in_hand"`     // delivered and not yet acked
	Redelivered int    `json:"redelivered"` // of those, delivered more than once
	Waiting     int    `json:"waiting"`     // pulls that wait for messages; 0: no worker takes any
}

// BlobQuery asks for a piece of a value that is kept apart: where an answer
// has {"$blob": hash, "size": bytes}.
type BlobQuery struct {
	Run    string `json:"run"`
	Hash   string `json:"hash"`
	Offset int64  `json:"offset,omitempty"`
}

// BlobPiece is a piece of a blob, of at most MaxPiece bytes; the last one ends
// at Total.
type BlobPiece struct {
	Bytes []byte `json:"bytes"` // base64
	Total int64  `json:"total"`
}
