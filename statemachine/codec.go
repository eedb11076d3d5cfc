package statemachine

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// txidSize is the number of characters of a txid: 128 bits in base64url.
const txidSize = 22

// blankTxid stands in a record's bytes while its txid is computed over them.
var blankTxid = strings.Repeat(".", txidSize)

// txidKey precedes the txid in a record's bytes. No string can contain it
// (its quotes would be escaped) and only plain fields come before it, so the
// first one is the record's own.
const txidKey = `"txid":"`

// Encode sets the record's txid and returns its encoded form. The bytes are
// the record: what is appended, compared and hashed.
func Encode(r *Record) ([]byte, error) {
	b, err := encode(r)
	if err == nil && !json.Valid(b) {
		err = fmt.Errorf("encode record %d of run %q: a value in it is not JSON", r.Rev, r.Run)
	}
	return b, err
}

// encode is Encode for a record all of whose values are known to be JSON.
func encode(r *Record) ([]byte, error) {
	r.Txid = blankTxid
	a := &appender{b: make([]byte, 0, encodedSize(r))}
	writeRecord(a, r)
	at := txidAt(a.b)
	if a.err != nil {
		return nil, fmt.Errorf("encode record %d of run %q: %w", r.Rev, r.Run, a.err)
	}
	r.Txid = sumTxid(a.b)
	copy(a.b[at:], r.Txid)
	return a.b, nil
}

// encodedSize is a guess at the size of an encoded record.
func encodedSize(r *Record) int {
	n := 768 + len(r.Data)
	for i := range r.Events {
		n += 256 + len(r.Events[i].Body)
	}
	return n + workSize(r) + undosSize(r.Undos) + inboxSize(r.Inbox) + repliesSize(r.Replies)
}

// Decode reads an encoded record. ErrFormat is returned for a record of a
// newer format, and for bytes that are no record. The txid is not verified,
// see VerifyTxid.
func Decode(b []byte) (*Record, error) {
	if r, ok := scanRecord(b); ok && r.wellFormed() == nil {
		return r, nil
	}
	r := new(Record)
	if err := json.Unmarshal(b, r); err != nil {
		var v struct {
			V int `json:"v"`
		}
		if json.Unmarshal(b, &v) == nil && v.V > FormatVersion {
			return nil, fmt.Errorf("%w: format version %d", ErrFormat, v.V)
		}
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := r.wellFormed(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return r, nil
}

// wellFormed checks what a fold relies on.
func (r *Record) wellFormed() error {
	switch {
	case r.V < 1 || r.V > FormatVersion:
		return fmt.Errorf("format version %d", r.V)
	case r.Run == "" || r.Machine == "":
		return fmt.Errorf("it names no run or no machine")
	case r.Rev == 0:
		return fmt.Errorf("revision 0")
	case !r.Status.known():
		return fmt.Errorf("status %q", r.Status)
	case r.Tomb == nil && (len(r.Frames) == 0 || r.Frames[0].Kind != FrameRoot):
		return fmt.Errorf("no root frame")
	}
	if r.Ending != nil && !r.Ending.Status.Ended() {
		return fmt.Errorf("it ends with status %q", r.Ending.Status)
	}
	for i := range r.Pending {
		if f := r.Pending[i].Frame; f < 0 || f >= len(r.Frames) {
			return fmt.Errorf("pending effect %q is of no frame", r.Pending[i].ID)
		}
	}
	for i := range r.Waits {
		if f := r.Waits[i].Frame; f < 0 || f >= len(r.Frames) {
			return fmt.Errorf("wait %q is of no frame", r.Waits[i].ID)
		}
	}
	return nil
}

func (s Status) known() bool {
	return s == StatusRunning || s == StatusParked || s == StatusPaused || s.Ended()
}

// VerifyTxid reports whether the bytes are those that their txid was computed
// of.
func VerifyTxid(b []byte) bool {
	at := txidAt(b)
	if at < 0 {
		return false
	}
	blank := bytes.Clone(b)
	txid := string(b[at : at+txidSize])
	copy(blank[at:], blankTxid)
	return sumTxid(blank) == txid
}

// txidAt returns where the txid begins in a record's bytes, or -1.
func txidAt(b []byte) int {
	at := bytes.Index(b, []byte(txidKey))
	if at < 0 || at+len(txidKey)+txidSize >= len(b) || b[at+len(txidKey)+txidSize] != '"' {
		return -1
	}
	return at + len(txidKey)
}

// sumTxid hashes a record's bytes with the txid blanked.
func sumTxid(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:txidSize*6/8])
}

// validID reports whether s can name a run, a signal or a key: JSON would
// change other strings.
func validID(s string) bool { return utf8.ValidString(s) }
