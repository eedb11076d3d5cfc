package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// steerMany steers the runs that are selected.
type steerMany struct {
	*steer
	which runSelection
	class string
	plan  bool
	bulk  cli.Bulk

	mu      sync.Mutex // requests go one at a time: a refusal of the server ends the one that is asked
	nobody  error      // why no worker answered
	unknown int        // runs whose last record cannot be read
}

// steered is the word for what is done to runs.
func steered(v api.Verb) string {
	return map[api.Verb]string{
		api.RunsCancel: "cancelled", api.RunsTerminate: "terminated", api.RunsPause: "paused", api.RunsResume: "resumed", api.RunsRetry: "retried",
	}[v]
}

func (m *steerMany) flags(c *cobra.Command) {
	m.which.flags(m.app, c)
	f := c.Flags()
	f.StringVar(&m.class, "class", "", "only runs that are parked, or paused, for this class of cause")
	f.BoolVar(&m.plan, "plan", false, "show what would be done to the runs that are selected, and do nothing")
	m.bulk = cli.Bulk{Tool: m.app.Tool, What: m.name + " runs", Done: steered(m.verb), Things: "runs"}
	m.bulk.PaceFlags(c)
	m.bulk.WatchFlags(c)
}

// meant reports whether runs are selected, and what is wrong with that.
func (m *steerMany) meant(cmd *cobra.Command, args []string) (bool, error) {
	hint := "see " + cmd.CommandPath() + " --help"
	if m.which.none() && m.class == "" {
		for _, name := range []string{"class", "plan", "yes", "rate", "limit", "canary", "stop-on-failure-ratio", "wait"} {
			if cmd.Flags().Changed(name) {
				return false, cli.UsageErrorf(hint, "--%s is for runs that are selected, by --machine, --where, --status, …", name)
			}
		}
		return false, nil
	}
	switch {
	case len(args) > 0:
		return false, cli.UsageErrorf(hint, "runs are named one by one, or selected, not both")
	case m.effect != "":
		return false, cli.UsageErrorf(hint, "--effect is of one run")
	}
	return true, nil
}

// steerRun is a run that is selected, as it was then.
type steerRun struct {
	id     string
	what   string // state and status
	parked map[string]int
}

func (m *steerMany) run(cmd *cobra.Command) error {
	filter, err := m.which.filter(m.app)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	by := cmp.Or(m.by, m.User())
	if m.bulk.Reason, m.bulk.By = m.reason, by; !m.plan {
		if err := m.bulk.Check(cmd.CommandPath()); err != nil {
			return err
		}
	}
	m.by, m.steer.id = by, cmp.Or(m.steer.id, queue.NewID())
	f, err := m.Open(ctx, cmd.CommandPath())
	if err != nil {
		return err
	}
	defer f.Close()
	runs := m.runs(ctx, f, filter)
	if !m.plan && !m.bulk.Yes && m.bulk.Options.Limit != 1 {
		n := 0
		for _, err := range runs {
			if err != nil {
				return err
			}
			n++
		}
		if n > 1 {
			return &cli.Error{Err: fmt.Errorf("%d runs are selected, and nothing was changed", n), Hint: "look at them with --plan and the same selection; then add --yes", Code: cli.Usage}
		}
	}
	err = cli.RunBulk(ctx, &m.bulk, f, &bulk.Job[*steerRun]{
		Items: runs,
		Name:  func(r *steerRun) string { return r.id },
		Decide: func(_ context.Context, all []*steerRun) ([]bulk.Decision, error) {
			out := make([]bulk.Decision, len(all))
			for i, r := range all {
				out[i] = bulk.Decision{Do: true, What: m.name + " " + r.what}
			}
			return out, nil
		},
		Do:      func(ctx context.Context, r *steerRun) error { return m.one(ctx, f, r.id) },
		Outcome: func(ctx context.Context, all []*steerRun) ([]bulk.Outcome, error) { return m.outcomes(ctx, f, all) },
	}, m.plan, m.said(filter), "")
	m.sayNobody(m.nobody)
	if m.unknown > 0 {
		fmt.Fprintf(m.Stderr, "%d runs were left out: their last record cannot be read by this build\n", m.unknown)
	}
	return err
}

// runs yields the runs that are selected and may be steered so, a partition at
// a time, from HISTORY: it has all of them, and needs no worker.
func (m *steerMany) runs(ctx context.Context, f *cli.Fleet, filter api.Filter) iter.Seq2[*steerRun, error] {
	return func(yield func(*steerRun, error) bool) {
		m.unknown = 0
		for p := range queue.Partitions {
			var found []*steerRun
			for r, err := range f.Answers.Log.Sweep(ctx, p) {
				switch {
				case errors.Is(err, statemachine.ErrFormat):
					m.unknown++
				case err != nil:
					yield(nil, err)
					return
				case filter.Matches(r.Record) && (m.class == "" || r.Cause != nil && r.Cause.Class == m.class) && m.may(r.Record):
					found = append(found, rowOf(r.Record))
				}
			}
			for _, r := range found {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func rowOf(r *statemachine.Record) *steerRun {
	row := &steerRun{id: r.Run, what: fmt.Sprintf("%s@%d in state %s (%s)", r.Machine, r.Version, r.To, r.Status)}
	for _, p := range r.Awaited() {
		if p.Place == statemachine.Parked && !p.Unconfirmed() {
			if row.parked == nil {
				row.parked = map[string]int{}
			}
			row.parked[p.ID] = p.Try
		}
	}
	return row
}

// may reports whether the command has anything to do with a run.
func (m *steerMany) may(r *statemachine.Record) bool {
	switch m.verb {
	case api.RunsCancel:
		return !r.Status.Ended() && (r.Ending == nil || m.noUndo)
	case api.RunsTerminate:
		return !r.Status.Ended()
	case api.RunsPause:
		return r.Status == statemachine.StatusRunning || r.Status == statemachine.StatusParked
	case api.RunsResume:
		return r.Status == statemachine.StatusPaused
	}
	return slices.ContainsFunc(r.Awaited(), func(p statemachine.Pending) bool { return p.Place == statemachine.Parked && !p.Unconfirmed() })
}

// one steers a run: the command is stored when it returns.
func (m *steerMany) one(ctx context.Context, f *cli.Fleet, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := api.CommandRequest{ID: id, RequestID: m.id, By: m.by, Reason: m.reason, NoUndo: m.noUndo, Timeout: new(statemachine.Duration)}
	var told api.Told
	nobody, err := m.change(ctx, f, m.verb, q, q, &told)
	if nobody != nil {
		m.nobody = nobody
	}
	if e, is := errors.AsType[*api.Error](err); is && (e.Class == api.ClassEnded || e.Class == api.ClassNotFound) {
		return &bulk.RefusedError{Reason: "it has ended meanwhile"}
	}
	return err
}

// outcomes say how it went: well, when the run has the command; and of a
// retry, when what was given up then has its results.
func (m *steerMany) outcomes(ctx context.Context, f *cli.Fleet, runs []*steerRun) ([]bulk.Outcome, error) {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.id
	}
	last, err := f.Last(ctx, ids)
	if err != nil && !errors.Is(err, statemachine.ErrFormat) {
		return nil, err
	}
	out := make([]bulk.Outcome, len(runs))
	for i, r := range runs {
		if last[i] != nil {
			out[i] = m.outcome(r, last[i].Record)
		}
	}
	return out, nil
}

func (m *steerMany) outcome(r *steerRun, now *statemachine.Record) bulk.Outcome {
	has := slices.Contains(now.Applied, statemachine.CommandEventID(m.id))
	switch {
	case !has && now.Status.Ended():
		return bulk.Bad
	case !has:
		return bulk.Open
	case m.verb != api.RunsRetry:
		return bulk.Good
	}
	open := false
	for _, p := range now.Awaited() {
		if try, was := r.parked[p.ID]; was {
			if p.Place == statemachine.Parked && p.Try > try {
				return bulk.Bad
			}
			open = true
		}
	}
	switch {
	case open:
		return bulk.Open
	case now.Status == statemachine.StatusFailed || now.Status == statemachine.StatusCancelled:
		return bulk.Bad
	}
	return bulk.Good
}

// said is the selection as it is recorded.
func (m *steerMany) said(f api.Filter) any {
	return struct {
		Machine string              `json:"machine,omitempty"`
		State   string              `json:"state,omitempty"`
		Status  statemachine.Status `json:"status,omitempty"`
		Class   string              `json:"class,omitempty"`
		Where   map[string]string   `json:"where,omitempty"`
		Since   time.Time           `json:"since,omitzero"`
		Until   time.Time           `json:"until,omitzero"`
		Request string              `json:"request_id"`
	}{f.Machine, f.State, f.Status, m.class, f.Where, f.Since, f.Until, m.id}
}
