package queue

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"unicode/utf8"
)

// Callback is what a result token stands for: one try of an effect of a run.
type Callback struct {
	Run    string
	Effect string // id of the effect
	Try    int
}

// signature is how much of the HMAC a token has: 128 bits.
const signature = 16

// Token is what whoever accepts the try brings back. It is one token of a
// subject, names the try, and only who has the secret of the fleet can make it.
func (c Callback) Token(secret []byte) string {
	b := binary.AppendUvarint(nil, uint64(c.Try))
	b = binary.AppendUvarint(b, uint64(len(c.Effect)))
	b = append(append(b, c.Effect...), c.Run...)
	return base64.RawURLEncoding.EncodeToString(append(sign(secret, b), b...))
}

// ParseCallback reads a token; false if this fleet gave out none like it.
func ParseCallback(secret []byte, token string) (Callback, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(secret) == 0 || len(b) < signature || subtle.ConstantTimeCompare(b[:signature], sign(secret, b[signature:])) != 1 {
		return Callback{}, false
	}
	b = b[signature:]
	try, n := binary.Uvarint(b)
	if n <= 0 {
		return Callback{}, false
	}
	b = b[n:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return Callback{}, false
	}
	b = b[n:]
	c := Callback{Run: string(b[size:]), Effect: string(b[:size]), Try: int(try)}
	return c, CheckRun(c.Run) == nil && utf8.ValidString(c.Effect)
}

func sign(secret, b []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("pawl result\n"))
	h.Write(b)
	return h.Sum(nil)[:signature]
}
