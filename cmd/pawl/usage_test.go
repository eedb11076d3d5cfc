package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/internal/cli"
)

// outcome is what a command line came to.
type outcome struct {
	code           int
	stdout, stderr string
}

// execute carries out a command line, with standard input and an environment.
func execute(ctx context.Context, stdin string, env map[string]string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	tool := &cli.Tool{
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) string { return env[name] },
		Environ: func() (all []string) {
			for k, v := range env {
				all = append(all, k+"="+v)
			}
			return all
		},
	}
	code := tool.Main(ctx, root(tool), args)
	return outcome{code, stdout.String(), stderr.String()}
}

// lockedBuffer is what a command says while it runs. The buffer is not
// embedded: its other methods would go past the lock.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// executeTo carries out a command line whose output is looked at meanwhile.
func executeTo(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	none := func(string) string { return "" }
	tool := &cli.Tool{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Getenv: none, Environ: func() []string { return nil }}
	return tool.Main(ctx, root(tool), args)
}

func pawlWith(t *testing.T, stdin string, env map[string]string, args ...string) outcome {
	t.Helper()
	return execute(t.Context(), stdin, env, args...)
}

func pawlRun(t *testing.T, args ...string) outcome {
	t.Helper()
	return execute(t.Context(), "", nil, args...)
}

// interrupted carries out a command line until a signal comes.
func interrupted(t *testing.T, after time.Duration, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(after, cancel)
	defer timer.Stop()
	return execute(ctx, "", nil, args...)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args   string
		code   int
		stderr string
	}{
		{"", 0, ""},
		{"run", 0, ""},
		{"run start --help", 0, ""},
		{"foo", 2, `pawl: "foo" is no command of pawl (see pawl --help)`},
		{"run strat", 2, `pawl: "strat" is no command of pawl run (did you mean start?)`},
		{"run start", 2, "pawl: pawl run start needs <machine> (see pawl run start --help)"},
		{"run start a b", 2, `pawl: pawl run start takes no further argument "b" (see pawl run start --help)`},
		{"run start A", 2, `pawl: "A" is no name of a machine (see pawl run start --help)`},
		{"run start a.b", 2, `pawl: "a.b" is no name of a machine (see pawl run start --help)`},
		{"run start a --input {", 2, "pawl: the input is not JSON: unexpected end of JSON input (--input, line 1, column 2)"},
		{"run start a --input {} -", 2, "pawl: the input is given twice: it is one of --input, --file and - (see pawl run start --help)"},
		{"run start a --input {} -f b", 2, "pawl: the input is given twice: it is one of --input, --file and - (see pawl run start --help)"},
		{"run start a -f /none", 1, "pawl: read the input: open /none: no such file or directory"},
		{"run start a --version -1", 2, "pawl: --version is -1 (versions count from 1)"},
		{"run start a --id=", 2, "pawl: --id is empty: leave it off to have an id made (see pawl run start --help)"},
		{"run start a --version 0", 2, "pawl: --version is a number from 1: leave it off for the highest (see pawl run start --help)"},
		{"run start a --priority urgent", 2, `pawl: --priority: priority "urgent" is not high, normal or low (see pawl run start --help)`},
		{"run start a --tenant=", 2, "pawl: --tenant: tenant is empty (see pawl run start --help)"},
		{"run ls --machine A.b", 2, `pawl: --machine "A.b" is no name of a machine (pawl machine ls)`},
		{"run explain", 2, "pawl: pawl run explain needs <id> (see pawl run explain --help)"},
		{"run show", 2, "pawl: pawl run show needs <id> (see pawl run show --help)"},
		{"run ls --where customer=", 2, `pawl: --where customer= has no value (name the value, or leave it off)`},
		{"run cancel --where customer= --reason x --yes", 2, `pawl: --where customer= has no value (name the value, or leave it off)`},
		{"run ls --status done", 2, `pawl: --status "done" is no status (it is one of running, parked, paused, succeeded, failed, cancelled)`},
		{"run ls --limit -1", 2, "pawl: --limit is -1 (0 is all of them)"},
		{"run ls extra", 2, `pawl: pawl run ls takes no further argument "extra" (see pawl run ls --help)`},
		{"run ls -o yaml", 2, `pawl: -o "yaml" is no format (it is table, wide, json)`},
		{"run ls --timeout 0s", 2, "pawl: --timeout is 0s (a duration such as 5s)"},
		{"run ls --colour", 2, "pawl: unknown flag: --colour (see pawl run ls --help)"},
		{"run ls --prefix A.b", 2, `pawl: --prefix "A.b" is no prefix (a small letter, then at most 31 of a-z, 0-9, _ and -)`},
		{"run ls --as a.b", 2, `pawl: invalid argument "a.b" for "--as" flag: user "a.b" is not one token of a subject, of at most 64 bytes (see pawl run ls --help)`},
		{"run cancel a --as >", 2, `pawl: invalid argument ">" for "--as" flag: user ">" is not one token of a subject, of at most 64 bytes (see pawl run cancel --help)`},
		{"run wait", 2, "pawl: pawl run wait needs <id> (see pawl run wait --help)"},
		{"run wait a --for 0s", 2, "pawl: --for is 0s (a duration such as 10m)"},
		{"run watch a b", 2, `pawl: pawl run watch takes no further argument "b" (see pawl run watch --help)`},
		{"run ls --since yesterday", 2, `pawl: --since "yesterday" is no point in time (such as 2h, 3d, 2026-10-31 or 2026-10-31T08:00:00Z)`},
		{"run ls --since 1h --until 2h", 2, "pawl: --since 1h is not before --until 2h (nothing is between them)"},
		{"run ls --from redis", 2, `pawl: --from "redis" is no source (it is one of history, index)`},
		{"run ls --all --limit 5", 2, "pawl: --all and --limit are both given (leave one off)"},
		{"run ls --state Done", 2, `pawl: --state "Done" is no name of a state (pawl machine show)`},
		{"run signal a", 2, "pawl: pawl run signal needs <name> (see pawl run signal --help)"},
		{"run signal a b {", 2, "pawl: the input is not JSON: unexpected end of JSON input (the third argument, line 1, column 2)"},
		{"run signal a b {} c", 2, `pawl: pawl run signal takes no further argument "c" (see pawl run signal --help)`},
		{"run signal a b {} -f x", 2, "pawl: the body is given twice: it is one of <json>, --file and - (see pawl run signal --help)"},
		{"run signal a B", 2, `pawl: "B" is no name of a signal (see pawl run signal --help)`},
		{"run cancel", 2, "pawl: pawl run cancel needs <id> (see pawl run cancel --help)"},
		{"run resume a --to done", 2, "pawl: --to is for runs that are named, and needs --reason (see pawl run resume --help)"},
		{"run resume --machine a --to done --reason x --yes", 2, "pawl: --to is for runs that are named, and needs --reason (see pawl run resume --help)"},
		{"run cancel a --id=", 2, "pawl: --id is empty (leave it off to have an id made)"},
		{"run cancel a --effect e", 2, "pawl: unknown flag: --effect (see pawl run cancel --help)"},
		{"machine show A", 2, `pawl: "A" is no name of a machine (see pawl machine show --help)`},
		{"machine graph nonesuch", 1, "pawl: this build has no such machine: nonesuch (see pawl machine ls --build)"},
		{"bench --runs 0", 2, "pawl: the number of runs is 0, not at least 1 (see pawl bench --help)"},
		{"bench --serial --inflight 5", 2, "pawl: --serial has one run in flight, and --inflight says how many (leave one off)"},
		{"run ls -s nats://127.0.0.1:1", 1, "pawl: connect to NATS at nats://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused (is it running? named by -s; name another with -s URL)"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			got := pawlRun(t, strings.Fields(tt.args)...)
			if got.code != tt.code || strings.TrimSuffix(got.stderr, "\n") != tt.stderr {
				t.Errorf("pawl %s = %d, %q, want %d, %q", tt.args, got.code, got.stderr, tt.code, tt.stderr)
			}
			if (got.stdout != "") != (tt.code == 0) {
				t.Errorf("pawl %s printed %q", tt.args, got.stdout)
			}
		})
	}
}

// An id that no header would carry is a mistake in the command line, whatever
// the command is.
func TestIDsThatAreNone(t *testing.T) {
	t.Parallel()
	for id, says := range map[string]string{
		"": "empty", " a": "blanks at its ends", "a ": "blanks at its ends", "a\nb": "control characters", "a\xff": "UTF-8", strings.Repeat("x", 257): "256",
	} {
		for _, command := range []string{"show", "history", "watch", "wait", "result", "cancel", "pause", "resume", "retry"} {
			got := pawlRun(t, "run", command, id)
			if got.code != 2 || !strings.Contains(got.stderr, says) || !strings.HasSuffix(got.stderr, "(see pawl run "+command+" --help)\n") {
				t.Errorf("pawl run %s %q = %+v, want %q", command, id, got, says)
			}
		}
	}
}

// Every command says how it is used.
func TestExamples(t *testing.T) {
	t.Parallel()
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.Runnable() && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s --help has no example of it: %q", c.CommandPath(), c.Example)
		}
		if c.Runnable() && c.Long == "" && c.Short == "" {
			t.Errorf("%s --help does not say what it is", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(root(&cli.Tool{}))
}

func TestMachines(t *testing.T) {
	t.Parallel()
	got := pawlRun(t, "machine", "ls", "--build")
	for _, says := range []string{"MACHINE", "invoice      1", "kitchensink", "report"} {
		if !strings.Contains(got.stdout, says) {
			t.Errorf("pawl machine ls --build has no %q:\n%s", says, got.stdout)
		}
	}
	if got := pawlRun(t, "machine", "graph", "report"); got.code != 0 || !strings.Contains(got.stdout, "stateDiagram-v2") {
		t.Errorf("pawl machine graph report = %+v", got)
	}
	for args, want := range map[string]string{
		"machine graph":                   "invoice\nkitchensink\nonboarding\nrenewal\nreport\nschedule\ntrip\n",
		"run ls --machine":                "invoice\nkitchensink\nonboarding\nrenewal\nreport\nschedule\ntrip\n",
		"run ls --status":                 "running\nparked\npaused\n",
		"run ls --from":                   "history\nindex\n",
		"run ls --machine report --state": "",
		"run ls -o":                       "table\nwide\njson\n",
	} {
		if got := pawlRun(t, append(append([]string{"__complete"}, strings.Fields(args)...), "")...); !strings.HasPrefix(got.stdout, want) || got.code != 0 {
			t.Errorf("the completion of pawl %s is %+v", args, got)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := pawlRun(t, "completion", shell); got.code != 0 || !strings.Contains(got.stdout, "pawl") {
			t.Errorf("pawl completion %s = %d, %s", shell, got.code, got.stderr)
		}
	}
}
