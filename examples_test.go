package pawl_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const nodeExample = "examples/node"

// The producer in Node.js does what its page says, against a fleet. What it
// needs is installed by .ci/run; elsewhere, by "npm ci" in its folder.
func TestNodeExample(t *testing.T) {
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
