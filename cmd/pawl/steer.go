package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// steer is the command line of the commands that steer runs.
type steer struct {
	*app
	name   string // of the command
	verb   api.Verb
	reason string
	by     string
	id     string // of the request
	effect string
	to     string
	noUndo bool
	result []byte
}

// steerCommands are cancel, terminate, pause, resume and retry.
func (a *app) steerCommands() []*cobra.Command {
	return []*cobra.Command{
		a.steerCommand("cancel", api.RunsCancel, "End runs",
			`End runs, wherever they are. A run that has something to undo ends once what is
under way has an outcome, and what it did is undone, the last first. Of others,
effects that are under way are not called back.`,
			`  pawl run cancel report-4412 --reason 'ordered twice'`),
		a.steerCommand("terminate", api.RunsTerminate, "End runs at once",
			`End runs at once, whatever they have to undo: what they did stays done. Effects
that are under way are not called back. Their children are terminated, too.`,
			`  pawl run terminate report-4412 --reason 'its customer is gone'`),
		a.steerCommand("pause", api.RunsPause, "Hold runs",
			`Hold runs: nothing new is performed until they are resumed.`,
			`  pawl run pause report-4412 --reason 'the printer is being moved'`),
		a.steerCommand("resume", api.RunsResume, "Let paused runs go on, or send parked ones on",
			`Let paused runs go on. With --to, a parked run leaves what it gave up for good, and
takes the exit of its state that is named: one that the machine declares. What it
gave up is not tried again, and its letter is left to be discarded.`,
			`  pawl run resume report-4412
  pawl run resume report-4412 --to done --reason 'sent by hand'`),
		a.steerCommand("retry", api.RunsRetry, "Try anew what parked runs gave up",
			`Try anew what parked runs gave up: with all attempts, and the same idempotency
keys.`,
			`  pawl run retry report-4412 --reason 'the address is right now'
  pawl run retry report-4412 --effect ZhtUke9hI1w_j6lm97ykmA`),
	}
}

func (a *app) steerCommand(name string, verb api.Verb, short, long, example string) *cobra.Command {
	s := &steer{app: a, name: name, verb: verb}
	m := &steerMany{steer: s}
	c := &cobra.Command{
		Use:   name + " <id>... | --where <field=value> …",
		Short: short,
		Long: long + `

Any worker is asked and says whether it is applied, accepted (stored, and carried
out once), or a duplicate of a request with the same --id. With no worker alive
it is stored all the same. Each run is told on its own: one that cannot be has
a line on standard error, and the exit code is 1.

Instead of by their ids, runs may be selected as run ls does: then the last record
of every run is read, those that the command has nothing to do with are left out,
and --plan shows what would be done. --reason is needed, and --yes for more than
one; who did it and why is in the audit record first (dlq-replayer audit). With
--canary a few are told first, and their outcome is waited for. Exit code 7:
stopped by --canary or --stop-on-failure-ratio.`,
		Example: example + "\n" + fmt.Sprintf("  pawl run %s --machine invoice --where customer=customer-17 --plan", name) +
			"\n" + fmt.Sprintf("  pawl run %s --machine invoice --since 2h --reason INC-4412 --yes --canary 3 --rate 50", name),
		Args: func(cmd *cobra.Command, args []string) error {
			if many, err := m.meant(cmd, args); many || err != nil {
				return err
			}
			return someRuns(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("id") && s.id == "" {
				return cli.UsageErrorf("leave it off to have an id made", "--id is empty")
			}
			if s.to != "" && (len(args) == 0 || strings.TrimSpace(s.reason) == "") {
				return cli.UsageErrorf("see pawl run resume --help", "--to is for runs that are named, and needs --reason")
			}
			if len(args) == 0 {
				return m.run(cmd)
			}
			return s.run(cmd.Context(), args)
		},
	}
	f := c.Flags()
	f.StringVar(&s.reason, "reason", "", "why, for the record: at most 2 KB")
	f.StringVar(&s.by, "by", "", "who asks, recorded as unverified:<by> unless --as is given (default: the user of this machine)")
	f.StringVar(&s.id, "id", "", "id of the request: the same is applied once (default: one is made)")
	if verb == api.RunsRetry {
		f.StringVar(&s.effect, "effect", "", "id of the effect (default: all that were given up)")
	}
	if verb == api.RunsResume {
		f.StringVar(&s.to, "to", "", "state that parked runs are sent on to; needs --reason")
	}
	if verb == api.RunsCancel {
		f.BoolVar(&s.noUndo, "no-undo", false, "end the run at once; what it did stays done")
	}
	m.flags(c)
	return c
}

// toldRow is what became of a request for one run.
type toldRow struct {
	api.Told
	Error string `json:"error,omitempty"`
}

func (s *steer) run(ctx context.Context, ids []string) error {
	f, err := s.Open(ctx, "pawl run "+s.name)
	if err != nil {
		return err
	}
	defer f.Close()
	s.id = cmp.Or(s.id, queue.NewID())
	s.by = cmp.Or(s.by, s.User())
	array := s.PrintArray()
	failed, said := false, false
	for _, id := range ids {
		told, nobody, err := s.tell(ctx, f, id)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		row := toldRow{Told: told}
		if err != nil {
			if len(ids) == 1 && !s.JSON() {
				return err
			}
			failed = true
			cli.Report(s.Stderr, "pawl", err)
			row.ID, row.Error = id, cli.Clean(err.Error())
		} else if !said && nobody != nil {
			said = true
			s.sayNobody(nobody)
		}
		switch {
		case s.JSON():
			err = array.Add(row)
		case row.Error == "":
			_, err = fmt.Fprintln(s.Stdout, cli.Clean(fmt.Sprintf("%s %s %s%s", id, s.name, told.Outcome, standing(told))))
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	if s.JSON() {
		if err := array.End(); err != nil {
			return err
		}
	}
	if failed {
		return cli.ErrSilent
	}
	return nil
}

func (s *steer) tell(ctx context.Context, f *cli.Fleet, id string) (told api.Told, nobody, err error) {
	q := api.CommandRequest{ID: id, RequestID: s.id, By: s.by, Reason: s.reason, Effect: s.effect, To: s.to, Result: s.result, NoUndo: s.noUndo, Timeout: s.patience()}
	alone := q
	alone.Timeout = new(statemachine.Duration)
	nobody, err = s.change(ctx, f, s.verb, q, alone, &told)
	if err != nil && ctx.Err() == nil {
		err = named(err, s.name+" run "+id, id)
	}
	return told, nobody, err
}

// named says what an error is about, unless it names the run itself.
func named(err error, what, id string) error {
	if strings.Contains(err.Error(), strconv.Quote(id)) {
		return err
	}
	e, ok := errors.AsType[*cli.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", what, err)
	}
	named := *e
	named.Err = fmt.Errorf("%s: %w", what, e.Err)
	return &named
}

// standing is where a run is after a request.
func standing(t api.Told) string {
	if t.Status == "" {
		return ""
	}
	return fmt.Sprintf(": %s at revision %d", t.Status, t.Revision)
}
