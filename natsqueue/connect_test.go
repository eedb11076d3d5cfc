package natsqueue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

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
		n := natstest.One(t)
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
		ca, cert, key := certificates(t)
		n := natstest.One(t, func(o *server.Options) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(read(t, ca))
			o.TLS, o.TLSVerify, o.TLSTimeout = true, true, natstest.Patience.Seconds()
			o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
		})
		reached(t, Config{URL: n.URL(), CAFile: ca, CertFile: cert, KeyFile: key})
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

// TestConnectTellsWhenClosed has the process know that it can only end.
func TestConnectTellsWhenClosed(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 1)
	nc := reached(t, Config{URL: natstest.One(t).URL(), Closed: func(err error) { closed <- err }})
	nc.Close()
	<-closed
}

// certificates makes an authority, and a certificate of it for the loopback
// that serves both sides.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	const day = 24 * time.Hour
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()),
			Subject:      pkix.Name{CommonName: name},
			NotBefore:    time.Now().Add(-day),
			NotAfter:     time.Now().Add(day),
		}
	}
	authority := template("authority")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	caKey := newKey(t)
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf := template("node")
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	leafKey := newKey(t)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, &leafKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	pemFile := func(name, kind string, der []byte) string {
		return write(t, name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return pemFile("ca.pem", "CERTIFICATE", caDER), pemFile("cert.pem", "CERTIFICATE", leafDER), pemFile("key.pem", "PRIVATE KEY", keyDER)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
