package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// hashRE is the grammar of blobs' hashes.
var hashRE = regexp.MustCompile(`^[A-Za-z0-9_=-]{1,128}$`)

const (
	maxBody   = 900 << 10 // bytes of an input
	maxID     = 256       // bytes of the id of a signal or a command
	maxText   = 256       // bytes of any other text that selects something
	maxReason = 2 << 10   // bytes of the reason of a command
	maxWhere  = 16        // fields of a filter
)

// decode reads a request strictly: a field that is not known is a mistake of
// the caller, who would else be answered something they did not ask for. No
// body is a request without fields.
func decode(body []byte, v any) error {
	if !utf8.Valid(body) {
		return badf("the request is not UTF-8")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return badf("the request is more than one JSON object")
		}
		return nil
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return badf("the request is not JSON: %s at byte %d", err, syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badf("the request is not JSON: it ends too early")
	case errors.As(err, &kind) && kind.Field == "":
		return badf("the request is a JSON %s, not an object", kind.Value)
	case errors.As(err, &kind):
		return badf("the request's field %s cannot be a JSON %s", quoted(kind.Field), kind.Value)
	}
	return badf("the request: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// faults gathers what is wrong with a request, so that all is said at once.
type faults []string

func (f *faults) add(err error) {
	if err != nil {
		*f = append(*f, err.Error())
	}
}

func (f *faults) addf(format string, a ...any) { f.add(fmt.Errorf(format, a...)) }

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return badf("%s", strings.Join(f, "; "))
}

// run checks the id of a run.
func (f *faults) run(id string) { f.add(queue.CheckRun(id)) }

// name checks the name of a machine or a signal.
func (f *faults) name(what, name string) {
	if !queue.IsName(name) {
		f.addf("%s %s is not %s", what, quoted(name), queue.NameGrammar)
	}
}

// text checks a text that selects something.
func (f *faults) text(what, text string, most int) {
	if len(text) > most {
		f.addf("%s has %d bytes, over %d", what, len(text), most)
	}
}

// header checks a text that goes into a header, which would not carry all of
// them as they are.
func (f *faults) header(what, text string) {
	if !queue.FitsHeader(text) {
		f.addf("%s %s has control characters, or blanks at its ends", what, quoted(text))
	}
}

// limit checks the length of a page, and sets its default.
func (f *faults) limit(n *int, usual int) {
	switch {
	case *n < 0 || *n > MaxPage:
		f.addf("limit %d is not 1 to %d", *n, MaxPage)
	case *n == 0:
		*n = usual
	}
}

// timeout checks how long somebody will wait.
func (f *faults) timeout(d *statemachine.Duration, usual time.Duration) time.Duration {
	if d == nil {
		return usual
	}
	v := time.Duration(*d)
	if v < 0 || v > MaxWait {
		f.addf("timeout %s is not 0s to %s", v, MaxWait)
	}
	return v
}
