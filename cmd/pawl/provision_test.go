package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pawlrun/pawl/internal/natstest"
)

// It signs in as the workers' configuration says, shows the differences, and
// makes nothing smaller unless it is told to.
func TestProvision(t *testing.T) {
	t.Parallel()
	url := natstest.One(t, func(o *server.Options) { o.Username, o.Password = "fleet", "secret" }).URL()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fleet := "nats:\n  url: " + url + "\n  username: fleet\n  password_file: " + write("password", "secret\n") + "\n"
	large := write("large.yaml", fleet+"limits: {start_size: 64MiB, history_size: 256MiB}\n")
	small := write("small.yaml", fleet+"limits: {start_size: 32MiB, history_size: 256MiB, signal_size: 16MiB}\n")
	many := write("many.yaml", strings.Replace(fleet, "nats:\n", "nats:\n  replicas: 3\n", 1))
	steps := []struct {
		name, args     string
		code           int
		stdout, stderr string // that it has
	}{
		{"what would be done", "--dry-run -c " + large, 0, "create stream PAWL_HISTORY\n", "nothing was done: --dry-run\n"},
		{"all of it", "-c " + large, 0, "create stream PAWL_HISTORY\n", "done: "},
		{"once more", "-c " + large, 0, "nothing to do\n", ""},
		{"smaller", "-c " + small, 1, "change maximum bytes of stream PAWL_START from 67108864 to 33554432 (not made: it would shrink; allow it if you mean it)\n",
			"done: 0 of 2\npawl: 2 differences are left (--shrink allows what would shrink)\n"},
		{"smaller, meant", "--shrink -c " + small, 0, "change maximum bytes of stream PAWL_START from 67108864 to 33554432\n", "done: 2 of 2\n"},
		{"larger", "-c " + large, 0, "change maximum bytes of stream PAWL_START from 33554432 to 67108864\n", "done: 2 of 2\n"},
		{"more copies than servers", "-c " + many, 1, "change replicas of stream PAWL_START from 1 to 3\n", "(there are fewer servers with JetStream than nats.replicas)\n"},
		{"no such file", "-c " + dir + "/none.yaml", 2, "", "none.yaml: no such file"},
	}
	for _, s := range steps {
		got := pawlRun(t, append([]string{"provision"}, strings.Fields(s.args)...)...)
		if got.code != s.code || !strings.Contains(got.stdout, s.stdout) || !strings.Contains(got.stderr, s.stderr) {
			t.Errorf("%s: pawl provision %s = %d\n%s\n%s\nwant %d, %q, %q", s.name, s.args, got.code, got.stdout, got.stderr, s.code, s.stdout, s.stderr)
		}
	}
	if got := pawlRun(t, "doctor", "-c", large); got.code != 1 || !strings.Contains(packed(got), "signed in") {
		t.Errorf("pawl doctor = %+v", got)
	}
}
