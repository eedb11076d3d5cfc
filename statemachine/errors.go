package statemachine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Classes of failures that come from this package. Handlers name their own.
const (
	ClassError         = "error"          // a handler's error without a class
	ClassTimeout       = "timeout"        // an attempt took too long
	ClassDeadline      = "deadline"       // a state or the run took too long
	ClassPanic         = "panic"          // a callback panicked
	ClassUnknownEffect = "unknown_effect" // a CallOf chose an effect that is not declared
	ClassUnknownState  = "unknown_state"  // the run is in a state that the machine does not have
	ClassInvalidInput  = "invalid_input"  // the input of a start, an effect or an update, or a signal's payload, does not fit its type
	ClassRefused       = "refused"        // a check on the data of a start failed, or the machine refuses an update
	ClassInvalidResult = "invalid_result" // a result does not fit its type
	ClassInvalidData   = "invalid_data"   // the machine's data cannot be encoded or decoded
	ClassTooManyMoves  = "too_many_moves" // the machine did not come to rest within one event
	ClassTooLarge      = "too_large"      // a limit on sizes, see LimitError
	ClassCancelled     = "cancelled"      // a person cancelled the run
	ClassTerminated    = "terminated"     // … and nothing was undone
	ClassPaused        = "paused"         // a person paused it
	ClassInDoubt       = "in_doubt"       // a try began, and nobody knows what came of it
	ClassCrash         = "crash"          // workers die while they perform it
	ClassConflict      = "id_conflict"    // the run exists, and is another
	ClassTooDeep       = "too_deep"       // a child of a child of …
	ClassKeyConflict   = "key_conflict"   // a business key stands for something else
	ClassUnconfirmed   = "unconfirmed"    // a fork asks what the original did not

	ClassUnknownUpdate = "unknown_update" // the machine has no such update
	ClassUnknownSignal = "unknown_signal" // the machine takes no such signal
	ClassEnding        = "run_ending"     // the run is on its way to its end, and takes no updates

	// Why an approval does not take an answer.
	ClassUnknownApproval = "unknown_approval" // the run waits for no such approval
	ClassNotAllowed      = "not_allowed"      // who answers may not
	ClassAnswered        = "already_answered" // they did before
	ClassTooLate         = "too_late"         // its time is over
	ClassShownChanged    = "shown_changed"    // they were shown something else
)

// ErrFormat is returned by Decode; the run must be left alone.
var ErrFormat = errors.New("not a record this build can read")

// FaultError is an event that the machine cannot take. Class is one of the
// classes of this package.
type FaultError struct {
	Class string
	State string // where the machine was, "" if nowhere yet
	Err   error
}

func (e *FaultError) Error() string {
	if e.State == "" {
		return fmt.Sprintf("%s: %v", e.Class, e.Err)
	}
	return fmt.Sprintf("%s in state %s: %v", e.Class, e.State, e.Err)
}

func (e *FaultError) Unwrap() error { return e.Err }

// handlerError is what a handler says about its error.
type handlerError struct {
	class    string
	terminal bool
	later    bool // spends no attempt
	untried  bool // … however often
	accepted bool // what came of it is told later
	after    time.Duration
	timed    bool // after was given
	throttle bool // everything with its flow key is to wait
	unsure   bool // it may have been performed all the same
	err      error
}

func (e *handlerError) Error() string { return e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

// Terminal is an error that no further attempt can mend: the effect is given
// up at once, and Catch sees the class.
func Terminal(class string, err error) error {
	return &handlerError{class: class, terminal: true, err: orClass(err, class)}
}

// Classed gives an error a class and leaves it to the policy when to try
// again; once the attempts are used up, Catch sees the class.
func Classed(class string, err error) error {
	return &handlerError{class: class, err: orClass(err, class)}
}

// RetryAfter is an error that asks for the next attempt after d. It spends an
// attempt.
func RetryAfter(d time.Duration, err error) error {
	return &handlerError{after: d, timed: true, err: orClass(err, ClassError)}
}

// Later says that the effect was not tried, since somebody throttles: it comes
// again after d and no attempt is spent. Zero leaves the wait to the policy.
func Later(d time.Duration, err error) error {
	return &handlerError{later: true, after: d, timed: d > 0, err: orClass(err, "throttled")}
}

// Throttled is Later for everything that has the effect's type and flow key:
// its provider wants no more of it for d, from any worker. Zero leaves the wait
// to the policy, and is for this effect alone.
func Throttled(d time.Duration, err error) error {
	return &handlerError{later: true, after: d, timed: d > 0, throttle: d > 0, err: orClass(err, "throttled")}
}

// ThrottledFor returns how long everything with the effect's type and flow key
// is to wait; false if nobody asks for that.
func ThrottledFor(err error) (time.Duration, bool) {
	if h := find(err, (*handlerError).decides); h != nil && h.throttle {
		return h.after, true
	}
	return 0, false
}

// Untried says that the effect was not even tried, since who performs it is not
// there: no attempt is spent, however often that happens. The wait is the
// policy's.
func Untried(class string, err error) error {
	return &handlerError{class: class, untried: true, err: orClass(err, class)}
}

// Unsure says of an error that the effect may have been performed all the
// same: what was asked for may have arrived, though no answer did. It matters to
// effects that are not simply repeated when in doubt.
func Unsure(err error) error {
	return &handlerError{unsure: true, err: orClass(err, ClassError)}
}

// orClass stands in for a nil error, so that no failure turns into a success.
func orClass(err error, class string) error {
	if err == nil {
		return errors.New(class)
	}
	return err
}

// ClassOf returns the class of an error: the outermost that was given one,
// ClassTimeout for a deadline, else ClassError. It is "" for nil.
func ClassOf(err error) string {
	if err == nil {
		return ""
	}
	if h := find(err, func(h *handlerError) bool { return h.class != "" }); h != nil {
		return h.class
	}
	var fault *FaultError
	var limit *LimitError
	switch {
	case errors.As(err, &fault):
		return fault.Class
	case errors.As(err, &limit):
		return ClassTooLarge
	case errors.Is(err, context.DeadlineExceeded):
		return ClassTimeout
	}
	return ClassError
}

// IsTerminal reports whether no further attempt can help.
func IsTerminal(err error) bool {
	h := find(err, (*handlerError).decides)
	return h != nil && h.terminal
}

// IsLater reports whether the effect was not tried: no attempt is spent.
func IsLater(err error) bool {
	h := find(err, (*handlerError).decides)
	return h != nil && h.later
}

// IsUntried reports whether the effect was not even tried.
func IsUntried(err error) bool {
	h := find(err, (*handlerError).decides)
	return h != nil && h.untried
}

// IsUnsure reports whether the effect may have been performed all the same.
func IsUnsure(err error) bool {
	return find(err, func(h *handlerError) bool { return h.unsure }) != nil
}

// RetryAfterOf returns the wait that the error asks for.
func RetryAfterOf(err error) (time.Duration, bool) {
	if h := find(err, (*handlerError).decides); h != nil && h.timed {
		return h.after, true
	}
	return 0, false
}

// decides reports whether the error says how to go on; the outermost that does
// wins.
func (e *handlerError) decides() bool {
	return e.terminal || e.later || e.untried || e.accepted || e.timed
}

// find returns the outermost handler error that is as wanted, or nil.
func find(err error, wanted func(*handlerError) bool) *handlerError {
	if h, ok := err.(*handlerError); ok && wanted(h) {
		return h
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return find(inner, wanted)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if h := find(inner, wanted); h != nil {
				return h
			}
		}
	}
	return nil
}
