package natsqueue

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/pawlrun/pawl/internal/certtest"
	"github.com/pawlrun/pawl/internal/natstest"
)

// reached connects and waits until the server has answered.
func reached(t *testing.T, c Config) *nats.Conn {
	t.Helper()
	nc, err := Connect(c)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	natstest.Await(t, "the connection", nc.IsConnected)
	return nc
}

func TestConnect(t *testing.T) {
	t.Parallel()
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		n := natstest.One(t, natstest.Inside)
		nc := reached(t, Config{InProcess: n.Server(), Name: "inside", InboxPrefix: "_INBOX_worker"})
		f := newFleet(t, nc, Topology{}, brisk())
		f.append1(next(t, "r", nil, "me"))
		if inbox := nc.NewInbox(); !strings.HasPrefix(inbox, "_INBOX_worker.") {
			t.Errorf("inbox %s", inbox)
		}
	})
	t.Run("user and password", func(t *testing.T) {
		t.Parallel()
		n := natstest.One(t, func(o *server.Options) { o.Username, o.Password = "u", "p" })
		reached(t, Config{URL: n.URL(), User: "u", Password: "p"})
	})
	t.Run("token", func(t *testing.T) {
		t.Parallel()
		n := natstest.One(t, func(o *server.Options) { o.Authorization = "secret" })
		reached(t, Config{URL: n.URL(), Token: "secret"})
	})
	t.Run("nkey", func(t *testing.T) {
		t.Parallel()
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		seed, err := pair.Seed()
		if err != nil {
			t.Fatal(err)
		}
		n := natstest.One(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
		reached(t, Config{URL: n.URL(), NKeyFile: write(t, "seed", seed)})
	})
	t.Run("mutual TLS", func(t *testing.T) {
		t.Parallel()
		files := certtest.New(t)
		n := natstest.One(t, func(o *server.Options) {
			o.TLS, o.TLSVerify, o.TLSTimeout = true, true, natstest.Patience.Seconds()
			o.TLSConfig = files.Server(t)
		})
		reached(t, Config{URL: n.URL(), CAFile: files.CA, CertFile: files.Cert, KeyFile: files.Key})
		nc, err := Connect(Config{URL: n.URL(), CAFile: certtest.New(t).CA, CertFile: files.Cert, KeyFile: files.Key})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		natstest.Await(t, "a server of another authority to be refused", func() bool { return nc.LastError() != nil })
		if nc.IsConnected() {
			t.Error("a server whose certificate another authority signed is trusted")
		}
	})
	t.Run("credentials", func(t *testing.T) {
		t.Parallel()
		operator, creds, resolver := account(t)
		n := natstest.One(t, func(o *server.Options) {
			o.JetStream = false // it wants an account for the system, too
			o.TrustedKeys, o.AccountResolver = []string{operator}, resolver
		})
		reached(t, Config{URL: n.URL(), CredsFile: write(t, "user.creds", creds)})
	})
}

func TestConnectRefusesWhatIsIncomplete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"a certificate without a key": {CertFile: "cert.pem"},
		"a key without a certificate": {KeyFile: "key.pem"},
		"no such seed":                {NKeyFile: filepath.Join(t.TempDir(), "none")},
		"no such authorities":         {CAFile: filepath.Join(t.TempDir(), "none")},
		"no URL":                      {URL: "nats://127.0.0.1:no port"},
	} {
		if nc, err := Connect(c); err == nil {
			nc.Close()
			t.Errorf("connect took %s", name)
		}
	}
}

// The server takes another password from now on, and the file has it: the
// connection comes back by itself, without a restart of the process.
func TestPasswordIsRotated(t *testing.T) {
	t.Parallel()
	var opts *server.Options
	n := natstest.One(t, func(o *server.Options) { o.Username, o.Password, opts = "u", "before", o })
	file := write(t, "password", []byte("before\n"))
	nc := reached(t, Config{URL: n.URL(), User: "u", PasswordFile: file})
	n.Stop()
	opts.Password = "after"
	n.Start()
	natstest.Await(t, "the old password to be refused", func() bool { return errors.Is(nc.LastError(), nats.ErrAuthorization) })
	if err := os.WriteFile(file, []byte("after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the connection with the new password", nc.IsConnected)
}

// account is an operator's key, and the credentials of a user of an account
// that the resolver knows.
func account(t *testing.T) (operator string, creds []byte, resolver *server.MemAccResolver) {
	t.Helper()
	pair := func(make func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		k, err := make()
		if err != nil {
			t.Fatal(err)
		}
		public, err := k.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return k, public
	}
	operatorKey, operator := pair(nkeys.CreateOperator)
	accountKey, accountID := pair(nkeys.CreateAccount)
	userKey, userID := pair(nkeys.CreateUser)
	accountJWT, err := jwt.NewAccountClaims(accountID).Encode(operatorKey)
	if err != nil {
		t.Fatal(err)
	}
	userJWT, err := jwt.NewUserClaims(userID).Encode(accountKey)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := userKey.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if creds, err = jwt.FormatUserConfig(userJWT, seed); err != nil {
		t.Fatal(err)
	}
	resolver = &server.MemAccResolver{}
	if err := resolver.Store(accountID, accountJWT); err != nil {
		t.Fatal(err)
	}
	return operator, creds, resolver
}

// TestConnectTellsWhenClosed has the process know that it can only end.
func TestConnectTellsWhenClosed(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 1)
	nc := reached(t, Config{URL: natstest.One(t).URL(), Closed: func(err error) { closed <- err }})
	nc.Close()
	<-closed
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
