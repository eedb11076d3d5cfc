package pawl_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/certtest"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
)

const bothPlaces = `{"steps":[{"do":"noop","repeat":3},{"do":"noop","repeat":3,"place":"queued"}]}`

// A fleet whose servers speak TLS only, want a certificate of each client, and
// a user with a password, which is in a file.
func TestFleetOverTLS(t *testing.T) {
	t.Parallel()
	if !slices.Contains(redistest.Kinds(t), redistest.Real) {
		return // Kinds has said so, and fails in CI
	}
	files := certtest.New(t)
	n := natstest.One(t, func(o *server.Options) {
		o.TLS, o.TLSVerify, o.TLSTimeout, o.TLSConfig = true, true, natstest.Patience.Seconds(), files.Server(t)
		o.Username, o.Password = "worker", "secret of nats"
	})
	addr := freeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	r := redistest.Start(t, redistest.Real, "--tls-port", port, "--bind", "127.0.0.1", "--tls-cert-file", files.Cert, "--tls-key-file", files.Key,
		"--tls-ca-cert-file", files.CA, "--tls-auth-clients", "yes")
	if err := r.Client(t).Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">secret of redis", "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.Client(t).Do(t.Context(), "ACL", "SETUSER", "default", "off").Err(); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := join(t, n.URL(), true, nats.RootCAs(files.CA), nats.ClientCert(files.Cert, files.Key), nats.UserInfo("worker", "secret of nats"))
	startProcess(t, map[string]string{
		"PAWL_NATS_URL": n.URL(), "PAWL_NATS_USERNAME": "worker", "PAWL_NATS_PASSWORD_FILE": file("nats", "secret of nats"),
		"PAWL_NATS_TLS_CA_FILE": files.CA, "PAWL_NATS_TLS_CERT_FILE": files.Cert, "PAWL_NATS_TLS_KEY_FILE": files.Key,
		"PAWL_REDIS_ADDR": addr, "PAWL_REDIS_USERNAME": "worker", "PAWL_REDIS_PASSWORD_FILE": file("redis", "secret of redis"),
		"PAWL_REDIS_TLS_CA_FILE": files.CA, "PAWL_REDIS_TLS_CERT_FILE": files.Cert, "PAWL_REDIS_TLS_KEY_FILE": files.Key,
	})
	for i := range 10 {
		f.start("kitchensink", fmt.Sprintf("secret-%d", i), bothPlaces)
	}
	for i := range 10 {
		if last := f.ended(fmt.Sprintf("secret-%d", i)); last.Rev != 7 {
			t.Errorf("%s, want 7 records", describe(last))
		}
	}
}

// Redis is a cluster, of which the workers are told one node; one of them is
// killed under way.
func TestFleetOnARedisCluster(t *testing.T) {
	t.Parallel()
	if !slices.Contains(redistest.Kinds(t), redistest.Cluster) {
		return // Kinds has said so, and fails in CI
	}
	n, r := natstest.One(t), redistest.Start(t, redistest.Cluster)
	f := join(t, n.URL(), true)
	f.env = map[string]string{"PAWL_NATS_URL": n.URL(), "PAWL_REDIS_ADDR": r.Addr}
	k := newKillCheck(t)
	few := map[string]string{"PAWL_WORKER_INLINE_MAX": "6", "PAWL_WORKER_QUEUED_MAX": "6"} // the runs outlast the kill
	first := startProcess(t, env(f.env, few))
	for i := range killRuns {
		f.start("kitchensink", fmt.Sprintf("kill-%d", i), killScript(k.sink.URL, i))
	}
	k.progress(100)
	first.kill()
	k.killed(f, 1)
	startProcess(t, f.env)
	k.finish(f)
	if n, err := r.Client(t).DBSize(t.Context()).Result(); err != nil || n == 0 {
		t.Errorf("the cluster has %d keys, %v", n, err)
	}
}
