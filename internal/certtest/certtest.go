// Package certtest makes certificates for tests: an authority of the test's
// own, and a certificate for the loopback that serves as server's and as
// client's.
package certtest

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
	"testing"
	"time"
)

// Files are PEM files in a folder of the test.
type Files struct {
	CA   string // the authority's certificate
	Cert string // signed by it, for 127.0.0.1
	Key  string // of Cert
}

// New makes an authority and a certificate.
func New(tb testing.TB) Files {
	tb.Helper()
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
	caKey, leafKey := newKey(tb), newKey(tb)
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	if err != nil {
		tb.Fatalf("certtest: sign the authority: %v", err)
	}
	leaf := template("node")
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, &leafKey.PublicKey, caKey)
	if err != nil {
		tb.Fatalf("certtest: sign the certificate: %v", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		tb.Fatalf("certtest: encode the key: %v", err)
	}
	dir := tb.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			tb.Fatalf("certtest: %v", err)
		}
		return path
	}
	return Files{CA: file("ca.pem", "CERTIFICATE", caDER), Cert: file("cert.pem", "CERTIFICATE", leafDER), Key: file("key.pem", "PRIVATE KEY", keyDER)}
}

// Server is what a server needs that wants certificates of its clients, too.
func (f Files) Server(tb testing.TB) *tls.Config {
	tb.Helper()
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		tb.Fatalf("certtest: %v", err)
	}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		tb.Fatalf("certtest: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatalf("certtest: make a key: %v", err)
	}
	return k
}
