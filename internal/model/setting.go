package model

// Signal is what the signal message of a setting means to the run.
type Signal uint8

// The signals of a setting.
const (
	NoSignal           Signal = iota
	NeutralSignal             // applied, asks nothing
	AskingSignal              // asks for e3
	CancellingSignal          // cancels what is pending
	CompensatingSignal        // cancels, and asks for e3, which compensates
	PausingSignal             // pauses the run; who has seen that resumes it
	UnwindingSignal           // ends the run: what is under way is waited for, then e3 undoes it
)

func (s Signal) asks() bool        { return s == AskingSignal || s == CompensatingSignal }
func (s Signal) cancels() bool     { return s == CancellingSignal || s == CompensatingSignal }
func (s Signal) compensates() bool { return s == CompensatingSignal }

// Setting is one bounded world to search: what the run does, what may go
// wrong, how often, and which safeguard is missing, if any.
type Setting struct {
	Name      string // as in docs/model.md
	Steps     int    // effects asked one after the other, 1 to 3
	Mixed     bool   // each effect is asked inline or queued, at will; else inline
	Duplicate bool   // the start comes under a second message id too
	Signal    Signal // a signal comes at any time
	Fold      bool   // two events may share a record

	Budget     Budget
	Sweeper    bool // the sweeper runs; it converts as often as Budget has it
	StaleReads bool // loading from HISTORY may miss the last record

	Flaw   Flaw     // the safeguard removed
	Breaks Property // what the search must find; None: it must hold
	Least  int      // states a whole search meets at least
}

// Flaw is one safeguard removed from the protocol, to see that the search
// would notice.
type Flaw uint8

// The flaws. The comments name the rule each breaks.
const (
	Sound             Flaw = iota
	WakeOfHeld             // wake of what follows is the cause, not the message held
	WakeOfHeldInline       // likewise, of what follows an inline effect
	WakeBySequence         // wake is an event id, not a stream message
	InheritQueuedWake      // what follows a queued effect has that effect as wake
	ZombieKeepsWake        // the place in the record decides the wake, not who answers
	AckOwn                 // M is held until no inline effect has it as wake
	AckXEarly              // so is X
	AckIfClaimed           // never acked because another worker has the claim
	NoResume               // a redelivered wake resumes what is pending
	ResumeLastOnly         // pending work of older records counts as well
	LoserAcks              // never acked because another worker won the append
	TrustOldCopy           // a copy older than asked may not say "not pending"
	NoForcedRead           // such a copy forces a read of HISTORY
	AskedOfQuestion        // asked is the record whose outbox X stands in
	TakeOlderCopy          // a lane takes no copy older than what it has seen
	NoExpectation          // an append expects the loaded sequence
	NoPendingCheck         // an outcome is applied only while its effect is pending
	FoldOnLoaded           // each event of a fold is checked against what it meets
	NoFlush                // the outbox is out before the next append
	AckBeforeFlush         // and before the ack
	UnnamedHint            // the hint names its record
	DrainAcks              // a drain acks only after the converting record
	LetGoFresh             // nobody lets go of another's effects within G
	NoGrace                // F and G
	NoClaims               // nobody calls without a claim, or one that follows within G
	ClaimAtLeisure         // it does follow
	LookThenClaim          // claim first, then look
	NoLook                 // look at all
	StaleLook              // the look is a leader read
	ReleaseAtReturn        // the claim goes after the record
	CallBeforeRecord       // a call comes after the PubAck of what asks for it
	CompensateAtOnce       // a compensation first closes the cancelled key
	CountAnyFailure        // a failure counts only for the attempt that is under way
	RetryInline            // a result that meets its effect in retry asks queued only
	RetryKeepsWake         // likewise; what follows inherits the wake from before the retry
	SameIDNextAttempt      // X of the second attempt has an id of its own
	ResumeKeepsAsked       // asked of the X of a resume is the resume's record
	ResumeFresh            // nobody resumes within G of what the pause held
	ResumeRestores         // a resume queues what was inline before the pause
	UndoAtOnce             // what is under way has an outcome before e3 is asked for
	flaws
)
