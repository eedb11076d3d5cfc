package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// exitDiffers says that a run comes out differently when it is replayed, or that
// two runs differ.
const exitDiffers = 8

// replay is the command line of run replay.
type replay struct {
	*app
	which runSelection
	fleet *cli.Fleet

	done, differ, not int // runs that were looked at; that come out differently; that could not be replayed
	told              time.Time
}

func (a *app) replayCommand() *cobra.Command {
	r := &replay{app: a}
	c := &cobra.Command{
		Use:   "replay <id>... | --machine <name> | --where <field=value> …",
		Short: "Fold the records of runs again, and say what would differ",
		Long: `Fold the records of runs again, without effects, with the machines of this build, and name
the first revision and field that comes out differently: because code has changed, or since a
callback uses more than the data and what it is told. Nothing depends on it: runs that are under way
go on from their records, whatever this says.

For a machine that this build does not have, a worker is asked. A deploy is checked against what
has really happened by the new build of pawl and --machine: exit code 8 if a run comes out differently,
1 if one could not be replayed, or none is selected.`,
		Example: `  pawl run replay report-4412
  pawl run replay --machine invoice --since 2d
  pawl run replay --where customer=customer-17 -o json | jq '.[] | select(.change)'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case r.which.none():
				return someRuns(cmd, args)
			case len(args) > 0:
				return errors.New("runs are named one by one, or selected, not both")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	r.which.flags(a, c)
	return c
}

func (r *replay) run(ctx context.Context, ids []string) error {
	filter, err := r.which.filter(r.app)
	if err != nil {
		return err
	}
	catalog, err := r.catalog()
	if err != nil {
		return err
	}
	if r.fleet, err = r.Open(ctx, "pawl run replay"); err != nil {
		return err
	}
	defer r.fleet.Close()
	r.fleet.Answers.Definitions = catalog
	if len(ids) == 1 && !r.JSON() {
		return r.one(ctx, ids[0])
	}
	runs := selected(ctx, r.fleet, filter)
	if len(ids) > 0 {
		runs = func(yield func(string, error) bool) {
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
		}
	}
	return r.many(ctx, runs)
}

// selected yields the ids of the runs of a filter, a partition at a time. A run
// whose last record cannot be read is an error of its own.
func selected(ctx context.Context, f *cli.Fleet, filter api.Filter) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for p := range queue.Partitions {
			var found []string
			for s, err := range f.Answers.Log.Sweep(ctx, p) {
				switch {
				case errors.Is(err, statemachine.ErrFormat):
					if !yield("", err) {
						return
					}
				case err != nil:
					yield("", err)
					return
				case filter.Matches(s.Record) && s.Tomb == nil: // of what was removed nothing is left to replay
					found = append(found, s.Run)
				}
			}
			for _, id := range found {
				if !yield(id, nil) {
					return
				}
			}
		}
	}
}

// one replays a run and says what came of it.
func (r *replay) one(ctx context.Context, id string) error {
	out, err := r.replay(ctx, id)
	if err != nil {
		return err
	}
	if c := out.Change; c != nil {
		_, err := fmt.Fprintf(r.Stdout, "run %s differs at revision %d: %s\n", cli.Clean(id), c.Revision, cli.Clean(changeText(c)))
		if err != nil {
			return err
		}
		return &cli.Error{Err: cli.ErrSilent, Code: exitDiffers}
	}
	_, err = fmt.Fprintf(r.Stdout, "run %s is the same when it is replayed, at revisions %d to %d\n", cli.Clean(id), out.From, out.To)
	return err
}

// replayedRow is what came of a run, for programs.
type replayedRow struct {
	*api.Replayed
	Error string `json:"error,omitempty"`
}

func (r *replay) many(ctx context.Context, runs iter.Seq2[string, error]) error {
	array, table := r.PrintArray(), r.PrintTable("RUN", "MACHINE", "REVISIONS", "REPLAYED")
	for id, err := range runs {
		out := &api.Replayed{ID: id}
		switch {
		case err == nil:
			out, err = r.replay(ctx, id)
			if out == nil {
				out = &api.Replayed{ID: id}
			}
		case !errors.Is(err, statemachine.ErrFormat):
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		row := replayedRow{Replayed: out}
		said := "the same"
		switch {
		case err != nil:
			r.not++
			row.Error = cli.Clean(err.Error())
			said = "not: " + row.Error
		case out.Change != nil:
			r.differ++
			said = fmt.Sprintf("differs at revision %d: %s", out.Change.Revision, changeText(out.Change))
		}
		r.done++
		r.progress()
		if r.JSON() {
			err = array.Add(row)
		} else if out.To == 0 {
			err = table.Row(id, "", "", said)
		} else {
			err = table.Row(id, fmt.Sprintf("%s@%d", out.Machine, out.Version), fmt.Sprintf("%d–%d", out.From, out.To), said)
		}
		if err != nil {
			return err
		}
	}
	return r.end(array, table)
}

// progress says now and then how far it is.
func (r *replay) progress() {
	if now := r.Now(); r.told.IsZero() {
		r.told = now
	} else if now.Sub(r.told) >= 2*time.Second {
		r.told = now
		fmt.Fprintf(r.Stderr, "%s so far\n", r.sum())
	}
}

func (r *replay) sum() string {
	return fmt.Sprintf("%d runs replayed: %d differ, %d could not be", r.done, r.differ, r.not)
}

func (r *replay) end(array *cli.Array, table *cli.Table) error {
	var err error
	if r.JSON() {
		err = array.End()
	} else {
		_, err = table.End()
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(r.Stderr, r.sum())
	switch {
	case r.done == 0: // a deploy is not checked by nothing
		return errors.New("no run is selected: nothing was checked")
	case r.differ > 0:
		return &cli.Error{Err: cli.ErrSilent, Code: exitDiffers}
	case r.not > 0:
		return cli.ErrSilent
	}
	return nil
}

// replay replays a run with a machine of this build, or asks a worker, which
// may have it.
func (r *replay) replay(ctx context.Context, id string) (*api.Replayed, error) {
	out, err := r.fleet.Answers.Replay(ctx, api.ReplayQuery{ID: id})
	if !errors.Is(err, api.ErrUnknownMachine) {
		return out, err
	}
	whole := new(api.Replayed)
	for q := (api.ReplayQuery{ID: id}); ; {
		var page api.Replayed
		if asked := r.ask(ctx, r.fleet, api.RunsReplay, q, &page); asked != nil {
			return nil, r.unknown(err, asked)
		}
		from := whole.From
		if *whole = page; from > 0 {
			whole.From = from
		}
		if page.Change != nil || page.Next == 0 {
			return whole, nil
		}
		q.After = page.Next
	}
}

// unknown is what it means that neither this build has a machine nor a worker
// helps.
func (r *replay) unknown(err, asked error) error {
	answer, is := errors.AsType[*api.Error](asked)
	switch {
	case is && answer.Class == api.ClassUnknownMachine:
		asked = errors.New("nor does the worker that answered have it")
	case errors.Is(asked, errNobody):
		asked = fmt.Errorf("and %w who may have it", asked)
	}
	return &cli.Error{Err: fmt.Errorf("%w, %w", err, asked), Hint: "use a pawl that was built with the fleet's machines; see pawl machine ls --build"}
}

// changeText is what differs, on one line.
func changeText(c *api.Change) string {
	value := func(s string) string {
		if s == "" {
			return "nothing"
		}
		return cli.Clip(s, 120)
	}
	return fmt.Sprintf("%s is %s in the record, and %s when it is replayed", c.Field, value(c.Recorded), value(c.Replayed))
}
