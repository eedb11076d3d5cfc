package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

func (a *app) resultCommand() *cobra.Command {
	var wait bool
	c := &cobra.Command{
		Use:   "result <id>",
		Short: "Print what a run came to, as JSON",
		Long: `Print the data that a run ended with, as JSON. A log in it is
{"$log": name, "to": count}; its items are in pawl run show -o json.

A run that has no result (it failed, was cancelled, is parked, or goes on) prints
nothing; the exit code says which it is, and 1 that it goes on.`,
		Example: `  pawl run result inv-4412 | jq .totals.total
  pawl run result inv-4412 --wait > result.json`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error { return a.result(cmd.Context(), args[0], wait) },
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait until the run has ended, or is parked")
	return c
}

func (a *app) result(ctx context.Context, id string, wait bool) error {
	f, err := a.Open(ctx, "pawl run result")
	if err != nil {
		return err
	}
	defer f.Close()
	w := &follower{app: a, fleet: f, id: id}
	if wait {
		if err := w.settle(ctx); err != nil {
			return err
		}
	} else if w.last, err = f.Answers.Log.Look(ctx, id); err != nil {
		return err
	}
	r := w.last
	switch {
	case r == nil:
		return fmt.Errorf("run %q: %w", id, api.ErrNotFound)
	case r.Status != statemachine.StatusSucceeded && r.Status != statemachine.StatusRunning && r.Status != statemachine.StatusPaused:
		return a.outcome(id, r)
	case !r.Status.Ended():
		return &cli.Error{Err: fmt.Errorf("run %s has no result yet, it %s", id, verdict(r)), Hint: "pawl run result --wait " + id}
	case r.Tomb != nil && len(r.Data) == 0:
		return &cli.Error{Err: fmt.Errorf("the result of run %s was removed, with its records", id), Hint: "it succeeded " + cli.Time(r.Tomb.At)}
	}
	_, err = fmt.Fprintln(a.Stdout, cli.Pretty(r.Data))
	return err
}

// settle waits until the run has ended, or is parked.
func (f *follower) settle(ctx context.Context) error {
	if err := f.appear(ctx); err != nil {
		return err
	}
	for r, err := range f.records(ctx) {
		if err != nil {
			return err
		}
		if r == nil && f.last != nil && f.last.Status == statemachine.StatusParked {
			return nil
		}
	}
	return nil
}
