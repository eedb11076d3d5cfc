package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/transitions"
)

// catalog is the machines of this build.
func (a *app) catalog() (*statemachine.Catalog, error) {
	return transitions.Catalog(transitions.Config{})
}

func (a *app) machine(name string, version int) (*statemachine.Definition, bool) {
	c, err := a.catalog()
	if err != nil {
		return nil, false
	}
	return c.Definition(name, version)
}

func (a *app) completeMachine(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.catalog()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, d := range c.Definitions() {
		names = append(names, d.Name)
	}
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) machineListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the machines of this build",
		Example: `  pawl machine ls
  pawl machine ls -o json`,
		Args: cli.Exactly(),
		RunE: func(*cobra.Command, []string) error { return a.machineList() },
	}
}

// machineRow is a machine in a list.
type machineRow struct {
	Name    string   `json:"name"`
	Version int      `json:"version"`
	Hash    string   `json:"hash"` // of its graph
	States  []string `json:"states"`
	Effects []string `json:"effects"`
}

func (a *app) machineList() error {
	c, err := a.catalog()
	if err != nil {
		return err
	}
	var rows []machineRow
	for _, d := range c.Definitions() {
		row := machineRow{Name: d.Name, Version: d.Version, Hash: d.Hash}
		for _, s := range d.States() {
			row.States = append(row.States, s.Name)
			row.Effects = append(row.Effects, s.Effects...)
		}
		slices.Sort(row.Effects)
		row.Effects = slices.Compact(row.Effects)
		rows = append(rows, row)
	}
	if a.JSON() {
		return a.PrintJSON(rows)
	}
	t := a.PrintTable("MACHINE", "VERSION", "STATES", "EFFECTS")
	for _, r := range rows {
		if err := t.Row(r.Name, r.Version, len(r.States), strings.Join(r.Effects, " ")); err != nil {
			return err
		}
	}
	_, err = t.End()
	return err
}

func (a *app) machineGraphCommand() *cobra.Command {
	var version int
	c := &cobra.Command{
		Use:               "graph <machine>",
		Short:             "Draw a machine, in Mermaid",
		Example:           `  pawl machine graph invoice > invoice.mmd`,
		Args:              cli.Exactly("machine"),
		ValidArgsFunction: a.completeMachine,
		RunE: func(_ *cobra.Command, args []string) error {
			d, ok := a.machine(args[0], version)
			if !ok {
				return &cli.Error{Err: fmt.Errorf("this build has no such machine: %s", args[0]), Hint: "see pawl machine ls"}
			}
			return a.draw(d, "")
		},
	}
	c.Flags().IntVar(&version, "version", 0, "version of the machine (default: the highest)")
	return c
}
