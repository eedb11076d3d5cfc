package natsqueue

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

// The headers of messages. Those with "Nats-" are the broker's.
const (
	headerRun      = "Pawl-Run-Id"
	headerVersion  = "Pawl-Machine-Version"
	headerPriority = "Pawl-Priority"
	headerTenant   = "Pawl-Tenant"
	headerStartAt  = "Pawl-Start-At"
	headerSignal   = "Pawl-Signal-Id"
	headerEvent    = "Pawl-Event-Id"
	headerName     = "Pawl-Event-Name"
	headerTries    = "Pawl-Tries"
	headerBefore   = "Pawl-Before"
	headerPlace    = "Pawl-Place"   // of a start in line: what it was in the queue that it came from
	headerRedrive  = "Pawl-Redrive" // of a start or signal that was dead-lettered: how often it was re-driven, and its letter
	headerTxid     = "Pawl-Txid"
	headerRev      = "Pawl-Rev"
	headerMachine  = "Pawl-Machine"
	headerStatus   = "Pawl-Status"
	headerAsked    = "Pawl-Asked"
	headerParent   = "Pawl-Parent" // of what a run sends to its child: who it is, in JSON

	headerMsgID    = "Nats-Msg-Id"
	headerExpected = "Nats-Expected-Last-Subject-Sequence"
	headerTTL      = "Nats-TTL"
	headerRollup   = "Nats-Rollup"

	headerSchedule = "Nats-Schedule"
	headerTarget   = "Nats-Schedule-Target"

	headerBatchID     = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"

	headerSubject  = "Nats-Subject"
	headerStream   = "Nats-Stream"
	headerSequence = "Nats-Sequence"
	headerTime     = "Nats-Time-Stamp"
	headerPending  = "Nats-Num-Pending"
	headerUpTo     = "Nats-UpTo-Sequence"
	headerState    = "Status" // of an answer that is no message, as nats.go names it
)

// encoded begins a header value that is not written as it is.
const encoded = "base64:"

// headerValue is how text appears in a header: as it is, unless a header
// cannot carry it (a newline would end it, blanks at its ends would go) or it
// looks like what this function makes. textOf turns it back.
func headerValue(text string) string {
	if plain(text) {
		return text
	}
	return encoded + base64.StdEncoding.EncodeToString([]byte(text))
}

// textOf is the text that headerValue was given.
func textOf(value string) (string, error) {
	b64, ok := strings.CutPrefix(value, encoded)
	if !ok {
		return value, nil
	}
	b, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		return "", fmt.Errorf("header value %s: %w", quoted(value), err)
	}
	return string(b), nil
}

// plain reports whether a header carries the text unchanged, to any client.
func plain(text string) bool {
	if text != strings.TrimSpace(text) || strings.HasPrefix(text, encoded) || !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// headersOf copies the headers of a message, the first value of each. Those
// that are the fleet's to write are left out: a producer's say nothing. Those
// that are a producer's to write may come in any case, since a start whose id
// is spelled "pawl-run-id" is not a start without one.
func headersOf(m *nats.Msg) map[string]string {
	if len(m.Header) == 0 {
		return nil
	}
	h := make(map[string]string, len(m.Header))
	for k, v := range m.Header {
		if len(v) == 0 || internal(k) {
			continue
		}
		name := spelled(k)
		if _, taken := h[name]; !taken || name == k {
			h[name] = v[0]
		}
	}
	return h
}

// spelled is how a header that producers write is spelled here.
func spelled(name string) string {
	name = strings.TrimSpace(name)
	for _, known := range []string{headerRun, headerVersion, headerPriority, headerTenant, headerStartAt, headerSignal, headerEvent, headerName, headerMsgID} {
		if strings.EqualFold(name, known) {
			return known
		}
	}
	return name
}

// internal reports whether a header is the fleet's own bookkeeping, which goes
// with no message that is handed out or kept. Clients may spell it in any case.
func internal(name string) bool {
	return strings.EqualFold(name, headerTries) || strings.EqualFold(name, headerBefore) || strings.EqualFold(name, headerPlace) || strings.EqualFold(name, headerRedrive)
}

// redriveValue says which letter a message was re-driven from, and how often
// that was done.
func redriveValue(letter string, redrives int) string {
	return strconv.Itoa(redrives) + " " + headerValue(letter)
}

// redriveOf reads what redriveValue wrote. What is none says nothing.
func redriveOf(value string) (letter string, redrives int) {
	n, id, ok := strings.Cut(value, " ")
	redrives, err := strconv.Atoi(n)
	if !ok || err != nil || redrives < 1 {
		return "", 0
	}
	if letter, err = textOf(id); err != nil || letter == "" || len(letter) > 2*mostID {
		return "", 0
	}
	return letter, redrives
}

// ttl is a duration as Nats-TTL has it: whole seconds, at least one.
func ttl(d time.Duration) string {
	return strconv.FormatInt(max(1, int64(d/time.Second)), 10) + "s"
}

// outward is headers without the internal ones; the same map if there are none.
func outward(h map[string]string) map[string]string {
	var out map[string]string
	for k := range h {
		if internal(k) {
			if out == nil {
				out = maps.Clone(h)
			}
			delete(out, k)
		}
	}
	if out == nil {
		return h
	}
	return out
}
