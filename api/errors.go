package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pawlrun/pawl/statemachine"
)

// Error is an answer that is none.
type Error struct {
	Code    int    `json:"-"`     // as in HTTP; Nats-Service-Error-Code has it
	Class   string `json:"class"` // one of the classes, or that of a letter
	Message string `json:"error"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Is makes a not_found error ErrNotFound, and a bad_cursor one ErrCursor.
func (e *Error) Is(target error) bool {
	return target == ErrNotFound && e.Class == ClassNotFound || target == ErrCursor && e.Class == ClassCursor
}

// The classes of errors. Those of approvals and updates are in package statemachine. With 422, the class is that of the
// start's letter, unknown_machine, invalid_input and so on, or of what a machine refuses: any that its author chose.
const (
	ClassBadRequest  = "bad_request" // 400
	ClassCursor      = "bad_cursor"  // 400
	ClassForbidden   = "forbidden"   // 403
	ClassNotFound    = "not_found"   // 404
	ClassConflict    = "id_conflict" // 409: the run exists, of another machine or with another input
	ClassEnded       = "run_ended"   // 409
	ClassTooLarge    = "too_large"   // 413: the request, or what it asks for
	ClassBusy        = "busy"        // 503: too much is asked at once; ask again
	ClassTimeout     = "timeout"     // 503: not done in time; ask again
	ClassUnavailable = "unavailable" // 503: a store is away
	ClassFull        = "full"        // 503: a queue has no room: nothing was stored; ask again later
	ClassInternal    = "internal"    // 500: a fault of ours

	ClassInFlight       = "in_flight"       // 409: an effect is under way, so nothing can begin there
	ClassUnknownMachine = "unknown_machine" // 422: who answers does not have the machine, or not in this version
)

// CodeOf is the code of a class.
func CodeOf(class string) int {
	switch class {
	case ClassBadRequest, ClassCursor:
		return 400
	case ClassForbidden, statemachine.ClassNotAllowed:
		return 403
	case ClassNotFound, statemachine.ClassUnknownApproval:
		return 404
	case ClassConflict, ClassEnded, statemachine.ClassEnding, statemachine.ClassAnswered, statemachine.ClassTooLate, statemachine.ClassShownChanged, ClassInFlight:
		return 409
	case ClassTooLarge:
		return 413
	case ClassBusy, ClassTimeout, ClassUnavailable, ClassFull:
		return 503
	case ClassInternal:
		return 500
	}
	return 422
}

func errorf(class, format string, a ...any) *Error {
	return &Error{Code: CodeOf(class), Class: class, Message: fmt.Sprintf(format, a...)}
}

func badf(format string, a ...any) *Error { return errorf(ClassBadRequest, format, a...) }

// ErrorOf is what an error of a store is to a caller.
func ErrorOf(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, ErrNotFound):
		return errorf(ClassNotFound, "%s", err)
	case errors.Is(err, ErrCursor):
		return errorf(ClassCursor, "%s", err)
	case errors.Is(err, ErrUnknownMachine):
		return errorf(ClassUnknownMachine, "%s", err)
	case errors.Is(err, ErrTooLarge):
		return errorf(ClassTooLarge, "%s", err)
	case errors.Is(err, ErrFull):
		return errorf(ClassFull, "%s", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errorf(ClassTimeout, "not done in time: %s", err)
	case errors.Is(err, statemachine.ErrFormat):
		return errorf(ClassInternal, "%s", err)
	}
	return errorf(ClassUnavailable, "%s", err)
}

// quoted is a name for an error message, of bounded length.
func quoted(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(s[:most]), len(s))
	}
	return strconv.Quote(s)
}
