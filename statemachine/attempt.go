package statemachine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Attempt is what a handler may know of the attempt that it makes, beside the
// key and the input. It is in the context of the call.
type Attempt struct {
	Run    string // id of the run
	Effect string // id of the effect
	Type   string // its type
	N      int    // which attempt, from 1
	Try    int    // from 1, those that spent no attempt included

	token func() string
}

// Token is what a callback brings, if the handler returns Accepted. Nobody can
// guess it, and it is good for this try alone. It is "" where there are no
// callbacks.
func (a Attempt) Token() string {
	if a.token == nil {
		return ""
	}
	return a.token()
}

// attemptKey is the key of the Attempt in a context.
type attemptKey struct{}

// WithAttempt returns the context of a handler's call. The token is made when
// somebody asks for it.
func WithAttempt(ctx context.Context, a Attempt, token func() string) context.Context {
	a.token = token
	return context.WithValue(ctx, attemptKey{}, a)
}

// AttemptOf returns the attempt that is made; false if the context is of none.
func AttemptOf(ctx context.Context) (Attempt, bool) {
	a, ok := ctx.Value(attemptKey{}).(Attempt)
	return a, ok
}

// Answered says what a remote service's answer means for the attempt, by its
// code as in HTTP, whatever carried it. After is the wait it asks for, 0 if it
// names none; family begins the class of what has none of its own.
//
//	2xx                       nil
//	408, 409, 425, 429, 503   later: spends no attempt for a while; after is honoured,
//	                          and that of a 429 or 503 by the whole fleet
//	422                       the key was used for something else: terminal, key_conflict
//	other 3xx and 4xx         terminal, <family>_3xx and <family>_4xx
//	502, 504                  err: a failed attempt, but what is behind may have performed it
//	other 5xx and the rest    err: a failed attempt
func Answered(code int, family string, after time.Duration, err error) error {
	switch {
	case code >= 200 && code < 300:
		return nil
	case code == 429, code == 503:
		return Throttled(after, err)
	case code == 408, code == 409, code == 425:
		return Later(after, err)
	case code == 422:
		return Terminal(ClassKeyConflict, err)
	case code == 502, code == 504:
		return Unsure(err)
	case code >= 300 && code < 500:
		return Terminal(fmt.Sprintf("%s_%dxx", family, code/100), err)
	}
	return err
}

// AsResult is what a remote service answered as the result of an effect:
// itself if it is JSON, else {"text": …}; {} if it is empty.
func AsResult(body []byte) json.RawMessage {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return json.RawMessage(`{}`)
	}
	if json.Valid(trimmed) {
		return trimmed
	}
	text, _ := json.Marshal(map[string]string{"text": strings.ToValidUTF8(string(body), "\uFFFD")}) // a string always is JSON
	return text
}
