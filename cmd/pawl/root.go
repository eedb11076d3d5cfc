package main

import (
	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/cli"
)

// app is the commands of one command line.
type app struct{ *cli.Tool }

// root returns the command line of pawl.
func root(t *cli.Tool) *cobra.Command {
	a := &app{t}
	c := &cobra.Command{
		Use:   "pawl",
		Short: "Start runs, and see what became of them",
		Long: `Start runs, and see what became of them.

pawl speaks to NATS alone and reads HISTORY itself: it needs no worker. Without
-s it asks the fleet on this machine.`,
		Version: pawl.Build(),
		Example: `  pawl run start kitchensink --input '{"steps":[{"do":"noop","repeat":3}]}' --wait
  pawl run ls --status parked
  pawl -s nats://nats.example.com:4222 run show report-4412 -o json`,
	}
	run := &cobra.Command{Use: "run", Short: "Start and look at runs"}
	run.AddCommand(a.startCommand(), a.showCommand(), a.historyCommand(), a.listCommand(), a.graphCommand())
	machine := &cobra.Command{Use: "machine", Short: "Look at the machines of this build"}
	machine.AddCommand(a.machineListCommand(), a.machineGraphCommand())
	c.AddCommand(run, machine, a.provisionCommand(), a.benchCommand())
	return c
}
