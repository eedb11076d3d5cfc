package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// exitRefused is the exit code of an update that is refused.
const exitRefused = 9

// updater is the command line of run update.
type updater struct {
	*app
	q    api.UpdateRequest
	file string
}

func (a *app) updateCommand() *cobra.Command {
	u := &updater{app: a}
	c := &cobra.Command{
		Use:   "update <id> <name> [<json>|-]",
		Short: "Tell a run something that its machine answers",
		Long: `Tell a run something that its machine accepts, with an answer, or refuses, and then
nothing has changed. The answer is printed; a refusal is the error, with exit code 9. The body
is JSON: an argument, a file, or standard input ("-"); without one it is {}.

The same --id is answered once, and always with the same answer. With no worker alive the update
is stored, and the first worker that starts answers it: ask for the answer with the same --id.`,
		Example: `  pawl run update wallet-17 spend '{"amount":3}'
  pawl run update wallet-17 spend '{"amount":3}' --id tea-4412 -o json | jq .value`,
		Args: tellArgs("update"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := a.told(args, u.file)
			if err != nil {
				return err
			}
			u.q.ID, u.q.Name, u.q.Body, u.q.Timeout = args[0], args[1], body, u.patience()
			u.q.UpdateID, u.q.By = cmp.Or(u.q.UpdateID, queue.NewID()), cmp.Or(u.q.By, u.User())
			return u.send(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVarP(&u.file, "file", "f", "", "file with the body; - is standard input")
	f.StringVar(&u.q.UpdateID, "id", "", "id of the update: the same is answered once (default: one is made)")
	f.StringVar(&u.q.By, "by", "", "who says so, recorded as unverified:<by> unless --as is given (default: the user of this machine)")
	return c
}

func (u *updater) send(ctx context.Context) error {
	f, err := u.Open(ctx, "pawl run update")
	if err != nil {
		return err
	}
	defer f.Close()
	alone := u.q
	alone.Timeout = new(statemachine.Duration)
	var told api.Told
	nobody, err := u.change(ctx, f, api.RunsUpdate, u.q, alone, &told)
	if err != nil {
		return refusal(named(err, "update "+u.q.Name+" of run "+u.q.ID, u.q.ID))
	}
	u.sayNobody(nobody)
	switch {
	case u.JSON():
		return u.PrintJSON(told)
	case told.Value == nil && told.Outcome == api.OutcomeAccepted:
		fmt.Fprintf(u.Stderr, "accepted: no answer yet: ask again with --id %s\n", told.UpdateID)
		return nil
	case told.Value == nil:
		fmt.Fprintln(u.Stderr, "answered before, by a record that is there no more")
		return nil
	}
	return u.printValue(told.Value)
}

// refusal has an exit code of its own if it is the machine's.
func refusal(err error) error {
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != 422 {
		return err
	}
	if e, ok := errors.AsType[*cli.Error](err); ok {
		refused := *e
		refused.Code = exitRefused
		return &refused
	}
	return &cli.Error{Err: err, Code: exitRefused}
}

// printValue prints a text as it is, and any other JSON folded.
func (a *app) printValue(value json.RawMessage) error {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	if text, ok := v.(string); ok {
		_, err := fmt.Fprintln(a.Stdout, cli.Clean(text))
		return err
	}
	return a.PrintJSON(v)
}
