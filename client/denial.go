package client

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// denialRE is how the broker says that it refused something. It says so to the
// connection, not to the request, which waits in vain for an answer.
var denialRE = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// denials hears what the broker refuses and ends the requests that it is
// about, which would look like time-outs otherwise.
type denials struct {
	nc *nats.Conn

	mu      sync.Mutex
	waiting map[*waiter]struct{}
	inbox   error  // answers cannot arrive
	inboxOf uint64 // on which connection: how many reconnects there had been
}

type waiter struct {
	subject string // that is published to; with ">" at its end, all that begin so
	end     context.CancelCauseFunc
}

func (w *waiter) sends(subject string) bool {
	if begin, ok := strings.CutSuffix(w.subject, ">"); ok {
		return strings.HasPrefix(subject, begin)
	}
	return subject == w.subject
}

// listen puts the denials between the connection and its error handler, which
// goes on hearing everything.
func listen(nc *nats.Conn) *denials {
	d := &denials{nc: nc, waiting: map[*waiter]struct{}{}}
	if err := nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		d.hear(err)
	}
	next := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			d.hear(err)
		}
		if next != nil {
			next(nc, sub, err)
		}
	})
	return d
}

func (d *denials) hear(err error) {
	m := denialRE.FindStringSubmatch(err.Error())
	if m == nil {
		return
	}
	publish, subject := strings.EqualFold(m[1], "publish"), m[2]
	cause := fmt.Errorf("the broker does not let this user %s %s", map[bool]string{true: "publish to", false: "subscribe to"}[publish], subject)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !publish {
		if !strings.HasPrefix(subject, d.inboxPrefix()) {
			return
		}
		// All answers come by one subscription, which is made once.
		d.inbox, d.inboxOf = fmt.Errorf("%w, so no answer can arrive", cause), d.nc.Stats().Reconnects
		for w := range d.waiting {
			w.end(&denied{d.inbox})
		}
		return
	}
	for w := range d.waiting {
		if w.sends(subject) {
			w.end(&denied{cause})
		}
	}
}

func (d *denials) inboxPrefix() string {
	if p := d.nc.Opts.InboxPrefix; p != "" {
		return p + "."
	}
	return nats.InboxPrefix
}

// watch returns a context that ends when the broker refuses a publish to the
// subject, or the answers to it. Its cause is then a *denied.
func (d *denials) watch(ctx context.Context, subject string) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	w := &waiter{subject: subject, end: end}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[w] = struct{}{}
	if d.inbox != nil && d.inboxOf == d.nc.Stats().Reconnects {
		end(&denied{d.inbox})
	}
	return ctx, func() {
		d.mu.Lock()
		delete(d.waiting, w)
		d.mu.Unlock()
		end(nil)
	}
}

// denied is the cause of a context that ended by a refusal of the broker.
type denied struct{ error }

// deniedBy returns the refusal that ended a context, nil if it was none.
func deniedBy(ctx context.Context) error {
	var d *denied
	if errors.As(context.Cause(ctx), &d) {
		return d.error
	}
	return nil
}
