package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

// errOver is why the context ends when the time of --for is over.
var errOver = errors.New("the time is over")

// within is the context of a command that waits for a period; 0 is any time.
func (a *app) within(cmd *cobra.Command, period time.Duration) (context.Context, context.CancelFunc, error) {
	if period < 0 || period == 0 && cmd.Flags().Changed("for") {
		return nil, nil, cli.UsageErrorf("a duration such as 10m", "--for is %v", period)
	}
	if period == 0 {
		ctx, cancel := context.WithCancel(cmd.Context())
		return ctx, cancel, nil
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), period, errOver)
	return ctx, cancel, nil
}

// over is the error when the time of --for is over, and any other as it is.
func over(ctx context.Context, err error, period time.Duration, format string, args ...any) error {
	if !errors.Is(context.Cause(ctx), errOver) {
		return err
	}
	return &cli.Error{Err: fmt.Errorf(format, args...), Hint: fmt.Sprintf("after %v", period), Code: exitTime}
}

// wait is the command line of run wait.
type wait struct {
	*app
	period time.Duration
	on     bool // while a run is parked, too

	began  time.Time
	silent follower // tells that the server does not answer
	codes  []int    // of what was told so far
}

func (a *app) waitCommand() *cobra.Command {
	w := &wait{app: a}
	c := &cobra.Command{
		Use:   "wait <id>...",
		Short: "Wait until runs have ended, or are parked",
		Long: `Wait until each of the runs has ended, or is parked and waits for a person, and
print what became of it as soon as it is known; with -o json, one line each.

The exit code is that of the worst outcome: an error, failed, cancelled, parked,
and last the time that is over.`,
		Example: `  pawl run wait report-4412 && echo done
  pawl run wait inv-1 inv-2 inv-3 --for 10m
  pawl run wait $(pawl run start invoice -f invoice.json) -o json`,
		Args: someRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel, err := a.within(cmd, w.period)
			if err != nil {
				return err
			}
			defer cancel()
			slices.Sort(args)
			return w.run(ctx, slices.Compact(args))
		},
	}
	c.Flags().DurationVar(&w.period, "for", 0, "wait so long at most (default: until they end)")
	c.Flags().BoolVar(&w.on, "parked", false, "go on waiting while a run is parked")
	return c
}

// The pauses between two looks at the runs.
const (
	firstLook = 50 * time.Millisecond
	mostLook  = 500 * time.Millisecond
)

func (w *wait) run(ctx context.Context, ids []string) error {
	f, err := w.Open(ctx, "pawl run wait")
	if err != nil {
		return over(ctx, err, w.period, "nothing is known of the runs")
	}
	defer f.Close()
	w.began, w.silent.app = w.Now(), w.app
	for pause := firstLook; ; pause = min(2*pause, mostLook) {
		records, err := f.Last(ctx, ids)
		if err == nil || ctx.Err() == nil && !w.silent.away(ctx, err) {
			if err != nil {
				return err
			}
			w.silent.away(ctx, nil)
			open := ids[:0:0]
			for i, id := range ids {
				done, err := w.look(id, records[i])
				if err != nil {
					return err
				}
				if !done {
					open = append(open, id)
				}
			}
			ids = open
		}
		if len(ids) == 0 {
			return w.end()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), errOver) {
				return context.Cause(ctx)
			}
			for _, id := range ids {
				w.tell(&cli.Error{Err: fmt.Errorf("run %s has not ended", id), Hint: fmt.Sprintf("after %v", w.period), Code: exitTime})
			}
			return w.end()
		}
	}
}

// look tells what became of a run, if that is known.
func (w *wait) look(id string, r *statemachine.Stored) (done bool, err error) {
	if r == nil {
		if w.Now().Sub(w.began) < w.Timeout {
			return false, nil
		}
		w.tell((&follower{app: w.app, id: id}).absent())
		return true, nil
	}
	if !r.Status.Ended() && (w.on || r.Status != statemachine.StatusParked) {
		return false, nil
	}
	w.codes = append(w.codes, exitCode(r.Status))
	if w.JSON() {
		lines := json.NewEncoder(w.Stdout)
		lines.SetEscapeHTML(false)
		return true, lines.Encode(api.RowOf(r.Record))
	}
	_, err = fmt.Fprintln(w.Stdout, cli.Clean(id+" "+verdict(r)))
	return true, err
}

// tell prints an error about one run.
func (w *wait) tell(err error) { w.codes = append(w.codes, cli.Report(w.Stderr, "pawl", err)) }

// end is the worst outcome.
func (w *wait) end() error {
	for _, code := range []int{cli.Failure, exitFailed, exitCancelled, exitParked, exitTime} {
		if slices.Contains(w.codes, code) {
			return &cli.Error{Err: cli.ErrSilent, Code: code}
		}
	}
	return nil
}
