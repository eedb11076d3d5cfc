package natsqueue

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Config says how to reach NATS, and as whom.
type Config struct {
	URL       string                     // one, or several separated by commas
	InProcess nats.InProcessConnProvider // a server in this process; the URL is then not used
	Name      string                     // of this client, for the server's monitoring

	CredsFile string // a JWT and its key
	NKeyFile  string // the seed of a key
	User      string
	Password  string
	// PasswordFile holds the password, and is read anew for each connection,
	// so it may be rotated. Password stands in for it while it cannot be read.
	PasswordFile string
	Token        string

	TLS      bool   // speak TLS only; any of the files below asks for it, too
	CAFile   string // the authorities to trust; default: the system's
	CertFile string // the client's certificate, with KeyFile
	KeyFile  string

	// InboxPrefix keeps the answers to one role from the eyes of others.
	InboxPrefix string

	// Closed is called when the connection has ended for good, and not by
	// Close: the process can only end.
	Closed func(error)
	Logger *slog.Logger // default: none
}

const (
	connectWait   = 5 * time.Second
	reconnectWait = 500 * time.Millisecond
	pingInterval  = 10 * time.Second
	missedPings   = 2
	drainTimeout  = 5 * time.Second
)

// Connect makes a connection for a process that lives long. It returns at once
// even if no server can be reached, and never stops trying to reach one; Open
// waits until it has. Nothing is buffered while there is no connection: what
// is sent then fails at once, and its outcome is known.
//
// What else one may expect here, and why it is not:
//   - ReconnectOnFlusherError: the reader notices a broken connection as soon
//     as the writer does, and the pings do after 20 s.
//   - JetStream's asynchronous publishes, with their limits, retries and
//     handlers: package natsqueue has answers of its own (mux), settles unknown
//     outcomes by reading, and sends again for Options.Patience, which is longer
//     than an election.
//   - A second connection, for pulls: fetched messages are bounded by what the
//     lanes ask for, so they never stand before an acknowledgement for long.
//   - Drain at the end: a stop has waited for all answers by then, and gives
//     back what it holds.
func Connect(c Config) (*nats.Conn, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.Timeout(connectWait),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait/2, reconnectWait),
		nats.RetryOnFailedConnect(true),
		nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(), // a secret may be in the middle of its rotation
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(missedPings),
		nats.DrainTimeout(drainTimeout),
		nats.PermissionErrOnSubscribe(true),
	}
	opts = append(opts, c.handlers()...)
	security, err := c.security()
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	opts = append(opts, security...)
	if c.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(c.InboxPrefix))
	}
	if c.InProcess != nil {
		opts = append(opts, nats.InProcessServer(c.InProcess))
	}
	url := c.URL
	if url == "" {
		url = nats.DefaultURL
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}

// handlers tell of what happens to the connection.
func (c Config) handlers() []nats.Option {
	log := c.Logger
	return []nats.Option{
		nats.ConnectHandler(func(nc *nats.Conn) {
			log.Info("connected to nats", "server", nc.ConnectedServerName())
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("disconnected from nats", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("reconnected to nats", "server", nc.ConnectedServerName())
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			log.Debug("nats not reached", "error", err)
		}),
		nats.LameDuckModeHandler(func(nc *nats.Conn) {
			log.Info("nats server about to stop", "server", nc.ConnectedServerName())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			// A publish that is not permitted is told here and nowhere else.
			if errors.Is(err, nats.ErrPermissionViolation) {
				log.Error("nats refused permission", "error", err)
				return
			}
			log.Warn("nats reported an error", "subject", subject, "error", err)
		}),
		nats.ClosedHandler(func(nc *nats.Conn) {
			if err := nc.LastError(); err != nil {
				log.Warn("connection to nats closed", "error", err)
			}
			if c.Closed != nil {
				c.Closed(nc.LastError())
			}
		}),
	}
}

// userInfo is asked before each connection.
func (c Config) userInfo() (user, password string) {
	b, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		c.Logger.Warn("could not read the password of nats", "error", err)
		return c.User, c.Password
	}
	return c.User, strings.TrimRight(string(b), "\r\n")
}

// security lists the options by which the two sides know each other.
func (c Config) security() ([]nats.Option, error) {
	var opts []nats.Option
	if c.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(c.CredsFile))
	}
	if c.NKeyFile != "" {
		o, err := nats.NkeyOptionFromSeed(c.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("nkey: %w", err)
		}
		opts = append(opts, o)
	}
	switch {
	case c.PasswordFile != "":
		opts = append(opts, nats.UserInfoHandler(c.userInfo))
	case c.User != "":
		opts = append(opts, nats.UserInfo(c.User, c.Password))
	}
	if c.Token != "" {
		opts = append(opts, nats.Token(c.Token))
	}
	if c.TLS || c.CAFile != "" || c.CertFile != "" {
		opts = append(opts, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if c.CAFile != "" {
		opts = append(opts, nats.RootCAs(c.CAFile))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, errors.New("a certificate and a key are needed, or neither")
	}
	if c.CertFile != "" {
		opts = append(opts, nats.ClientCert(c.CertFile, c.KeyFile))
	}
	return opts, nil
}
