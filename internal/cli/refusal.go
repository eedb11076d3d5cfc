package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// refusals hears what the server refuses. A publish that is not permitted is
// told to nobody who waits for its answer: without this, wrong credentials look
// like a server that does not answer.
type refusals struct {
	mu       sync.Mutex
	fatal    context.CancelCauseFunc // ends the command
	optional context.CancelCauseFunc // ends the question to the control API; nil while there is none
}

// violationRE is how the server words it.
var violationRE = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]*)"`)

// Optional is a context for a question whose subject may be forbidden without
// harm: to the control API, or to the statistics of services. A refusal ends
// it, and the command goes on. One at a time.
func (t *Tool) Optional(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	t.refused.mu.Lock()
	defer t.refused.mu.Unlock()
	t.refused.optional = cancel
	return ctx, func() { cancel(nil) }
}

// hear takes the errors that the connection tells of.
func (t *Tool) hear(s Server, err error) {
	m := violationRE.FindStringSubmatch(err.Error())
	if m == nil {
		return
	}
	kind, subject := strings.ToLower(m[1]), m[2]
	e := &Error{
		Err:  fmt.Errorf("permissions violation for %s to %q, %s", kind, subject, s.who()),
		Hint: "sign in as somebody who may, " + signIn,
	}
	t.refused.mu.Lock()
	defer t.refused.mu.Unlock()
	end := t.refused.fatal
	if strings.HasPrefix(subject, t.Prefix+".api.") || strings.HasPrefix(subject, "$SRV.") {
		end = t.refused.optional
	}
	if end != nil {
		end(e)
	}
}

// shut is told that the connection is closed, by this process or for good.
func (t *Tool) shut(s Server, err error) {
	if !isAuth(err) {
		return
	}
	t.refused.mu.Lock()
	defer t.refused.mu.Unlock()
	if t.refused.fatal != nil {
		t.refused.fatal(s.unauthorized(err))
	}
}

// signIn is how to be somebody.
const signIn = "by PAWL_NATS_CREDS_FILE, PAWL_NATS_USERNAME and PAWL_NATS_PASSWORD, or a nats context"

func isAuth(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAccountAuthExpired)
}

// unauthorized is the error of somebody whom the server does not let in.
func (s Server) unauthorized(err error) error {
	what := "authorization violation"
	if !errors.Is(err, nats.ErrAuthorization) {
		what = strings.TrimPrefix(err.Error(), "nats: ")
	}
	return &Error{Err: fmt.Errorf("connect to NATS at %s: %s, %s", s.shown(), what, s.who()), Hint: "sign in " + signIn}
}

// who says as whom one comes, for error messages.
func (s Server) who() string {
	switch {
	case s.CredsFile != "":
		return "signed in with " + s.CredsFile
	case s.NKeyFile != "":
		return "signed in with " + s.NKeyFile
	case s.User != "":
		return fmt.Sprintf("signed in as %q", s.User)
	case s.Token != "":
		return "signed in with a token"
	}
	if before, _, found := strings.Cut(s.URL, "@"); found {
		user := before[strings.LastIndexByte(before, '/')+1:]
		if user, _, pair := strings.Cut(user, ":"); pair {
			return fmt.Sprintf("signed in as %q", user)
		}
		return "signed in with a token"
	}
	if s.CertFile != "" {
		return "signed in with " + s.CertFile
	}
	return "signed in as nobody"
}
