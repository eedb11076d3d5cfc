package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) watchCommand() *cobra.Command {
	var period time.Duration
	var told bool
	c := &cobra.Command{
		Use:   "watch <id>",
		Short: "Follow a run until it ends",
		Long: `Print the records of a run, and those that come, until it has ended: the time
since its start, the revision, what happened, and what came of it. A run that is
parked or paused is followed on. With -o json, each record is one line.

Between them, what handlers tell of attempts under way: the next words of a
model, or how far a file has come. It is kept for an hour at most, and part of
no record; with -o json, it is a line {"progress": …}.

The exit code says how the run ended.`,
		Example: `  pawl run watch report-4412
  pawl run watch report-4412 -o json | jq -c '{revision, to}'
  pawl run watch report-4412 --for 10m --progress=false`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel, err := a.within(cmd, period)
			if err != nil {
				return err
			}
			defer cancel()
			return a.watch(ctx, args[0], period, told)
		},
	}
	c.Flags().BoolVar(&told, "progress", true, "show what handlers tell of attempts under way, too")
	c.Flags().DurationVar(&period, "for", 0, "follow it for so long at most (default: until it ends)")
	return c
}

func (a *app) watch(ctx context.Context, id string, period time.Duration, told bool) error {
	f, err := a.Open(ctx, "pawl run watch")
	if err != nil {
		return err
	}
	defer f.Close()
	w := &follower{app: a, fleet: f, id: id}
	if err := w.appear(ctx); err != nil {
		return over(ctx, err, period, "run %s was not there", id)
	}
	lines := newWatchLines(a)
	rest := func() {}
	if told {
		rest = lines.listen(ctx, f, id)
	}
	defer func() { rest() }()
	for r, err := range w.records(ctx) {
		switch {
		case err != nil && w.last != nil:
			return over(ctx, err, period, "run %s %s", id, verdict(w.last))
		case err != nil:
			return err
		}
		if r != nil && r.Status.Ended() {
			rest()
			rest = func() {}
		}
		if err := lines.record(r); err != nil {
			return err
		}
	}
	return a.outcome(id, w.last)
}
