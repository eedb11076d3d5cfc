package pawl_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/client"
)

const nodeExample = "examples/node"

// The producer in Node.js does what its page says, against a fleet. What it
// needs is installed by .ci/run; elsewhere, by "npm ci" in its folder.
func TestNodeExample(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(nodeExample + "/node_modules")
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Logf("not run: %v", err)
		return
	}
	f := realServers(t)
	startProcess(t, f.env)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, node, "producer.mjs", "report-4412")
	c.Dir = nodeExample
	c.Env = append(os.Environ(), "NATS_URL="+f.env["PAWL_NATS_URL"])
	out, err := c.CombinedOutput()
	want := "report-4412 is stored\nreport-4412 succeeded: The pump ran without a stop.\n"
	if err != nil || string(out) != want {
		t.Errorf("producer.mjs: %v, it printed\n%s\nwant\n%s", err, out, want)
	}
	page, err := os.ReadFile("docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(nodeExample + "/producer.mjs")
	if err != nil {
		t.Fatal(err)
	}
	code := string(source)[strings.Index(string(source), "import "):] // without the comment at its head
	for _, part := range []string{code, want} {
		if !strings.Contains(string(page), part) {
			t.Errorf("docs/wire.md does not show\n%s", part)
		}
	}
}

// Whoever waits for a run does not notice that the worker that was asked is
// killed, with the question and the run in its hands.
func TestWaitSurvivesAKilledWorker(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	first := startProcess(t, f.env)
	s := newSink(t, func(n int) time.Duration {
		if n == 1 {
			return time.Minute // cut short by the kill
		}
		return 0
	})
	c, err := client.Connect(f.env["PAWL_NATS_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	input := fmt.Sprintf(`{"steps":[{"do":"http.post","input":{"url":%q}}]}`, s.URL)
	if _, err := c.Start(t.Context(), "kitchensink", []byte(input), client.StartOptions{ID: "killed"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		r, err := c.Wait(ctx, "killed")
		if err == nil && r.Status != client.StatusSucceeded {
			err = fmt.Errorf("it %s", r.Status)
		}
		done <- err
	}()
	eventually(t, 30*time.Second, "a call", func() bool { return len(s.snapshot()) == 1 })
	first.kill()
	startProcess(t, f.env)
	if err := <-done; err != nil {
		t.Errorf("Wait: %v", err)
	}
}
