package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// completePatience is how long somebody who presses Tab waits.
const completePatience = 500 * time.Millisecond

// completeMachine offers the machines of the fleet, if one answers at once, and
// those of this build. Runs are too many to be offered.
func (a *app) completeMachine(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := a.fleetMachines(cmd.Context())
	if c, err := a.catalog(); err == nil {
		for _, d := range c.Definitions() {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// fleetMachines are the names that workers have registered, as far as they can
// be had.
func (a *app) fleetMachines(ctx context.Context) (names []string) {
	if a.Check() != nil {
		return nil
	}
	a.Timeout = min(a.Timeout, completePatience)
	f, err := a.Open(ctx, "pawl completion")
	if err != nil {
		return nil
	}
	defer f.Close()
	machines, err := f.Answers.Registry.Machines(ctx)
	if err != nil {
		return nil
	}
	for _, m := range machines {
		names = append(names, m.Name)
	}
	return names
}

// completeState offers the states of the machine of --machine, or of all, in
// this build.
func (a *app) completeState(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	machine := ""
	if f := cmd.Flags().Lookup("machine"); f != nil {
		machine = f.Value.String()
	}
	rows, err := a.machineRows()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, r := range rows {
		if machine == "" || machine == r.Name {
			names = append(names, r.States...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}
