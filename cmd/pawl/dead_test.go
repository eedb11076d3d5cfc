package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/transitions"
)

// asWorker is what the test binary does as a worker: it works until it is
// killed.
func asWorker() error {
	cfg, _, err := pawl.Load("", os.Environ())
	if err != nil {
		return err
	}
	catalog, err := transitions.Catalog(transitions.Config{AllowHosts: []string{"127.0.0.1"}, FileDir: os.TempDir()})
	if err != nil {
		return err
	}
	p, err := pawl.Open(context.Background(), cfg, pawl.Schedules(catalog), pawl.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	return p.Run(context.Background())
}

// workerProcess starts a worker that can be killed.
func workerProcess(t *testing.T, natsURL, redisAddr string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "PAWL_TEST_AS_WORKER=1", "PAWL_NATS_URL="+natsURL, "PAWL_REDIS_ADDR="+redisAddr, "PAWL_HTTP_ADDR=")
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// All workers are killed in the middle of their runs, and Redis goes down with
// them: what the runs have come to is shown all the same.
func TestRunsWhenAllWorkersAreDead(t *testing.T) {
	t.Parallel()
	url, redis := natstest.One(t).URL(), redistest.Start(t, redistest.Mini)
	ask := func(args ...string) outcome { t.Helper(); return pawlRun(t, append([]string{"-s", url}, args...)...) }
	if got := ask("provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the caller is not noticed
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	workers := []*exec.Cmd{workerProcess(t, url, redis.Addr), workerProcess(t, url, redis.Addr)}
	for id, input := range map[string]string{
		"ended": `{"steps":[{"do":"noop","repeat":2}]}`,
		"hangs": fmt.Sprintf(`{"steps":[{"do":"noop"},{"do":"http.post","input":{"url":%q,"body":{}}}]}`, hangs.URL),
	} {
		if got := ask("run", "start", "kitchensink", "--id", id, "--input", input); got.code != 0 {
			t.Fatalf("pawl run start = %+v", got)
		}
	}
	natstest.Await(t, "the call that hangs", func() bool {
		return strings.Contains(ask("run", "show", "hangs").stdout, "http.post  inline") && strings.Contains(ask("run", "show", "ended").stdout, "Status    succeeded\n")
	})
	for _, w := range workers {
		_ = w.Process.Signal(syscall.SIGKILL)
		_ = w.Wait()
	}
	redis.Mini.Close()
	tests := []struct {
		args           string
		code           int
		stdout, stderr []string // that it has
	}{
		{"run show hangs", 0, []string{"Status    running\n", "http.post  inline"}, nil},
		{"run show ended", 0, []string{"Status    succeeded\n"}, nil},
		{"run history hangs", 0, []string{"\n1    ", "\n2    ", "⇒ http.post  "}, nil},
		{"run history ended", 0, []string{"\n3    "}, nil},
		{"run result ended", 0, []string{`"at": 1,`}, nil},
		{"run ls", 0, []string{"ended  kitchensink@4  ", "hangs  kitchensink@4  "}, []string{"no worker answers; reading the last record of every run instead\n"}},
		{"run ls --status running --from history", 0, []string{"hangs  kitchensink@4  "}, nil},
		{"run graph hangs", 0, []string{"class perform current\n"}, nil},
		{"run explain hangs", 0, []string{
			"Run hangs, kitchensink version 4: running in state perform since ", "  no worker answers: the first that starts goes on with it [no_workers]\n",
			"was to perform http.post and answers no more: another goes on when its message comes again [owner_lost]\n",
			"Not seen: redis: its address is not known (--redis host:port), so neither is who performs an effect\n",
		}, nil},
		{"run explain hangs --redis " + redis.Addr, 0, []string{"[no_workers]\n", "Not seen: redis: connect to redis: "}, nil},
		{"run explain hangs -o json", 0, []string{`"cause": "no_workers",`, `"code": "owner_lost",`, `"what": "redis",`}, nil},
		{"run explain ended", 0, []string{"  it has ended: succeeded [ended]\n", "    → pawl run result ended\n"}, nil},
	}
	for _, tt := range tests {
		got := ask(strings.Fields(tt.args)...)
		if got.code != tt.code {
			t.Errorf("pawl %s = %d\n%s\n%s", tt.args, got.code, got.stdout, got.stderr)
		}
		for _, want := range tt.stdout {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("pawl %s does not print %q, but\n%s", tt.args, want, got.stdout)
			}
		}
		if got.stderr != strings.Join(tt.stderr, "") {
			t.Errorf("pawl %s says %q, want %q", tt.args, got.stderr, tt.stderr)
		}
	}
}
