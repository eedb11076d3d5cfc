package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/internal/cli"
)

// change is the command line of a command that changes letters.
type change struct {
	selection
	cli.Bulk
	every bool
	edit  string
}

// Tool is that of the commands; both of the embedded have it.
func (c *change) tool() *cli.Tool { return c.app.Tool }

const redriveLong = `Letters are read as of now; one that comes back meanwhile is not re-driven again.
An effect's is an event to its run, which tries the effect anew with all its
attempts and the same idempotency key; a start or a signal goes back to its
stream under the id that it had. Each letter goes when that is durable, so a
redrive that was interrupted, by whatever it was, goes on when it is given again:
nothing is lost, or done twice.

Refused, and left where they are, are letters whose run has moved on or has
ended, or has a newer letter, and those of machines that no worker has
registered. What fails again comes back as a new letter that counts its redrives.

With --edit, a JSON merge patch (RFC 7396) changes the input: fields replace
those that are there, null removes one. An edited effect is another request, so
it has another idempotency key: if one of the attempts before did get through, it
is done twice, so look first. One with a business key cannot be edited.`

const changeCodes = `Exit codes:
  0    all that was selected is done
  1    nothing was selected, some were refused, or an error: see standard error
  2    the command line is wrong, and nothing was changed
  7    stopped by --canary or --stop-on-failure-ratio: the rest is as it was
  130  interrupted by a signal`

func (a *app) redriveCommand() *cobra.Command {
	c := &change{selection: selection{app: a}, Bulk: cli.Bulk{Tool: a.Tool, What: "redrive letters", Done: "re-driven", Things: "letters"}}
	cmd := &cobra.Command{
		Use:   "redrive [<seq>...]",
		Short: "Try anew what was given up",
		Long:  "Try anew what was given up, of the letters that are named or selected.\n\n" + redriveLong + "\n\n" + changeCodes,
		Example: `  dlq-replayer redrive 17 --reason 'the address is right now'
  dlq-replayer plan --fingerprint 8sJ0cXqMZ1uBvE5dJ7m3Vw
  dlq-replayer redrive --fingerprint 8sJ0cXqMZ1uBvE5dJ7m3Vw --reason INC-4412 --yes --canary 3 --rate 50
  dlq-replayer redrive --effect email.send --class http_4xx --reason INC-4412 --edit '{"to":"post@example.com"}'`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.redrive(cmd, args, false) },
	}
	c.selection.flags(cmd)
	c.Flags(cmd)
	c.WatchFlags(cmd)
	cmd.Flags().StringVar(&c.edit, "edit", "", "JSON merge patch of the input")
	cmd.Flags().BoolVar(&c.every, "all", false, "all letters there are")
	return cmd
}

func (a *app) planCommand() *cobra.Command {
	c := &change{selection: selection{app: a}, Bulk: cli.Bulk{Tool: a.Tool, Done: "re-driven", Things: "letters"}}
	cmd := &cobra.Command{
		Use:   "plan [<seq>...]",
		Short: "Show what redrive would do, and do nothing",
		Long: `Show what redrive would do, and do nothing: which effects would be performed
again, which letters would be refused, and why.

` + redriveLong,
		Example: `  dlq-replayer plan
  dlq-replayer plan --machine invoice --since 2h
  dlq-replayer plan --fingerprint 8sJ0cXqMZ1uBvE5dJ7m3Vw -o json | jq .reasons`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.redrive(cmd, args, true) },
	}
	c.selection.flags(cmd)
	cmd.Flags().IntVar(&c.Options.Limit, "limit", 0, "at most so many; 0: all")
	cmd.Flags().StringVar(&c.edit, "edit", "", "JSON merge patch of the input")
	return cmd
}

func (a *app) discardCommand() *cobra.Command {
	c := &change{selection: selection{app: a}, Bulk: cli.Bulk{Tool: a.Tool, What: "discard letters", Done: "discarded", Things: "letters"}}
	cmd := &cobra.Command{
		Use:   "discard [<seq>...]",
		Short: "Remove letters for ever",
		Long: `Remove letters for ever. Nothing else changes: a run that is parked stays so, and
pawl run cancel ends it. The letter of a start or a signal is the only copy of what
somebody asked for: export it first.

` + changeCodes,
		Example: `  dlq-replayer discard 17 --reason 'a test of mine'
  dlq-replayer export --class malformed > malformed.jsonl
  dlq-replayer discard --class malformed --reason 'sent anew by the shop' --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			job := func(f *cli.Fleet) *bulk.Job[*deadletter.Case] {
				d := deadletter.Discarder{Fleet: f.Queue.Mailroom()}
				return &bulk.Job[*deadletter.Case]{Decide: d.Decide, Do: d.Do}
			}
			return c.run(cmd, args, false, job)
		},
	}
	c.selection.flags(cmd)
	c.Flags(cmd)
	cmd.Flags().BoolVar(&c.every, "all", false, "all letters there are")
	return cmd
}

func (c *change) redrive(cmd *cobra.Command, args []string, plan bool) error {
	if cmd.Flags().Changed("edit") {
		var v any
		if err := json.Unmarshal([]byte(c.edit), &v); err != nil {
			return cli.JSONErrorf("--edit", []byte(c.edit), err)
		}
	}
	return c.run(cmd, args, plan, func(f *cli.Fleet) *bulk.Job[*deadletter.Case] {
		r := deadletter.Redriver{Fleet: f.Queue.Mailroom(), By: c.By, Reason: c.Reason, Edit: []byte(c.edit)}
		return &bulk.Job[*deadletter.Case]{Decide: r.Decide, Do: r.Do, Outcome: r.Outcome}
	})
}

// run checks the command line, and carries it out.
func (c *change) run(cmd *cobra.Command, args []string, plan bool, job func(*cli.Fleet) *bulk.Job[*deadletter.Case]) error {
	c.strict = true
	if err := c.check(cmd.CommandPath(), args); err != nil {
		return err
	}
	if !plan {
		if err := c.Check(cmd.CommandPath()); err != nil {
			return err
		}
		if len(c.seqs) == 0 && c.all() != c.every {
			if c.every {
				return cli.UsageErrorf("leave one off", "--all and a selection are both given")
			}
			return cli.UsageErrorf("name them, select them, or say --all", "%s which letters?", cmd.Name())
		}
	}
	ctx := cmd.Context()
	f, err := c.tool().Open(ctx, cmd.CommandPath())
	if err != nil {
		return err
	}
	defer f.Close()
	if !plan && !c.Yes {
		if err := c.single(ctx, f, cmd.Name()); err != nil {
			return err
		}
	}
	j := job(f)
	j.Items, j.Name = c.cases(ctx, f), (*deadletter.Case).Name
	return cli.RunBulk(ctx, &c.Bulk, f, j, plan, c.said(), c.edit)
}

// single refuses to change more than one letter unless that is meant.
func (c *change) single(ctx context.Context, f *cli.Fleet, verb string) error {
	if c.Options.Limit == 1 {
		return nil
	}
	n := 0
	for _, err := range c.cases(ctx, f) {
		if err != nil {
			return err
		}
		n++
	}
	if n <= 1 {
		return nil
	}
	hint := "look at it with dlq-replayer ls and the same selection; then add --yes"
	if verb == "redrive" {
		hint = strings.Replace(hint, " ls ", " plan ", 1)
	}
	return &cli.Error{Err: fmt.Errorf("%d letters are selected, and nothing was changed", n), Hint: hint, Code: cli.Usage}
}
