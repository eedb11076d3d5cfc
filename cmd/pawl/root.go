package main

import (
	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
)

// app is the commands of one command line.
type app struct {
	*cli.Tool
	user userName // as whom the control API is asked; "" is nobody in particular
}

// User is who speaks: who --as names, else who uses this machine. The control
// API believes permissions only; without one, and where no worker answers, it is
// who says so.
func (a *app) User() string {
	if a.user != "" {
		return string(a.user)
	}
	return a.Tool.User()
}

// userName is the value of --as: one token of a subject, or "".
type userName string

func (u *userName) String() string { return string(*u) }

// Type is what the help calls it.
func (u *userName) Type() string { return "string" }

// Set takes a name that a subject can have: any other would be another subject.
func (u *userName) Set(name string) error {
	*u = userName(name)
	if name == "" {
		return nil
	}
	return api.CheckUser(name)
}

// root returns the command line of pawl.
func root(t *cli.Tool) *cobra.Command {
	a := &app{Tool: t}
	c := &cobra.Command{
		Use:   "pawl",
		Short: "Start runs, steer them, and see what became of them",
		Long: `Start runs, steer them, and see what became of them.

pawl speaks to NATS alone; only doctor, and explain where no worker answers, look
at Redis, too. What it reads of a run, it reads from HISTORY itself, so it works
when no worker does; lists ask the fleet first, which is faster. Without -s it
asks the fleet on this machine.

Results are on standard output, everything else on standard error; an error is
one line there, whatever -o says.

` + exitCodes,
		Version: pawl.Build(),
		Example: `  pawl run start kitchensink --input '{"steps":[{"do":"noop","repeat":3}]}' --wait
  pawl run ls --status parked
  pawl run retry report-4412 --reason 'the address is right now'
  pawl -s nats://nats.example.com:4222 run show report-4412 -o json
  source <(pawl completion bash)`,
	}
	run := &cobra.Command{Use: "run", Short: "Start runs, look at them, and steer them"}
	run.AddCommand(a.startCommand(), a.showCommand(), a.historyCommand(), a.listCommand(), a.graphCommand(),
		a.watchCommand(), a.explainCommand(), a.replayCommand(), a.diffCommand(), a.queryCommand(), a.waitCommand(), a.resultCommand(), a.signalCommand(), a.updateCommand())
	run.AddCommand(a.steerCommands()...)
	run.AddCommand(a.resolveCommand(), a.forkCommand(), a.confirmCommand())
	machine := &cobra.Command{Use: "machine", Short: "Look at machines"}
	machine.AddCommand(a.machineListCommand(), a.machineShowCommand(), a.machineGraphCommand())
	workers := &cobra.Command{Use: "worker", Short: "Look at workers"}
	workers.AddCommand(a.workerListCommand())
	c.AddCommand(run, a.approvalCommand(), machine, a.effectCommand(), a.stateCommand(), a.scheduleCommand(), workers, a.provisionCommand(), a.benchCommand(), a.doctorCommand())
	c.PersistentFlags().Var(&a.user, "as", "user of the control API, where the server's permissions pin users to their subjects")
	return c
}
