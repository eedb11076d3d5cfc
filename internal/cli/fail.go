package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pawlrun/pawl/api"
)

// The exit codes.
const (
	OK      = 0
	Failure = 1 // also: not found
	Usage   = 2 // the command line is wrong
)

// Error is an error with advice.
type Error struct {
	Err  error
	Hint string // what to do about it
	Code int    // exit code; 0 is Failure
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// UsageErrorf is an error of the command line.
func UsageErrorf(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Code: Usage}
}

// ErrSilent ends a command with Failure when all has been said.
var ErrSilent = errors.New("failed")

// Report writes an error as one line, "tool: what (hint)", and returns the
// exit code for it.
func Report(w io.Writer, tool string, err error) int {
	if err == nil {
		return OK
	}
	if errors.Is(err, ErrSilent) {
		return Failure
	}
	code, hint := Failure, ""
	if e, ok := errors.AsType[*Error](err); ok {
		hint = e.Hint
		if e.Code != 0 {
			code = e.Code
		}
	}
	text := err.Error()
	switch {
	case errors.Is(err, context.Canceled):
		text, hint = "interrupted", ""
	case errors.Is(err, context.DeadlineExceeded) && hint == "":
		hint = "allow more time with --timeout"
	case errors.Is(err, api.ErrNotFound) && hint == "":
		hint = "is it the right fleet? -s URL, --prefix"
	}
	line := tool + ": " + oneLine(text)
	if hint != "" {
		line += " (" + oneLine(hint) + ")"
	}
	fmt.Fprintln(w, line)
	return code
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
