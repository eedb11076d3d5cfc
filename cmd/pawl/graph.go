package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

func (a *app) graphCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "graph <id|machine>",
		Short: "Draw a run or a machine, in Mermaid",
		Long: `Draw the machine of a run, with the state marked in which the run is, or a
machine. The drawing is a Mermaid state diagram.`,
		Example: `  pawl run graph report-4412
  pawl run graph report`,
		Args:              cli.Exactly("id|machine"),
		ValidArgsFunction: a.completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			// A machine is known without a connection; only a run needs one.
			err := a.graph(cmd.Context(), args[0])
			if d, ok := a.machine(args[0], 0); ok && err != nil {
				return a.draw(d, "")
			}
			return err
		},
	}
}

// graph draws a run.
func (a *app) graph(ctx context.Context, id string) error {
	f, err := a.Open(ctx, "pawl run graph")
	if err != nil {
		return err
	}
	defer f.Close()
	run, err := f.Answers.Run(ctx, id, 0)
	if errors.Is(err, api.ErrNotFound) {
		return &cli.Error{Err: fmt.Errorf("%q is neither a run nor a machine of this build: %w", id, err), Hint: "see pawl run ls, pawl machine ls"}
	}
	if err != nil {
		return err
	}
	d, ok := a.machine(run.Machine, run.Version)
	if !ok {
		return &cli.Error{
			Err:  fmt.Errorf("run %s is of machine %s version %d, which this build does not have", id, run.Machine, run.Version),
			Hint: "use a pawl that was built with the fleet's machines",
		}
	}
	return a.draw(d, run.State)
}

// drawing is a diagram for programs.
type drawing struct {
	Machine string                   `json:"machine"`
	Version int                      `json:"version"`
	State   string                   `json:"state,omitempty"` // where the run is
	Updates []string                 `json:"updates,omitempty"`
	States  []statemachine.StateInfo `json:"states"`
	Mermaid string                   `json:"mermaid"`
}

func (a *app) draw(d *statemachine.Definition, state string) error {
	text := diagram(d, state)
	if a.JSON() {
		return a.PrintJSON(drawing{Machine: d.Name, Version: d.Version, State: state, Updates: d.Updates(), States: d.States(), Mermaid: text})
	}
	_, err := fmt.Fprint(a.Stdout, text)
	return err
}

// diagram is the drawing of a machine with one state marked.
func diagram(d *statemachine.Definition, state string) string {
	text := d.Diagram()
	// A diagram has one line `state "…" as name` for each state, in order, and
	// the name is not always the state's: Mermaid has words of its own.
	var names []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, `state "`) {
			names = append(names, line[strings.LastIndex(line, " ")+1:])
		}
	}
	for i, s := range d.States() {
		if s.Name == state && i < len(names) {
			return text + "    classDef current fill:#fd7,stroke:#a60,stroke-width:3px\n    class " + names[i] + " current\n"
		}
	}
	return text
}
