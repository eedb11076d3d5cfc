package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// signaller is the command line of run signal.
type signaller struct {
	*app
	run, name string
	body      []byte
	file      string
	id        string
}

func (a *app) signalCommand() *cobra.Command {
	s := &signaller{app: a}
	c := &cobra.Command{
		Use:   "signal <id> <name> [<json>|-]",
		Short: "Tell a run something",
		Long: `Tell a run something from outside, such as that a payment has come; what people
decide goes by pawl approval. The body is JSON: an argument, a file, or standard input
("-"); without one it is {}.

The same --id is applied once. With no worker alive the signal is stored, and the
first worker that starts delivers it.`,
		Example: `  pawl run signal k1 go '{"by":"jo"}'
  jq -n '{ok: true}' | pawl run signal k1 go - --id go-7`,
		Args: tellArgs("signal"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := a.told(args, s.file)
			if err != nil {
				return err
			}
			s.run, s.name, s.body = args[0], args[1], body
			return s.send(cmd.Context())
		},
	}
	c.Flags().StringVarP(&s.file, "file", "f", "", "file with the body; - is standard input")
	c.Flags().StringVar(&s.id, "id", "", "id of the signal: the same is applied once (default: one is made)")
	return c
}

// tellArgs are a run, the name of what it is told, and the body.
func tellArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return checkTold(what, cmd, args) }
}

func checkTold(what string, cmd *cobra.Command, args []string) error {
	if len(args) == 3 && cmd.Flags().Changed("file") {
		return errors.New("the body is given twice: it is one of <json>, --file and -")
	}
	if len(args) == 3 && args[2] == "" {
		return errors.New("the body is empty: leave it off for {}")
	}
	if id := cmd.Flags().Lookup("id"); id.Changed && id.Value.String() == "" {
		return errors.New("--id is empty: leave it off to have an id made")
	}
	if err := cli.Exactly("id", "name")(cmd, args[:min(len(args), 2)]); err != nil {
		return err
	}
	if len(args) > 3 {
		return fmt.Errorf("%s takes no further argument %q", cmd.CommandPath(), args[3])
	}
	if !queue.IsName(args[1]) { // the same grammar
		return fmt.Errorf("%q is no name of %s", args[1], withArticle(what))
	}
	return checkRun(args[0])
}

func withArticle(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

// told is the body of what a run is told.
func (a *app) told(args []string, file string) ([]byte, error) {
	text := ""
	if len(args) == 3 && args[2] == "-" {
		file = "-"
	} else if len(args) == 3 {
		text = args[2]
	}
	return a.body(text, file, "the third argument", "{}")
}

func (s *signaller) send(ctx context.Context) error {
	f, err := s.Open(ctx, "pawl run signal")
	if err != nil {
		return err
	}
	defer f.Close()
	var told api.Told
	q := api.SignalRequest{ID: s.run, Name: s.name, SignalID: cmp.Or(s.id, queue.NewID()), Body: s.body, Timeout: s.patience()}
	alone := q
	alone.Timeout = new(statemachine.Duration)
	nobody, err := s.change(ctx, f, api.RunsSignal, q, alone, &told)
	if err != nil {
		return named(err, "signal "+s.name+" to run "+s.run, s.run)
	}
	s.sayNobody(nobody)
	if s.JSON() {
		return s.PrintJSON(told)
	}
	_, err = fmt.Fprintln(s.Stdout, cli.Clean(fmt.Sprintf("%s signal %s %s%s", s.run, s.name, told.Outcome, standing(told))))
	return err
}
