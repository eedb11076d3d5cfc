package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
)

func (a *app) queryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "query <id> <name>",
		Short: "Ask a run something, by a query of its machine",
		Long: `Ask a run something by the name of a query that its machine has. The answer is made of the
run's last record, whether it moves, waits or has ended, and changes nothing. A worker that has the
machine answers; if none is alive, this build does for the machines that it has. With -o json,
the revision that was asked stands beside the answer.`,
		Example: `  pawl run query k1 progress
  pawl run query k1 progress -o json | jq .value`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cli.Exactly("id", "name")(cmd, args); err != nil {
				return err
			}
			return checkRun(args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			f, err := a.Open(ctx, "pawl run query")
			if err != nil {
				return err
			}
			defer f.Close()
			q, answer := api.Question{ID: args[0], Query: args[1]}, new(api.Answer)
			err = a.ask(ctx, f, api.RunsAsk, q, answer)
			if errors.Is(err, errNobody) {
				if f.Answers.Definitions, err = a.catalog(); err != nil {
					return err
				}
				answer, err = f.Answers.Query(ctx, q)
			}
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(answer)
			}
			return a.printValue(answer.Value)
		},
	}
}
