package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
)

// The times of a call, unless an option or the context says otherwise.
const (
	defaultTimeout = 5 * time.Second
	defaultPoll    = 10 * time.Second // one question of Wait
	pollSlack      = 2 * time.Second  // for the way there and back
	firstPause     = 50 * time.Millisecond
	mostPause      = time.Second
)

// Client talks to a fleet. It may be used concurrently.
type Client struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	subj    subjects
	denials *denials
	timeout time.Duration
	poll    time.Duration
	owned   bool // nc is closed by Close
}

type options struct {
	subj    subjects
	timeout time.Duration
	poll    time.Duration
	nats    []nats.Option
}

// Option changes how a client talks to its fleet.
type Option func(*options)

// WithPrefix sets the prefix of the fleet's subjects. Default: pawl.
func WithPrefix(prefix string) Option { return func(o *options) { o.subj.prefix = prefix } }

// WithUser sets who makes the requests, for fleets whose broker pins users to
// their subjects, and for the record. It is one token of a subject, of at most
// 64 bytes.
func WithUser(user string) Option { return func(o *options) { o.subj.user = user } }

// WithTimeout sets how long a call may take with all its repetitions, if its
// context has no earlier deadline. Default: 5 s. It does not bound Wait,
// Result, and what iterators take in all.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithNATS adds options of the connection that Connect makes: credentials, TLS
// and the like.
func WithNATS(opts ...nats.Option) Option {
	return func(o *options) { o.nats = append(o.nats, opts...) }
}

// Connect makes a connection of its own to a fleet's NATS, at one URL or
// several separated by commas. It fails if none of them can be reached now;
// once connected it reconnects for ever. Close ends it.
func Connect(url string, opts ...Option) (*Client, error) {
	o := options{subj: subjects{prefix: "pawl"}, nats: []nats.Option{
		nats.Name("pawl client"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond),
		// What cannot be sent fails at once and is sent again; it is not kept
		// to be sent when nobody waits for it any more.
		nats.ReconnectBufSize(-1),
		// What the broker does not permit is an error of the call that it is
		// about; the default would print it.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
	}}
	for _, f := range opts {
		f(&o)
	}
	nc, err := nats.Connect(url, o.nats...)
	if err != nil {
		kind := ErrUnavailable
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			kind = ErrDenied
		}
		return nil, &Error{Op: "connect to " + url, Message: err.Error(), kind: kind, below: err}
	}
	c, err := New(nc, opts...)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c.owned = true
	return c, nil
}

// New makes a client that uses a connection of the caller's. It puts itself
// before the connection's error handler, since that is where the broker says
// what it does not permit.
func New(nc *nats.Conn, opts ...Option) (*Client, error) {
	o := options{subj: subjects{prefix: "pawl"}, timeout: defaultTimeout, poll: defaultPoll}
	for _, f := range opts {
		f(&o)
	}
	if !prefixRE.MatchString(o.subj.prefix) {
		return nil, fmt.Errorf("prefix %q is not [a-z][a-z0-9_-]{0,31}", o.subj.prefix)
	}
	if o.subj.user != "" {
		if err := api.CheckUser(o.subj.user); err != nil {
			return nil, err
		}
	}
	if o.timeout <= 0 {
		return nil, fmt.Errorf("timeout %v is not positive", o.timeout)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(o.timeout))
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return &Client{nc: nc, js: js, subj: o.subj, denials: listen(nc), timeout: o.timeout, poll: o.poll}, nil
}

// Close ends the connection that Connect made; one that was handed to New is
// left alone. Calls that are under way fail.
func (c *Client) Close() {
	if c.owned {
		c.nc.Close()
	}
}
