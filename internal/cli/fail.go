package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pawlrun/pawl/api"
)

// The exit codes that every tool has.
const (
	OK          = 0
	Failure     = 1   // also: not found
	Usage       = 2   // the command line is wrong
	Interrupted = 130 // by a signal, as shells count it: 128 + SIGINT
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

// ErrSilent ends a command when all has been said: with Failure, or with the
// code of the Error around it.
var ErrSilent = errors.New("failed")

// JSONErrorf is about a text that should be JSON and is not; why is what the
// decoder says. It names line and column, both from 1.
func JSONErrorf(where string, text []byte, why error) error {
	hint := where
	if e, ok := errors.AsType[*json.SyntaxError](why); ok {
		at := int(e.Offset) // bytes that were read, the wrong one included
		if at < len(text) || !strings.HasPrefix(e.Error(), "unexpected end") {
			at--
		}
		before := string(text[:min(max(0, at), len(text))])
		line := strings.Count(before, "\n") + 1
		column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
		hint = fmt.Sprintf("%s, line %d, column %d", where, line, column)
	}
	return UsageErrorf(hint, "the input is not JSON: %w", why)
}

// Report writes an error as one line, "tool: what (hint)", and returns the
// exit code for it.
func Report(w io.Writer, tool string, err error) int {
	if err == nil {
		return OK
	}
	code, hint := Failure, ""
	if e, ok := errors.AsType[*Error](err); ok {
		hint = e.Hint
		if e.Code != 0 {
			code = e.Code
		}
	}
	if errors.Is(err, ErrSilent) {
		return code
	}
	text := err.Error()
	switch {
	case errors.Is(err, context.Canceled):
		text, hint, code = "interrupted", "", Interrupted
	case errors.Is(err, context.DeadlineExceeded) && hint == "":
		hint = "allow more time with --timeout"
	case errors.Is(err, api.ErrNotFound) && hint == "":
		hint = "is it the right fleet? -s URL, --prefix"
	}
	line := tool + ": " + Clean(text)
	if hint != "" {
		line += " (" + Clean(hint) + ")"
	}
	fmt.Fprintln(w, line)
	return code
}
