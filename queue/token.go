package queue

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode/utf8"
)

const (
	maxToken = 128 // characters of a token
	maxRun   = 256 // bytes of a run id

	escaped = "~"  // begins the token of an id that is not literal
	hashed  = "~~" // begins the token of an id too long to be escaped

	// placeholder stands in the subject of a signal whose run is named by a
	// header, so it is no token of a run.
	placeholder = "_"
)

// Token is how a run id appears in a subject or a key: the id itself where it
// matches [A-Za-z0-9_=:@+-]{1,128}, else "~" and base64url of it where that
// has at most 128 characters, else "~~" and the hex of its SHA-256. Two ids
// never share a token; a hashed token cannot be turned back. The id "_" is
// escaped, since a signal's subject has it in place of a token.
func Token(run string) string {
	if literal(run) {
		return run
	}
	if len(escaped)+base64.RawURLEncoding.EncodedLen(len(run)) <= maxToken {
		return escaped + base64.RawURLEncoding.EncodeToString([]byte(run))
	}
	sum := sha256.Sum256([]byte(run))
	return hashed + hex.EncodeToString(sum[:])
}

// Untoken returns the run id of a token. ok is false for a hashed token and
// for what is no token; then the id must come from a header.
func Untoken(token string) (run string, ok bool) {
	if literal(token) {
		return token, true
	}
	if len(token) < len(escaped) || token[:len(escaped)] != escaped {
		return "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(token[len(escaped):])
	if err != nil {
		return "", false
	}
	// Only what Token makes is a token: not base64 with line breaks or stray
	// bits in its last character, not an escaped id that is literal.
	if run = string(b); Token(run) != token {
		return "", false
	}
	return run, true
}

// literal reports whether an id can stand in a subject as it is.
func literal(run string) bool {
	if run == "" || len(run) > maxToken || run == placeholder {
		return false
	}
	for i := range len(run) {
		switch c := run[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '_', c == '=', c == ':', c == '@', c == '+', c == '-':
		default:
			return false
		}
	}
	return true
}

// CheckRun says what is wrong with a run id: empty, over 256 bytes, or not
// UTF-8.
func CheckRun(run string) error {
	switch {
	case run == "":
		return errors.New("run id is empty")
	case len(run) > maxRun:
		return fmt.Errorf("run id has %d bytes, over %d", len(run), maxRun)
	case !utf8.ValidString(run):
		return errors.New("run id is not UTF-8")
	}
	return nil
}

// Partitions is how many shares the runs are divided into, for ever.
const Partitions = 256

// Partition is the share of a run: FNV-1a (32 bit) of its token, mod
// Partitions. It is part of its subjects; the hash tag of its Redis keys
// is made of it.
func Partition(token string) int {
	h := uint32(2166136261)
	for i := range len(token) {
		h = (h ^ uint32(token[i])) * 16777619
	}
	return int(h % Partitions)
}
