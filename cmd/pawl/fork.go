package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// fork is the command line of run fork.
type fork struct {
	*app
	q   api.ForkRequest
	set []string
}

func (a *app) forkCommand() *cobra.Command {
	k := &fork{app: a}
	c := &cobra.Command{
		Use:   "fork <id> --at <revision>",
		Short: "Begin a new run where another was",
		Long: `Begin a new run where another was at a revision, with other data if you like. The
state is entered again: its effects are asked anew, and its times begin anew.
Signals that nobody had taken by then are taken along.

Nothing that the other run did is done again: where the fork asks for the same, in
the same state and visit and with the same input, it is given what came of it then.
Where it asks for something else, it is parked until run confirm, or run resolve;
with --perform that is performed at once. What it performs has idempotency keys of
its own, and it takes back only what it performed itself.

--set merges a value into a field of the data: JSON, or else text. The fork is an
event like a command: it needs a worker that has the machine, at the latest to be
carried out, and the same may be asked for again with the same --id.`,
		Example: `  pawl run history report-4412
  pawl run fork report-4412 --at 3 --set to=customer-18@example.com --reason 'wrong address'
  pawl run fork agent-7 --at 12 --set prompt.style=brief --id agent-7-brief --perform`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch f := cmd.Flags(); {
			case !f.Changed("at"):
				return cli.UsageErrorf("pawl run history has them", "--at is needed: a revision of the run")
			case k.q.Revision == 0:
				return cli.UsageErrorf("pawl run history has them", "--at is 0: revisions count from 1")
			case f.Changed("id") && k.q.Fork == "":
				return cli.UsageErrorf("leave it off to have an id made", "--id is empty")
			case f.Changed("machine-version") && k.q.Version < 1:
				return cli.UsageErrorf("leave it off for that of the run", "--machine-version is %d", k.q.Version)
			}
			if k.q.Fork == "" {
				k.q.Fork = args[0] + "~" + fmt.Sprint(k.q.Revision) + "-" + queue.NewID()
				if queue.CheckRun(k.q.Fork) != nil {
					k.q.Fork = "fork-" + queue.NewID()
				}
			}
			if err := checkRun(k.q.Fork); err != nil {
				return cli.UsageErrorf("choose another with --id", "--id: %w", err)
			}
			var err error
			if k.q.Set, err = fields(k.set); err != nil {
				return err
			}
			k.q.ID = args[0]
			return k.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.Uint64Var(&k.q.Revision, "at", 0, "revision of the run, as run history shows it")
	f.StringArrayVar(&k.set, "set", nil, "field=value: merged into the data; a.b is field b of a. May be given again")
	f.IntVar(&k.q.Version, "machine-version", 0, "version of the machine (default: that of the run)")
	f.StringVar(&k.q.Fork, "id", "", "id of the new run (default: one is made)")
	f.BoolVar(&k.q.Perform, "perform", false, "perform what the run did not ask; do not wait for run confirm")
	f.StringVar(&k.q.Reason, "reason", "", "why, for the record: at most 2 KB")
	f.StringVar(&k.q.By, "by", "", "who asks, recorded as unverified:<by> unless --as is given (default: the user of this machine)")
	return c
}

// fields is the object that --set says, a field at a time.
func fields(set []string) (json.RawMessage, error) {
	if len(set) == 0 {
		return nil, nil
	}
	all := map[string]any{}
	for _, one := range set {
		path, text, ok := strings.Cut(one, "=")
		names := strings.Split(path, ".")
		if !ok || slices.Contains(names, "") {
			return nil, cli.UsageErrorf("such as --set total=12, --set customer.name=Ann", "--set %q is not field=value", one)
		}
		var value any = text
		if json.Valid([]byte(text)) {
			value = json.RawMessage(text)
		}
		at := all
		for _, name := range names[:len(names)-1] {
			next, is := at[name].(map[string]any)
			if at[name] != nil && !is {
				return nil, twice(one)
			}
			if next == nil {
				next = map[string]any{}
				at[name] = next
			}
			at = next
		}
		if _, is := at[names[len(names)-1]]; is {
			return nil, twice(one)
		}
		at[names[len(names)-1]] = value
	}
	return json.Marshal(all)
}

func twice(one string) error {
	return cli.UsageErrorf("give each field once", "--set %q sets what another --set does", one)
}

func (k *fork) run(ctx context.Context) error {
	f, err := k.Open(ctx, "pawl run fork")
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Answers.Definitions, err = k.catalog(); err != nil {
		return err
	}
	if k.q.By == "" {
		k.q.By = k.User()
	}
	k.q.Timeout = k.patience()
	alone := k.q
	alone.Timeout = new(statemachine.Duration)
	var out api.Forked
	nobody, err := k.change(ctx, f, api.RunsFork, k.q, alone, &out)
	if err != nil {
		if e, is := errors.AsType[*api.Error](err); is && e.Class == api.ClassUnknownMachine {
			return &cli.Error{Err: e, Hint: "the worker that answered does not have it: ask again, or see pawl machine ls"}
		}
		return named(err, "fork run "+k.q.ID, k.q.ID)
	}
	k.sayNobody(nobody)
	if k.JSON() {
		return k.PrintJSON(out)
	}
	if nobody == nil && out.Outcome == api.OutcomeAccepted {
		fmt.Fprintln(k.Stderr, "accepted: no worker has taken it yet")
	}
	if out.Outcome == api.OutcomeExists {
		fmt.Fprintf(k.Stderr, "run %s exists, by the same fork: it %s\n", cli.Clean(out.ID), being(out.Status))
	}
	_, err = fmt.Fprintln(k.Stdout, out.ID)
	return err
}

// confirmCommand is run confirm.
func (a *app) confirmCommand() *cobra.Command {
	s := &steer{app: a, name: "confirm", verb: api.RunsConfirm}
	c := &cobra.Command{
		Use:   "confirm <id>...",
		Short: "Let forks perform what their originals did not ask",
		Long: `Let forks perform what their originals did not ask, and that they are parked for: run
show and run explain say what that is. What they ask after that waits again. Instead
of having it performed, run resolve says what it came to.`,
		Example: `  pawl run explain agent-7-brief
  pawl run confirm agent-7-brief --reason 'one call of the model'`,
		Args: someRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("id") && s.id == "" {
				return cli.UsageErrorf("leave it off to have an id made", "--id is empty")
			}
			return s.run(cmd.Context(), args)
		},
	}
	f := c.Flags()
	f.StringVar(&s.effect, "effect", "", "id of the effect (default: all that wait for it)")
	f.StringVar(&s.reason, "reason", "", "why, for the record: at most 2 KB")
	f.StringVar(&s.by, "by", "", "who says so, recorded as unverified:<by> unless --as is given (default: the user of this machine)")
	f.StringVar(&s.id, "id", "", "id of the request: the same is applied once (default: one is made)")
	return c
}

// originText says where a fork began.
func originText(o *api.Origin) string {
	if o == nil {
		return ""
	}
	text := fmt.Sprintf("run %s, revision %d", o.Run, o.Revision)
	if o.Perform {
		text += "; what that did not ask is performed"
	}
	return text
}
