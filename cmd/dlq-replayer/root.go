package main

import (
	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/cli"
)

// app is the commands of one command line.
type app struct{ *cli.Tool }

// root returns the command line of dlq-replayer.
func root(t *cli.Tool) *cobra.Command {
	a := &app{t}
	c := &cobra.Command{
		Use:   "dlq-replayer",
		Short: "See what the fleet has given up on",
		Long: `See what the fleet has given up on.

A dead letter is a message no run could take, or an effect whose attempts are
used up. dlq-replayer speaks to NATS alone: it needs no worker.`,
		Version: pawl.Build(),
		Example: `  dlq-replayer ls --machine invoice
  dlq-replayer show 17`,
	}
	c.AddCommand(a.listCommand(), a.showCommand())
	return c
}
