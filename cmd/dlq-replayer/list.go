package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/cli"
)

func (a *app) listCommand() *cobra.Command {
	var f deadletter.Filter
	var kind string
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List dead letters, oldest first",
		Long: `List dead letters, oldest first, all of them: they are printed while they are
read. Letters with the same fingerprint are of the same fault.`,
		Example: `  dlq-replayer ls
  dlq-replayer ls --kind effect --class http_4xx
  dlq-replayer ls -o json | jq -r .[].fingerprint | sort | uniq -c`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Kind = deadletter.Kind(kind)
			if err := f.Validate(); err != nil {
				return cli.UsageErrorf("see dlq-replayer ls --help", "--kind: %w", err)
			}
			return a.list(cmd.Context(), f)
		},
	}
	var kinds []string
	for _, k := range deadletter.Kinds() {
		kinds = append(kinds, string(k))
	}
	flags := c.Flags()
	flags.StringVar(&kind, "kind", "", "only letters of this kind: "+strings.Join(kinds, ", "))
	flags.StringVar(&f.Machine, "machine", "", "only letters of this machine")
	flags.StringVar(&f.State, "state", "", "only letters of runs in this state")
	flags.StringVar(&f.Class, "class", "", "only letters of this class of failure")
	flags.StringVar(&f.Effect, "effect", "", "only letters of this effect type")
	flags.StringVar(&f.Run, "run", "", "only letters of this run")
	flags.StringVar(&f.Print, "fingerprint", "", "only letters of this fault")
	// A completion that cannot be registered is only not offered.
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// printer prints letters one by one.
type printer interface {
	letter(l deadletter.Letter) error
	end() error
}

func (a *app) list(ctx context.Context, filter deadletter.Filter) error {
	f, err := a.Open(ctx, "dlq-replayer ls")
	if err != nil {
		return err
	}
	defer f.Close()
	var p printer = &rows{app: a, t: a.PrintTable("SEQ", "KIND", "MACHINE", "RUN", "STATE", "EFFECT", "CLASS", "ATTEMPTS", "LAST", "CAUSE"), now: a.Now()}
	if a.JSON() {
		p = &array{a.PrintArray()}
	}
	damaged := false
	for l, err := range f.Answers.Mail(ctx, filter, 0) {
		switch {
		case err != nil && l.Seq == 0:
			return err
		case err != nil: // about this letter alone
			damaged = true
			fmt.Fprintf(a.Stderr, "dlq-replayer: %v\n", err)
		default:
			if err := p.letter(l); err != nil {
				return err
			}
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	if damaged {
		return cli.ErrSilent
	}
	return nil
}

// rows prints letters for people.
type rows struct {
	*app
	t   *cli.Table
	now time.Time
}

func (r *rows) letter(l deadletter.Letter) error {
	attempts := ""
	if l.Attempts > 0 {
		attempts = fmt.Sprint(l.Attempts)
	}
	return r.t.Row(l.Seq, l.Kind, l.Machine, l.Run, l.State, l.Effect, l.Class, attempts, cli.Age(r.now, l.Last), cli.Clip(cli.Clean(l.Cause), 100))
}

func (r *rows) end() error {
	n, err := r.t.End()
	if err == nil && n == 0 {
		fmt.Fprintln(r.Stderr, "no letters")
	}
	return err
}

// array prints letters for programs, without what only show shows.
type array struct{ *cli.Array }

func (a *array) letter(l deadletter.Letter) error {
	l.Headers, l.Body = nil, nil
	return a.Add(l)
}

func (a *array) end() error { return a.End() }
