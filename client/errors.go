package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/api"
)

// What a call may come back with. Compare with errors.Is; errors.As with a
// *Error gives the fleet's own words.
var (
	// ErrInvalid is a request that can never be taken: a name, an id or a body
	// is none. Repeating it is of no use.
	ErrInvalid = errors.New("invalid request")
	// ErrDenied is a request that this user may not make. It names the subject
	// if it was the broker that refused.
	ErrDenied = errors.New("not permitted")
	// ErrNotFound is a run, a letter, a machine or a blob that does not exist.
	ErrNotFound = api.ErrNotFound
	// ErrConflict is a request that contradicts what is there: the id of a run
	// with another input, a run that has ended already.
	ErrConflict = errors.New("conflict")
	// ErrTooLarge is an input or an answer beyond a limit.
	ErrTooLarge = errors.New("too large")
	// ErrRefused is an input that the machine does not take; the cause says why.
	ErrRefused = errors.New("refused")
	// ErrUnavailable is a request that nobody answered, or a worker whose
	// stores are away. Its outcome is unknown; the same request may be made
	// again, with the same id.
	ErrUnavailable = errors.New("unavailable")
	// ErrInternal is a fault of the fleet. The same request may be made again.
	ErrInternal = errors.New("internal error of the fleet")
)

// Error is a call that failed. It unwraps to one of the sentinels and, where
// there is one, to what went wrong below.
type Error struct {
	Op      string // what was asked, such as "start run inv-4412"
	Code    int    // of the answer, as in HTTP; 0 if nobody answered
	Class   string // of the cause, such as id_conflict; "" if none was given
	Message string // one line for people

	kind  error // the sentinel
	below error // nil if the fleet answered
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	b.WriteString(": ")
	if e.Class != "" && !strings.HasPrefix(e.Message, e.Class+":") {
		b.WriteString(e.Class + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

func (e *Error) Unwrap() []error {
	if e.below == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.below}
}

// kindOf is the sentinel of an answer's code.
func kindOf(code int) error {
	switch code {
	case 400:
		return ErrInvalid
	case 401, 403:
		return ErrDenied
	case 404:
		return ErrNotFound
	case 409:
		return ErrConflict
	case 413:
		return ErrTooLarge
	case 422:
		return ErrRefused
	case 429, 503:
		return ErrUnavailable
	}
	return ErrInternal
}

// invalid is a request that is not worth sending.
func invalid(op string, err error) error {
	return &Error{Op: op, Message: err.Error(), kind: ErrInvalid, below: err}
}

// RunError is a run that has no result: it failed, was cancelled, or is parked
// until a person decides.
type RunError struct {
	Run *Run
}

func (e *RunError) Error() string {
	r := e.Run
	what := fmt.Sprintf("run %s %s", r.ID, r.Status)
	if !r.Status.Ended() {
		what = fmt.Sprintf("run %s is %s", r.ID, r.Status)
	} else if r.Status == StatusCancelled {
		what = fmt.Sprintf("run %s was %s", r.ID, r.Status)
	}
	if r.State != "" {
		what += " in state " + r.State
	}
	if r.Error != nil {
		what += ": " + r.Error.Class + ": " + strings.TrimPrefix(r.Error.Message, r.Error.Class+": ")
	}
	return what
}
