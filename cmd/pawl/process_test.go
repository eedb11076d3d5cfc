package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pawlrun/pawl/internal/natstest"
)

// TestMain lets the test binary be pawl, or a worker, for what only a process
// can show.
func TestMain(m *testing.M) {
	if os.Getenv("PAWL_TEST_AS_WORKER") != "" {
		if err := asWorker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("PAWL_TEST_AS_PROCESS") != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is pawl as a process of its own.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), "PAWL_TEST_AS_PROCESS=1")
	return c
}

// Who stops reading, such as head, is no error to tell of.
func TestClosedPipeIsQuiet(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	var stderr bytes.Buffer
	c := process(t, "machine", "graph", "report")
	c.Stdout, c.Stderr = w, &stderr
	err = c.Run()
	w.Close()
	e, ok := errors.AsType[*exec.ExitError](err)
	if !ok || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE || stderr.Len() > 0 {
		t.Errorf("with a closed pipe it ended with %v, %q", err, stderr.String())
	}
}

// A signal ends what waits: one line, exit code 130, and what was printed is
// whole.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	node := natstest.One(t, natstest.Inside) // it is asked who listens
	url := node.URL()
	if got := pawlRun(t, "-s", url, "provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	begin(t, url, "r")
	for _, args := range []string{"run watch r", "run wait r r", "run result r --wait"} {
		var stdout, stderr lockedBuffer
		c := process(t, append([]string{"-s", url}, strings.Fields(args)...)...)
		c.Stdout, c.Stderr = &stdout, &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		follows := strings.Contains(args, "watch")
		if follows {
			natstest.Await(t, "the first record", func() bool { return stdout.String() != "" })
		}
		natstest.Await(t, "its connection", func() bool { return subscribed(node, "pawl "+strings.Join(strings.Fields(args)[:2], " ")) })
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		err := c.Wait()
		e, ok := errors.AsType[*exec.ExitError](err)
		if !ok || e.ExitCode() != 130 || stderr.String() != "pawl: interrupted\n" || follows != strings.HasSuffix(stdout.String(), "⇒ noop (queued)\n") {
			t.Errorf("pawl %s, interrupted, ended with %v\n%s\n%s", args, err, stdout.String(), stderr.String())
		}
	}
}

// subscribed reports whether a client of this name is there and listens for
// answers.
func subscribed(n *natstest.Node, name string) bool {
	z, err := n.Server().Connz(&server.ConnzOptions{Subscriptions: true})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(z.Conns, func(c *server.ConnInfo) bool { return c.Name == name && len(c.Subs) > 0 && c.InMsgs > 2 })
}
