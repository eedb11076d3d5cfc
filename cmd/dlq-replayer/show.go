package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show <seq>",
		Short: "Show everything about a dead letter",
		Example: `  dlq-replayer show 17
  dlq-replayer show 17 -o json | jq .body`,
		Args: cli.Exactly("seq"),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := sequence(args[0])
			if err != nil {
				return err
			}
			return a.show(cmd.Context(), seq)
		},
	}
}

func (a *app) show(ctx context.Context, seq uint64) error {
	f, err := a.Open(ctx, "dlq-replayer show")
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := f.Answers.Letter(ctx, seq)
	if l == nil {
		return err
	}
	// A letter that cannot be read in full is shown as far as it can.
	print := a.printLetter
	if a.JSON() {
		print = func(l *api.Letter) error { return a.PrintJSON(l) }
	}
	if e := print(l); e != nil {
		return e
	}
	return err
}

func (a *app) printLetter(l *api.Letter) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	now := a.Now()
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, cli.Clean(value))
		}
	}
	number := func(name string, n uint64) {
		if n > 0 {
			field(name, strconv.FormatUint(n, 10))
		}
	}
	moment := func(name string, at time.Time) {
		if !at.IsZero() {
			field(name, cli.Time(at)+" ("+cli.Age(now, at)+")")
		}
	}
	field("Letter", fmt.Sprint(l.Seq))
	field("Id", l.ID)
	field("Kind", string(l.Kind))
	field("Class", l.Class)
	field("Cause", l.Cause)
	number("Attempts", uint64(max(0, l.Attempts)))
	field("Machine", l.Machine)
	field("Run", l.Run)
	field("State", l.State)
	field("Effect", l.Effect)
	field("Effect id", l.EffectID)
	field("Key", l.Key)
	field("Fingerprint", l.Print)
	moment("First failure", l.First)
	moment("Last failure", l.Last)
	field("Build", l.Build)
	number("Redrives", uint64(max(0, l.Redrives)))
	field("Source", l.Source)
	number("Source sequence", l.SrcSeq)
	if err := w.Flush(); err != nil {
		return err
	}
	if len(l.Headers) > 0 {
		fmt.Fprintln(a.Stdout, "\nHeaders:")
		for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
			fmt.Fprintf(a.Stdout, "  %s: %s\n", cli.Clean(name), cli.Clean(l.Headers[name]))
		}
	}
	return a.printBody(l)
}

func (a *app) printBody(l *api.Letter) error {
	what, body := "Body", cli.Pretty(l.Body)
	switch {
	case len(l.Data) > 0:
		what, body = fmt.Sprintf("Body, %d bytes that are no text", len(l.Data)), fmt.Sprintf("%q", l.Data[:min(len(l.Data), 512)])
	case l.Text != "":
		what, body = "Body, text", l.Text
	case len(l.Body) == 0:
		return nil
	}
	lines := strings.Split(body, "\n")
	for i, line := range lines {
		lines[i] = "  " + cli.CleanKeepingBlanks(line)
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%s:\n%s\n", what, strings.Join(lines, "\n"))
	return err
}
