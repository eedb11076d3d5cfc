package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

func (a *app) historyCommand() *cobra.Command {
	epoch := -1
	c := &cobra.Command{
		Use:   "history <id>",
		Short: "Show all records of a run",
		Long: `Show all records of a run, oldest first: the events that were applied, the
transition, and the effects that were asked for.

A run that has rolled goes on in another epoch. Of its records, those of this epoch and the one
before stay, and 1,000 at least; what is older is removed once an hour.`,
		Example: `  pawl run history report-4412
  pawl run history agent-7 --epoch 12
  pawl run history report-4412 -o json | jq '.[].events[].kind'`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("epoch") && epoch < 0 {
				return fmt.Errorf("epoch %d is not 0 or more", epoch)
			}
			return a.history(cmd.Context(), args[0], epoch)
		},
	}
	c.Flags().IntVar(&epoch, "epoch", -1, "show only the records of this epoch: 0 until the run rolled first; -1: all")
	return c
}

// ofEpoch leaves out the revisions of other epochs; -1 is all.
func ofEpoch(all iter.Seq2[*api.Revision, error], epoch int) iter.Seq2[*api.Revision, error] {
	return func(yield func(*api.Revision, error) bool) {
		for r, err := range all {
			if (err != nil || epoch < 0 || r.Epoch == epoch) && !yield(r, err) {
				return
			}
		}
	}
}

func (a *app) history(ctx context.Context, id string, epoch int) error {
	f, err := a.Open(ctx, "pawl run history")
	if err != nil {
		return err
	}
	defer f.Close()
	if a.JSON() {
		array := a.PrintArray()
		for r, err := range ofEpoch(f.Answers.History(ctx, id), epoch) {
			if err != nil {
				return err
			}
			if err := array.Add(r); err != nil {
				return err
			}
		}
		return array.End()
	}
	at := cli.Time
	if a.Width > 0 && a.Width < 120 && a.Format != "wide" {
		at = func(at time.Time) string { return at.Local().Format("01-02 15:04:05.000") }
	}
	t := a.PrintTable("REV", "AT", "EVENTS", "FROM", "TO", "STATUS", "EFFECTS", "BUILD")
	for r, err := range ofEpoch(f.Answers.History(ctx, id), epoch) {
		if err != nil {
			return err
		}
		if err := t.Row(r.Revision, at(r.At), events(r), from(r), r.To, r.Status, strings.TrimPrefix(effects(r), "  "), r.Build); err != nil {
			return err
		}
	}
	n, err := t.End()
	if err == nil && n == 0 {
		err = fmt.Errorf("run %s has no records of epoch %d", id, epoch)
	}
	return err
}

// events are the events of a revision on one line.
func events(r *api.Revision) string {
	var all []string
	for _, e := range r.Events {
		s := string(e.Kind)
		if e.Name != "" {
			s += " " + e.Name
		}
		if e.Error != nil {
			s += " (" + firstLine(causeText(e.Error)) + ")"
		}
		if e.Recorded {
			s += " (recorded)"
		}
		if c := e.Command; c != nil {
			if c.By != "" {
				s += " by " + c.By
			}
			if c.Reason != "" {
				s += " (" + c.Reason + ")"
			}
		}
		all = append(all, s)
	}
	if r.Rolled {
		all = append(all, fmt.Sprintf("epoch %d begins", r.Epoch))
	}
	return strings.Join(all, ", ")
}

// firstLine is a text without the lines after its first, such as the stack of a
// panic; run show has the whole.
func firstLine(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if more {
		line += " …"
	}
	return line
}

func from(r *api.Revision) string {
	if r.From == "" {
		return "·"
	}
	return r.From
}

// effects are the effects of a revision, with an arrow before each.
func effects(r *api.Revision) string {
	s := ""
	for _, e := range r.Effects {
		s += "  ⇒ "
		if e.Undoes != "" {
			s += "undo "
		}
		s += e.Effect
		if e.Child != nil {
			s += " " + e.Child.ID
		}
		if e.Place != statemachine.Inline {
			s += " (" + string(e.Place) + ")"
		}
	}
	return s
}
