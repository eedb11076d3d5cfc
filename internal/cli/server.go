package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// DefaultURL is where a fleet is looked for if nobody says anything: where an
// embedded fleet listens.
const DefaultURL = "nats://127.0.0.1:4222"

// Server is a NATS server, or a cluster, and who one is there.
type Server struct {
	URL  string // several are divided by commas
	From string // where the URL comes from, for error messages; "" if it is the default

	CredsFile, NKeyFile       string
	User, Password, Token     string
	CAFile, CertFile, KeyFile string
	TLS                       bool
	InboxPrefix               string
}

// FindServer says which server a tool asks: the one of the flag, of
// PAWL_NATS_URL, of NATS_URL, of the selected context of the nats tool, or
// DefaultURL. Who one is there comes from the environment, PAWL_NATS_… before
// NATS_…, and with a context from that, too.
func FindServer(flag string, getenv func(string) string) (Server, error) {
	s := Server{
		CredsFile: first(getenv, "PAWL_NATS_CREDS_FILE", "NATS_CREDS"),
		NKeyFile:  first(getenv, "PAWL_NATS_NKEY_FILE", "NATS_NKEY"),
		User:      first(getenv, "PAWL_NATS_USERNAME", "NATS_USER"),
		Password:  first(getenv, "PAWL_NATS_PASSWORD", "NATS_PASSWORD"),
		Token:     first(getenv, "NATS_TOKEN"),
		CAFile:    first(getenv, "PAWL_NATS_TLS_CA_FILE", "NATS_CA"),
		CertFile:  first(getenv, "PAWL_NATS_TLS_CERT_FILE", "NATS_CERT"),
		KeyFile:   first(getenv, "PAWL_NATS_TLS_KEY_FILE", "NATS_KEY"),
	}
	s.TLS, _ = strconv.ParseBool(getenv("PAWL_NATS_TLS_ENABLED")) // the worker says what is wrong with it
	if path := getenv("PAWL_NATS_PASSWORD_FILE"); path != "" && s.Password == "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return Server{}, &Error{Err: err, Hint: "PAWL_NATS_PASSWORD_FILE names the file"}
		}
		s.Password = strings.TrimRight(string(b), "\r\n")
	}
	for _, place := range []struct{ from, url string }{
		{"-s", flag}, {"PAWL_NATS_URL", getenv("PAWL_NATS_URL")}, {"NATS_URL", getenv("NATS_URL")},
	} {
		if place.url != "" {
			s.URL, s.From = place.url, place.from
			return s, nil
		}
	}
	c, name, err := selectedContext(getenv)
	if err != nil {
		return Server{}, err
	}
	if name == "" || c.URL == "" {
		s.URL = DefaultURL
		return s, nil
	}
	return s.with(c, name), nil
}

func first(getenv func(string) string, names ...string) string {
	for _, n := range names {
		if v := getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// with fills what the environment leaves open from a context.
func (s Server) with(c natsContext, name string) Server {
	s.URL, s.From = c.URL, "context "+name
	s.CredsFile, s.NKeyFile = cmp.Or(s.CredsFile, c.Creds), cmp.Or(s.NKeyFile, c.NKey)
	s.User, s.Password, s.Token = cmp.Or(s.User, c.User), cmp.Or(s.Password, c.Password), cmp.Or(s.Token, c.Token)
	s.CAFile, s.CertFile, s.KeyFile = cmp.Or(s.CAFile, c.CA), cmp.Or(s.CertFile, c.Cert), cmp.Or(s.KeyFile, c.Key)
	s.InboxPrefix = c.InboxPrefix
	return s
}

// options are the connection's. A tool does not wait for a server to come, but
// one that follows a run waits for it to come back.
func (s Server) options() ([]nats.Option, error) {
	o := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond)}
	if s.CredsFile != "" {
		o = append(o, nats.UserCredentials(s.CredsFile))
	}
	if s.NKeyFile != "" {
		nkey, err := nats.NkeyOptionFromSeed(s.NKeyFile)
		if err != nil {
			return nil, err
		}
		o = append(o, nkey)
	}
	if s.User != "" {
		o = append(o, nats.UserInfo(s.User, s.Password))
	}
	if s.Token != "" {
		o = append(o, nats.Token(s.Token))
	}
	if s.TLS {
		o = append(o, nats.Secure())
	}
	if s.CAFile != "" {
		o = append(o, nats.RootCAs(s.CAFile))
	}
	if s.CertFile != "" {
		o = append(o, nats.ClientCert(s.CertFile, s.KeyFile))
	}
	if s.InboxPrefix != "" {
		o = append(o, nats.CustomInboxPrefix(s.InboxPrefix))
	}
	return o, nil
}

// shown is the URL without what is secret in it.
func (s Server) shown() string {
	urls := strings.Split(s.URL, ",")
	for i, u := range urls {
		if at := strings.LastIndexByte(u, '@'); at >= 0 {
			scheme, _, _ := strings.Cut(u, "://")
			urls[i] = scheme + "://" + u[at+1:]
		}
	}
	return strings.Join(urls, ",")
}

// oldest is the first nats-server that has what a fleet needs: atomic batches
// and schedules.
const oldest = "2.12"

// tooOld reports whether a server's version is below oldest. What is no
// version is not judged.
func tooOld(version string) bool {
	var have, need [2]int
	if n, _ := fmt.Sscanf(version, "%d.%d", &have[0], &have[1]); n < 2 {
		return false
	}
	if n, _ := fmt.Sscanf(oldest, "%d.%d", &need[0], &need[1]); n < 2 {
		return false
	}
	return have[0] < need[0] || have[0] == need[0] && have[1] < need[1]
}

// named says where the address comes from, and how to name another.
func (s Server) named() string {
	if s.From == "" {
		return "that is the default; name another with -s URL"
	}
	return "named by " + s.From + "; name another with -s URL"
}

// unreached says why there is no connection.
func (s Server) unreached(err error) error {
	if isAuth(err) {
		return s.unauthorized(err)
	}
	hint := s.named()
	if errors.Is(err, nats.ErrNoServers) {
		hint = "is it running? " + hint
		err = cmp.Or(s.dial(), err)
	}
	if errors.Is(err, nats.ErrTimeout) || errors.Is(err, os.ErrDeadlineExceeded) {
		hint = "is it a NATS server? " + hint
	}
	return &Error{Err: fmt.Errorf("connect to NATS at %s: %w", s.shown(), err), Hint: hint}
}

// dial finds out why no server was reached, which the client does not say.
func (s Server) dial() error {
	first, _, _ := strings.Cut(s.URL, ",")
	if !strings.Contains(first, "://") {
		first = "nats://" + first
	}
	u, err := url.Parse(first)
	if err != nil {
		return err
	}
	c, err := net.DialTimeout("tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")), time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}
