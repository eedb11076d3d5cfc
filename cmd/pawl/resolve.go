package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
)

// resolveCommand is run resolve.
func (a *app) resolveCommand() *cobra.Command {
	s := &steer{app: a, name: "resolve", verb: api.RunsResolve}
	var file string
	c := &cobra.Command{
		Use:   "resolve <id> --effect <effect id> [<json>|-]",
		Short: "Say what an effect came to that a run gave up",
		Long: `Say what an effect came to that a run gave up: one in doubt, say, that was
performed after all, or one that somebody has done by hand. The run goes on as if
its handler had returned the result, which is JSON: an argument, a file, or
standard input ("-"); without one it is null. It has to fit what the machine
expects of the effect, or the command is dead-lettered and changes nothing.

The id of the effect is in run show -o json and in the letter. An effect that was
not given up is left alone.`,
		Example: `  pawl run resolve inv-4412 --effect OIn4JK8au8TgBOIkH3qGAg '{"paid":1}' --reason 'it is on the statement'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return errors.New("the id of a run is needed, and at most one result")
			}
			return checkRun(args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text := ""
			switch {
			case s.effect == "":
				return cli.UsageErrorf("pawl run show has it", "--effect is needed: the id of the effect")
			case cmd.Flags().Changed("id") && s.id == "":
				return cli.UsageErrorf("leave it off to have an id made", "--id is empty")
			case len(args) == 2 && file != "":
				return cli.UsageErrorf("it is one of <json>, --file and -", "the result is given twice")
			case len(args) == 2 && args[1] == "-":
				file = "-"
			case len(args) == 2:
				text = args[1]
			}
			var err error
			if s.result, err = a.body(text, file, "the second argument", "null"); err != nil {
				return err
			}
			return s.run(cmd.Context(), args[:1])
		},
	}
	f := c.Flags()
	f.StringVar(&s.effect, "effect", "", "id of the effect")
	f.StringVarP(&file, "file", "f", "", "file with the result; - is standard input")
	f.StringVar(&s.reason, "reason", "", "why, for the record: at most 2 KB")
	f.StringVar(&s.by, "by", "", "who says so, recorded as unverified:<by> unless --as is given (default: the user of this machine)")
	f.StringVar(&s.id, "id", "", "id of the request: the same is applied once (default: one is made)")
	return c
}
