package transitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/statemachine"
)

// post is the input of http.post.
type post struct {
	URL     string            `json:"url"`
	Body    json.RawMessage   `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Verify  string            `json:"verify,omitempty"` // URL that tells what came of a call, see caller.outcome
}

// reserved reports whether a header is set by the caller or belongs to the
// connection: an input that could set it could forge a key, or smuggle a second
// request.
func reserved(header string) bool {
	switch header {
	case "Idempotency-Key", "Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer",
		"Proxy-Authorization", "Proxy-Connection", "Keep-Alive":
		return true
	}
	return false
}

// httpPost performs http.post: the body is sent to the URL with the key as
// Idempotency-Key, and the response is the result.
func (c *caller) httpPost(ctx context.Context, key string, p post) (json.RawMessage, error) {
	header, err := p.header()
	if err != nil {
		return nil, invalid(err)
	}
	body, _, err := c.do(ctx, call{method: http.MethodPost, url: p.URL, header: header, body: p.Body, key: key, limit: maxResponse})
	if err != nil {
		return nil, err
	}
	return statemachine.AsResult(body), nil
}

// verifyPost finds out what came of a call of http.post.
func (c *caller) verifyPost(ctx context.Context, key string, p post) (json.RawMessage, error) {
	header, err := p.header()
	if err != nil {
		return nil, invalid(err)
	}
	header.Del("Content-Type")
	return c.outcome(ctx, p.Verify, header, key)
}

// outcome asks with GET what came of a call with an idempotency key:
//
//	2xx        it was performed; the body is the result
//	404, 410   it was not
//	else       that cannot be told, or (408, 409, 425, 429, 503) not yet
func (c *caller) outcome(ctx context.Context, url string, header http.Header, key string) (json.RawMessage, error) {
	if url == "" {
		return nil, statemachine.Terminal("no_verify", errors.New("no URL is given to ask at"))
	}
	body, _, err := c.do(ctx, call{method: http.MethodGet, url: url, header: header, key: key, limit: maxResponse})
	if s, ok := errors.AsType[*statusError](err); ok && (s.code == http.StatusNotFound || s.code == http.StatusGone) {
		return nil, statemachine.ErrNotDone
	}
	if err != nil {
		return nil, err
	}
	return statemachine.AsResult(body), nil
}

func (p post) header() (http.Header, error) {
	h := http.Header{"Content-Type": {"application/json"}}
	for name, value := range p.Headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if reserved(canonical) {
			return nil, fmt.Errorf("header %q is not for the input to set", name)
		}
		if canonical == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == ':' || r > '~' }) {
			return nil, fmt.Errorf("%q is no name of a header", name)
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("header %q has a line break in its value", name)
		}
		h.Set(canonical, value)
	}
	return h, nil
}

// verifyBound returns what finds out what came of a call of such an effect.
func verifyBound(b Bound) func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
	c := newCaller(&allowList{any: true}, b.Timeout)
	return func(ctx context.Context, key string, _ json.RawMessage) (json.RawMessage, error) {
		return c.outcome(ctx, b.Verify, http.Header{}, key)
	}
}

// bound returns the handler of an effect that another service performs.
func bound(b Bound) func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
	if b.Call != nil {
		return b.Call
	}
	c := newCaller(&allowList{any: true}, b.Timeout)
	return func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
		header := http.Header{"Content-Type": {"application/json"}}
		if a, ok := statemachine.AttemptOf(ctx); ok {
			header["Pawl-Run-Id"], header["Pawl-Effect-Id"] = []string{headerSafe(a.Run)}, []string{a.Effect}
			header["Pawl-Attempt"], header["Pawl-Result-Token"] = []string{strconv.Itoa(a.N)}, []string{a.Token()}
		}
		body, _, err := c.do(ctx, call{method: b.Method, url: b.URL, header: header, body: input, key: key, limit: maxResponse, later: true})
		if err != nil {
			return nil, err
		}
		return statemachine.AsResult(body), nil
	}
}
