package transitions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlrun/pawl/statemachine"
)

const (
	maxResponse   = 32 << 20  // bytes of a response
	maxRetryAfter = time.Hour // a server cannot put a run to sleep for longer
	excerpt       = 200       // bytes of a refusal that go into the cause
	dialTimeout   = time.Second * 10
)

// caller makes HTTP requests that end in a result or in one of the failures of
// the table in [statemachine.Answered].
type caller struct {
	hosts *allowList
	http  *http.Client
}

func newCaller(hosts *allowList, timeout time.Duration) *caller {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: hosts.checkDial}
	return &caller{hosts: hosts, http: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			// No proxy: behind one, the address that is dialled says nothing
			// about where the request goes.
			DialContext:         dialer.DialContext,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: dialTimeout,
		},
		// A redirect would leave the list of allowed hosts, or perform an
		// effect at a place nobody named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// call is one request.
type call struct {
	method string
	url    string
	header http.Header
	body   []byte
	key    string // sent as Idempotency-Key unless empty
	limit  int    // bytes of the response that are accepted
	later  bool   // 202 says that the result comes later, by a callback
}

// do sends a request and returns the body of a successful response and its
// media type.
func (c *caller) do(ctx context.Context, r call) (body []byte, mediaType string, err error) {
	res, where, err := c.send(ctx, r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	if r.later && res.StatusCode == http.StatusAccepted {
		return nil, "", statemachine.Accepted()
	}
	body, err = io.ReadAll(io.LimitReader(res.Body, int64(r.limit)+1))
	if err := judge(where, res, body); err != nil {
		return nil, "", err
	}
	if err != nil {
		return nil, "", broken(where, err)
	}
	if len(body) > r.limit {
		return nil, "", tooLarge(where, r.limit)
	}
	return body, res.Header.Get("Content-Type"), nil
}

// send sends a request and returns the response, whose body is the caller's to
// read and to close, and the place of the request as a cause names it.
func (c *caller) send(ctx context.Context, r call) (res *http.Response, where string, err error) {
	u, err := url.Parse(r.url)
	if err != nil {
		return nil, "", invalid(errors.New("the URL cannot be parsed"))
	}
	if err := c.hosts.checkURL(u); err != nil {
		return nil, "", statemachine.Terminal("host_not_allowed", err)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return nil, "", invalid(err)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", headerSafe(r.key))
	}
	req.Header.Set("User-Agent", "pawl")
	// The query may hold a secret: a cause names the place without it.
	where = r.method + " " + u.Scheme + "://" + u.Host + u.EscapedPath()
	if res, err = c.http.Do(req); err != nil {
		return nil, "", unreached(where, err)
	}
	return res, where, nil
}

// broken is the failure of a response that broke off: what it answers may have
// been done.
func broken(where string, err error) error {
	return statemachine.Unsure(fmt.Errorf("%s: read the response: %w", where, err))
}

func tooLarge(where string, limit int) error {
	return statemachine.Terminal("response_too_large", fmt.Errorf("%s: the response has more than %d bytes", where, limit))
}

// unreached is the failure of a request that got no response.
func unreached(where string, err error) error {
	if f, ok := errors.AsType[*forbiddenError](err); ok {
		return statemachine.Terminal("host_not_allowed", fmt.Errorf("%s: %w", where, f))
	}
	// The *url.Error repeats the whole URL, query included.
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	failure := fmt.Errorf("%s: %w", where, err)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return failure // nothing was sent
	}
	return statemachine.Unsure(failure)
}

// judge says what a response means for the attempt; see [statemachine.Answered].
func judge(where string, res *http.Response, body []byte) error {
	err := &statusError{where: where, code: res.StatusCode, says: saying(body)}
	after, _ := retryAfter(res.Header, time.Now())
	return statemachine.Answered(res.StatusCode, "http", after, err)
}

// statusError is a response that is no success.
type statusError struct {
	where string
	code  int
	says  string
}

func (e *statusError) Error() string {
	return e.where + ": " + strings.TrimSpace(strconv.Itoa(e.code)+" "+http.StatusText(e.code)) + e.says
}

// saying is the beginning of a refusal's body, on one line.
func saying(body []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), 4*excerpt)]), "")), " ")
	if s == "" {
		return ""
	}
	if len(s) > excerpt {
		cut := excerpt
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return ": " + s
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := h.Get("Retry-After")
	if v == "" {
		return 0, false
	}
	if s, err := strconv.ParseUint(v, 10, 32); err == nil {
		return min(time.Duration(s)*time.Second, maxRetryAfter), true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), maxRetryAfter), true
}

// headerSafe is a key as a header's value: what is not printable ASCII is
// percent-encoded, and so is the percent sign.
func headerSafe(key string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
