package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

func statuses() []string {
	return []string{
		string(statemachine.StatusRunning), string(statemachine.StatusParked), string(statemachine.StatusSucceeded),
		string(statemachine.StatusFailed), string(statemachine.StatusCancelled),
	}
}

func (a *app) listCommand() *cobra.Command {
	var f api.Filter
	var status string
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List runs, those that moved last first",
		Long: `List runs by their last records, those that moved last first. It reads the last
record of every run of the fleet.`,
		Example: `  pawl run ls
  pawl run ls --machine invoice --status parked
  pawl run ls --where customer=customer-17 --limit 0 -o json`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if status != "" && !slices.Contains(statuses(), status) {
				return cli.UsageErrorf("it is one of "+strings.Join(statuses(), ", "), "--status %q is no status", status)
			}
			if f.Machine != "" && !machineName.MatchString(f.Machine) {
				return cli.UsageErrorf("pawl machine ls", "--machine %q is no name of a machine", f.Machine)
			}
			if f.Limit < 0 {
				return cli.UsageErrorf("0 is all of them", "--limit is %d", f.Limit)
			}
			f.Status = statemachine.Status(status)
			return a.list(cmd.Context(), f)
		},
	}
	c.Flags().StringVar(&f.Machine, "machine", "", "only runs of this machine")
	c.Flags().StringVar(&f.State, "state", "", "only runs in this state")
	c.Flags().StringVar(&status, "status", "", "only runs of this status")
	c.Flags().StringToStringVar(&f.Where, "where", nil, "only runs with this value of an index field: field=value")
	c.Flags().IntVar(&f.Limit, "limit", 50, "at most so many; 0: all")
	// A completion that cannot be registered is only not offered.
	_ = c.RegisterFlagCompletionFunc("machine", a.completeMachine)
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) list(ctx context.Context, filter api.Filter) error {
	f, err := a.Open(ctx, "pawl run ls")
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := f.Answers.Runs(ctx, filter)
	if err != nil {
		return err
	}
	if l.Unreadable > 0 {
		fmt.Fprintf(a.Stderr, "%d runs have a last record that this build cannot read: a newer build wrote it, or it is damaged\n", l.Unreadable)
	}
	if a.JSON() {
		array := a.PrintArray()
		for _, r := range l.Runs {
			if err := array.Add(r); err != nil {
				return err
			}
		}
		return array.End()
	}
	t, now := a.PrintTable("RUN", "MACHINE", "STATE", "STATUS", "REV", "UPDATED", "ERROR"), a.Now()
	for _, r := range l.Runs {
		machine := fmt.Sprintf("%s@%d", r.Machine, r.Version)
		if err := t.Row(r.ID, machine, r.State, r.Status, r.Revision, cli.Age(now, r.Updated), cli.Clip(causeText(r.Error), 60)); err != nil {
			return err
		}
	}
	if _, err := t.End(); err != nil {
		return err
	}
	switch {
	case l.Matched == 0:
		fmt.Fprintln(a.Stderr, "no runs")
	case len(l.Runs) < l.Matched:
		fmt.Fprintf(a.Stderr, "%d of %d runs; --limit 0 shows all\n", len(l.Runs), l.Matched)
	}
	return nil
}
