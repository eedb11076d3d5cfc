package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
)

func (a *app) diffCommand() *cobra.Command {
	limit := 100
	c := &cobra.Command{
		Use:   "diff <a> <b>",
		Short: "Say how two runs of a machine differ",
		Long: `Say how two runs of a machine differ: in their data, the way they went, what they
asked for and what came of it. A fork and its original are compared from where it
was forked.

They are compared visit by visit: the third time that one was in a state with the
third time that the other was. REVISIONS are those by which they entered it, "·" if one
did not. Data is as it was then, and what differs in the same way at the next visit is not
said again. Ids, times, workers and the way an effect was performed do not count. A state
that was left by the record that entered it is not seen.

Exit codes:
  0    the runs are the same
  1    an error: not found, or runs of different machines
  8    the runs differ`,
		Example: `  pawl run diff report-4412 report-4413
  pawl run fork agent-7 --at 12 --set prompt.style=brief --id agent-7-brief && pawl run diff agent-7 agent-7-brief
  pawl run diff inv-1 inv-2 -o json | jq '.differences[] | select(.what == "to")'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cli.Exactly("a", "b")(cmd, args); err != nil {
				return err
			}
			for _, id := range args {
				if err := checkRun(id); err != nil {
					return err
				}
			}
			if limit < 0 {
				return cli.UsageErrorf("0 is all", "--limit is %d", limit)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.diff(cmd.Context(), args[0], args[1], limit) },
	}
	c.Flags().IntVar(&limit, "limit", limit, "at most so many differences; 0: all")
	return c
}

func (a *app) diff(ctx context.Context, idA, idB string, limit int) error {
	f, err := a.Open(ctx, "pawl run diff")
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := f.Answers.Compare(ctx, idA, idB)
	if err != nil {
		return err
	}
	if a.JSON() {
		d, err := c.Diff(ctx, limit, 0)
		if err != nil {
			return err
		}
		if err := a.PrintJSON(d); err != nil {
			return err
		}
		return differs(d.Same)
	}
	for _, s := range []struct{ fork, of *api.Compared }{{&c.A, &c.B}, {&c.B, &c.A}} {
		if o := s.fork.Origin; o != nil && o.Run == s.of.ID {
			fmt.Fprintf(a.Stderr, "%s is a fork of %s, at revision %d: from there on\n", cli.Clean(s.fork.ID), cli.Clean(s.of.ID), o.Revision)
		}
	}
	t := a.PrintTable("REVISIONS", "STATE", "WHAT", idA, idB)
	n, more := 0, false
	for d, err := range c.Differences(ctx) {
		if err != nil {
			return err
		}
		if more = limit > 0 && n == limit; more {
			break
		}
		n++
		if err := t.Row(revisions(d), stateOf(d), whatOf(d), a.valueOf(d, d.A), a.valueOf(d, d.B)); err != nil {
			return err
		}
	}
	if _, err := t.End(); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(a.Stderr, "these are the first %d: see --limit\n", n)
	}
	if n == 0 {
		if _, err := fmt.Fprintf(a.Stdout, "runs %s and %s are the same: %s\n", cli.Clean(idA), cli.Clean(idB), both(c)); err != nil {
			return err
		}
	}
	return differs(n == 0)
}

// both says how far two runs are that are the same.
func both(c *api.Comparison) string {
	if c.A.Status.Ended() {
		return fmt.Sprintf("%s in state %s", c.A.Status, c.A.State)
	}
	return fmt.Sprintf("so far, %s in state %s", c.A.Status, c.A.State)
}

func differs(same bool) error {
	if same {
		return nil
	}
	return &cli.Error{Err: cli.ErrSilent, Code: exitDiffers}
}

func revisions(d *api.Difference) string {
	rev := func(n uint64) string {
		if n == 0 {
			return "·"
		}
		return fmt.Sprint(n)
	}
	return rev(d.RevA) + " " + rev(d.RevB)
}

func stateOf(d *api.Difference) string {
	if d.Visit > 1 {
		return fmt.Sprintf("%s (%d)", d.State, d.Visit)
	}
	return d.State
}

func whatOf(d *api.Difference) string {
	if d.Field == "" {
		return d.What
	}
	return d.What + " " + d.Field
}

// valueOf is what one of the runs has there.
func (a *app) valueOf(d *api.Difference, v string) string {
	switch {
	case v == "":
		return "-"
	case d.What == "visit":
		return "was here"
	case a.Format == "wide":
		return v
	}
	return cli.Clip(v, 60)
}
