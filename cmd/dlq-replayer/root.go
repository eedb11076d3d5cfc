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
		Short: "See what the fleet has given up on, and try it anew",
		Long: `See what the fleet has given up on, and try it anew.

A dead letter is a message no run could take, or an effect whose attempts are
used up. dlq-replayer speaks to NATS alone: it needs no worker. What it changes,
and who had it done and why, is in the audit record first.`,
		Version: pawl.Build(),
		Example: `  dlq-replayer ls --machine invoice
  dlq-replayer summary
  dlq-replayer plan --machine invoice --class http_4xx
  dlq-replayer redrive --machine invoice --class http_4xx --reason INC-4412 --yes --canary 3`,
	}
	c.AddCommand(a.listCommand(), a.showCommand(), a.summaryCommand(), a.watchCommand(), a.exportCommand(),
		a.planCommand(), a.redriveCommand(), a.discardCommand(), a.auditCommand())
	return c
}
