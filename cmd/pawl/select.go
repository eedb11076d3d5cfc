package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

func statuses() []string {
	return []string{
		string(statemachine.StatusRunning), string(statemachine.StatusParked), string(statemachine.StatusPaused),
		string(statemachine.StatusSucceeded), string(statemachine.StatusFailed), string(statemachine.StatusCancelled),
	}
}

// runSelection is the flags that select runs.
type runSelection struct {
	machine, state, status string
	where                  map[string]string
	since, until           string
}

func (r *runSelection) flags(a *app, c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.machine, "machine", "", "only runs of this machine")
	f.StringVar(&r.state, "state", "", "only runs in this state")
	f.StringVar(&r.status, "status", "", "only runs of this status: "+strings.Join(statuses(), ", "))
	f.StringToStringVar(&r.where, "where", nil, "only runs with this value of an index field: field=value")
	f.StringVar(&r.since, "since", "", "only runs that moved at or after a point in time, "+cli.Moments)
	f.StringVar(&r.until, "until", "", "only runs that moved before a point in time")
	// A completion that cannot be registered is only not offered.
	_ = c.RegisterFlagCompletionFunc("machine", a.completeMachine)
	_ = c.RegisterFlagCompletionFunc("state", a.completeState)
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses(), cobra.ShellCompDirectiveNoFileComp))
}

// filter says what is wrong with the flags, or what they select.
func (r *runSelection) filter(a *app) (f api.Filter, err error) {
	switch {
	case r.status != "" && !slices.Contains(statuses(), r.status):
		return f, cli.UsageErrorf("it is one of "+strings.Join(statuses(), ", "), "--status %q is no status", r.status)
	case r.machine != "" && !queue.IsName(r.machine):
		return f, cli.UsageErrorf("pawl machine ls", "--machine %q is no name of a machine", r.machine)
	case r.state != "" && !queue.IsName(r.state):
		return f, cli.UsageErrorf("pawl machine show", "--state %q is no name of a state", r.state)
	}
	for _, field := range slices.Sorted(maps.Keys(r.where)) {
		if r.where[field] == "" { // it would be the runs without one, of every machine
			return f, cli.UsageErrorf("name the value, or leave it off", "--where %s= has no value", field)
		}
	}
	f = api.Filter{Machine: r.machine, State: r.state, Status: statemachine.Status(r.status), Where: r.where}
	if f.Since, err = a.moment("since", r.since); err != nil {
		return f, err
	}
	if f.Until, err = a.moment("until", r.until); err != nil {
		return f, err
	}
	if !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return f, cli.UsageErrorf("nothing is between them", "--since %s is not before --until %s", r.since, r.until)
	}
	return f, nil
}

// none reports whether nothing is selected by them.
func (r *runSelection) none() bool {
	return r.machine == "" && r.state == "" && r.status == "" && len(r.where) == 0 && r.since == "" && r.until == ""
}

// moment reads a flag that is a point in time.
func (a *app) moment(flag, value string) (at time.Time, err error) {
	if value == "" {
		return at, nil
	}
	if at, err = cli.ParseMoment(a.Now(), value); err != nil {
		return at, cli.UsageErrorf(cli.Moments, "--%s %w", flag, err)
	}
	return at, nil
}
