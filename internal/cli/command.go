package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/internal/config"
	"github.com/pawlrun/pawl/natsqueue"
)

// Tool is a command line while it is carried out. Its fields up to Format are
// set by the global flags.
type Tool struct {
	URL     string
	Prefix  string
	Timeout time.Duration
	Format  string // "table", "wide" or "json"

	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Getenv  func(string) string
	Environ func() []string
	Now     func() time.Time
	Width   int // of the terminal that Stdout is; 0 if it is none

	refused refusals
	config  *config.NATS // set by Configure
}

// Main carries out a command line, and returns the exit code.
func (t *Tool) Main(ctx context.Context, root *cobra.Command, args []string) int {
	f := root.PersistentFlags()
	f.StringVarP(&t.URL, "server", "s", "", "NATS server, or several divided by commas (default: $PAWL_NATS_URL, $NATS_URL, the selected nats context, "+DefaultURL+")")
	f.StringVar(&t.Prefix, "prefix", "", "first token of the fleet's subjects (default: $PAWL_PREFIX, "+natsqueue.DefaultPrefix+")")
	f.StringVarP(&t.Format, "output", "o", "table", "how to print: table, wide (nothing is shortened) or json")
	f.DurationVar(&t.Timeout, "timeout", 5*time.Second, "how long to wait for an answer of the server")
	// A completion that cannot be registered is only not offered.
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp))
	if t.Now == nil {
		t.Now = time.Now
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.refused.fatal = cancel
	// What fails before the command itself runs is a mistake in the command
	// line, whoever notices it.
	running := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := t.Check(); err != nil {
			return err
		}
		running = true
		return nil
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetIn(t.Stdin)
	root.SetOut(t.Stdout)
	root.SetErr(t.Stderr)
	for _, c := range append(root.Commands(), root) {
		group(c)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !running {
		if _, told := errors.AsType[*Error](err); !told {
			err = &Error{Err: err, Hint: "see " + cmd.CommandPath() + " --help", Code: Usage}
		}
	}
	if err != nil {
		// What ended the command says more than how it ended.
		if cause, told := errors.AsType[*Error](context.Cause(ctx)); told {
			err = cause
		}
	}
	return Report(t.Stderr, root.Name(), err)
}

func formats() []string { return []string{"table", "wide", "json"} }

// group makes a command that only holds others say so when it is given
// something else. cobra would print its help, and end well.
func group(c *cobra.Command) {
	if c.Runnable() || !c.HasSubCommands() {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := "see " + cmd.CommandPath() + " --help"
		if cmd.SuggestionsMinimumDistance <= 0 {
			cmd.SuggestionsMinimumDistance = 2
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, ", ") + "?"
		}
		return UsageErrorf(hint, "%q is no command of %s", args[0], cmd.CommandPath())
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// Check says what is wrong with the global flags, and sets what they leave open.
// Main calls it before a command; completions call it themselves.
func (t *Tool) Check() error {
	if !slices.Contains(formats(), t.Format) {
		return UsageErrorf("it is "+strings.Join(formats(), ", "), "-o %q is no format", t.Format)
	}
	if t.Timeout <= 0 {
		return UsageErrorf("a duration such as 5s", "--timeout is %v", t.Timeout)
	}
	if t.Prefix == "" {
		t.Prefix = t.Getenv("PAWL_PREFIX")
	}
	if t.Prefix == "" {
		t.Prefix = natsqueue.DefaultPrefix
	}
	if !prefixRE.MatchString(t.Prefix) {
		return UsageErrorf("a small letter, then at most 31 of a-z, 0-9, _ and -", "--prefix %q is no prefix", t.Prefix)
	}
	return nil
}

// prefixRE is the grammar of a prefix, which is a token of subjects and names
// streams.
var prefixRE = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// JSON reports whether a program reads the output.
func (t *Tool) JSON() bool { return t.Format == "json" }

// Exactly is cobra.ExactArgs with the names of what is missing.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s needs <%s>", cmd.CommandPath(), strings.Join(names[len(args):], "> <"))
		case len(args) > len(names):
			return fmt.Errorf("%s takes no further argument %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// AtLeast is for arguments of one kind, of which one is needed.
func AtLeast(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s needs <%s>", cmd.CommandPath(), name)
		}
		return nil
	}
}
