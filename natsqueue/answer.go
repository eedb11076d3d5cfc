package natsqueue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/worker"
)

// Error codes of JetStream that steer what is done next.
const (
	codeTooManyInAccount  = 10002
	codeNotFound          = 10037
	codeNoSpaceStorage    = 10047
	codeNoSpaceMemory     = 10028
	codeInsufficient      = 10023
	codeTooLarge          = 10054
	codeStreamNotFound    = 10059
	codeWrongLast         = 10071
	codeStoreFailed       = 10077
	codeHeaderTooLarge    = 10097
	codeSealed            = 10109
	codeStreamMaxBytes    = 10122
	codeNotReady          = 10163
	codeWrongLastConstant = 10164
)

// verdict is what an answer to a publish says.
type verdict int

const (
	stored     verdict = iota // it is stored
	refused                   // wrong last sequence: another record is there, or this one already
	tooLarge                  // it can never be stored
	noRoom                    // the stream takes nothing, and says so
	unsure                    // no answer, or one that promises nothing
	impossible                // the broker refuses for a reason of its own
)

// ack is the answer to a publish.
type ack struct {
	verdict verdict
	seq     uint64
	count   int // of a batch
	why     error
}

// apiError is an error as JetStream words it.
type apiError struct {
	HTTP        int    `json:"code"`
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.Code) }

var (
	errSilent     = errors.New("no answer")
	errNoResponse = errors.New("no stream takes it: no leader, or no such stream")
)

// readAck reads the answer to a publish; nil stands for none.
func readAck(m *nats.Msg) ack {
	if m == nil {
		return ack{verdict: unsure, why: errSilent}
	}
	if len(m.Data) == 0 {
		return ack{verdict: unsure, why: errNoResponse}
	}
	if seq, ok := quickAck(m.Data); ok {
		return ack{verdict: stored, seq: seq}
	}
	var a struct {
		Error *apiError `json:"error"`
		Seq   uint64    `json:"seq"`
		Count int       `json:"count"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return ack{verdict: unsure, why: fmt.Errorf("answer to a publish: %w", err)}
	}
	if a.Error == nil && a.Seq == 0 {
		return ack{verdict: unsure, why: errors.New("answer to a publish without a sequence")}
	}
	if a.Error == nil {
		return ack{verdict: stored, seq: a.Seq, count: a.Count}
	}
	return ack{verdict: verdictOf(a.Error), why: a.Error}
}

// verdictOf sorts the broker's errors.
func verdictOf(e *apiError) verdict {
	switch e.Code {
	case codeWrongLast, codeWrongLastConstant:
		return refused
	case codeTooLarge, codeHeaderTooLarge:
		return tooLarge
	case codeNoSpaceStorage, codeNoSpaceMemory, codeInsufficient, codeTooManyInAccount,
		codeStoreFailed, codeSealed, codeStreamMaxBytes:
		return noRoom
	}
	// What is not of the client's making passes: no leader, too many requests,
	// an id in process, a batch given up.
	if e.HTTP >= 500 || e.HTTP == 409 || e.HTTP == 429 {
		return unsure
	}
	return impossible
}

// quickAck reads the plain acknowledgement {"stream":"…","seq":n}, which is
// nearly all of them.
func quickAck(b []byte) (uint64, bool) {
	const seq = `,"seq":`
	if !bytes.HasPrefix(b, []byte(`{"stream":"`)) || b[len(b)-1] != '}' {
		return 0, false
	}
	i := bytes.LastIndex(b, []byte(seq))
	if i < 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b[i+len(seq):len(b)-1])), 10, 64)
	return n, err == nil && n > 0
}

// sendError sorts the errors of handing a message to the connection. None of
// them lets the message out.
func sendError(err error) ack {
	if errors.Is(err, nats.ErrMaxPayload) {
		return ack{verdict: tooLarge, why: err}
	}
	return ack{verdict: unsure, why: err}
}

// unavailable wraps worker.ErrUnavailable with what was tried and why it did
// not work.
func unavailable(what string, why error) error {
	return fmt.Errorf("%s: %w: %w", what, worker.ErrUnavailable, why)
}
