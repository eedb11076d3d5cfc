package client_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/transitions"
)

// natsURL is where the NATS of the fleet of this package's tests is.
var natsURL string

// TestMain runs a whole fleet, of the machines that ship with it.
func TestMain(m *testing.M) {
	code, err := withFleet(m.Run)
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the fleet:", err)
		code = 1
	}
	os.Exit(code)
}

func withFleet(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "pawl-client-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	cfg := pawl.Default()
	cfg.DataDir, cfg.NATS.Listen, cfg.Redis.Listen, cfg.HTTP.Addr = dir, "127.0.0.1:0", "127.0.0.1:0", ""
	cfg.Log.Level = 8
	catalog, err := transitions.Catalog(transitions.Config{AllowHosts: []string{"127.0.0.1"}, FileDir: dir, Out: io.Discard})
	if err != nil {
		return 1, err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p, err := pawl.Open(ctx, cfg, catalog)
	if err != nil {
		return 1, err
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	select {
	case <-p.Up():
	case err := <-done:
		return 1, err
	}
	natsURL = p.NATSURL()
	code = run()
	stop()
	return code, <-done
}

// The page shows the example as it is run here.
func TestPageShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(source), "func Example() {\n")
	example, expected, ok := strings.Cut(example, "\n	// Output:\n")
	if !ok {
		t.Fatal("the example has no output")
	}
	for _, part := range []string{example, strings.NewReplacer("	// ", "", "}\n", "").Replace(expected)} {
		if part = strings.ReplaceAll(strings.TrimSpace(part), "natsURL) // such as nats://127.0.0.1:4222", "\"nats://127.0.0.1:4222\")"); !strings.Contains(untabbed(string(page)), untabbed(part)) {
			t.Errorf("docs/client.md does not show\n%s", part)
		}
	}
}

// untabbed is a text without the indentation of its lines.
func untabbed(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}
