package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
)

func (a *app) watchCommand() *cobra.Command {
	var period time.Duration
	c := &cobra.Command{
		Use:   "watch <id>",
		Short: "Follow a run until it ends",
		Long: `Print the records of a run, and those that come, until it has ended: the time
since its start, the revision, what happened, and what came of it. A run that is
parked or paused is followed on. With -o json, each record is one line.

The exit code says how the run ended.`,
		Example: `  pawl run watch report-4412
  pawl run watch report-4412 -o json | jq -c '{revision, to}'
  pawl run watch report-4412 --for 10m`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel, err := a.within(cmd, period)
			if err != nil {
				return err
			}
			defer cancel()
			return a.watch(ctx, args[0], period)
		},
	}
	c.Flags().DurationVar(&period, "for", 0, "follow it for so long at most (default: until it ends)")
	return c
}

func (a *app) watch(ctx context.Context, id string, period time.Duration) error {
	f, err := a.Open(ctx, "pawl run watch")
	if err != nil {
		return err
	}
	defer f.Close()
	w := &follower{app: a, fleet: f, id: id}
	if err := w.appear(ctx); err != nil {
		return over(ctx, err, period, "run %s was not there", id)
	}
	lines := json.NewEncoder(a.Stdout)
	lines.SetEscapeHTML(false)
	for r, err := range w.records(ctx) {
		switch {
		case err != nil && w.last != nil:
			return over(ctx, err, period, "run %s %s", id, verdict(w.last))
		case err != nil:
			return err
		case r == nil:
		case a.JSON():
			err = lines.Encode(api.RevisionOf(r))
		default:
			_, err = fmt.Fprintln(a.Stdout, progress(r.At.Sub(r.Started), r))
		}
		if err != nil {
			return err
		}
	}
	return a.outcome(id, w.last)
}
