package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/client"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/schedule"
	"github.com/pawlrun/pawl/statemachine"
)

// scheduleCommand is what there is to do with recurring starts.
func (a *app) scheduleCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "schedule", Short: "Start runs again and again",
		Long: `Start runs again and again: by a cron line in a time zone, or at an interval. A schedule
is a run of the machine "schedule", so what goes for runs goes for it: pawl run
history and explain take its id, which show tells. It needs workers to answer.`,
	}
	ls := &cobra.Command{
		Use: "ls", Short: "List schedules", Long: "List the schedules there are, and when each starts a run next.",
		Example: "  pawl schedule ls\n  pawl schedule ls -o json | jq -r '.[] | select(.state.failed > 0) | .name'",
		Args:    cobra.NoArgs,
		RunE:    a.scheduling("ls", func(ctx context.Context, c *client.Client, _ []string) error { return a.scheduleList(ctx, c) }),
	}
	show := &cobra.Command{
		Use: "show <name>", Short: "Show a schedule", Long: "Show a schedule: what it starts and when, how it stands, and what it started last.",
		Example: "  pawl schedule show nightly",
		Args:    cli.Exactly("name"),
		RunE: a.scheduling("show", func(ctx context.Context, c *client.Client, args []string) error {
			return a.scheduleShow(ctx, c, args[0])
		}),
	}
	trigger := &cobra.Command{
		Use: "trigger <name>", Short: "Start a run of a schedule now",
		Long:    "Start a run of a schedule now. If the run before has not ended, it starts then, unless runs may overlap.",
		Example: "  pawl schedule trigger nightly",
		Args:    cli.Exactly("name"),
		RunE: a.scheduling("trigger", func(ctx context.Context, c *client.Client, args []string) error {
			return a.scheduleOrder(ctx, c, args[0], schedule.Order{Trigger: true})
		}),
	}
	c.AddCommand(a.scheduleCreateCommand(), ls, show, trigger, a.scheduleBackfillCommand(),
		a.scheduleSteerCommand("pause", "Start no runs until it is resumed", (*client.Client).Pause),
		a.scheduleSteerCommand("resume", "Let a paused schedule go on; what is no older than its catch-up is made up for", (*client.Client).Resume),
		a.scheduleSteerCommand("rm", "Remove a schedule; runs that it started go on", (*client.Client).Cancel))
	return c
}

// scheduling runs a command with a client of the fleet.
func (a *app) scheduling(name string, run func(context.Context, *client.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && !queue.IsName(args[0]) {
			return cli.UsageErrorf("pawl schedule ls has those there are", "%.64q is no name of a schedule: it is %s", args[0], queue.NameGrammar)
		}
		nc, err := a.Connect("pawl schedule " + name)
		if err != nil {
			return err
		}
		defer nc.Close()
		c, err := client.New(nc, client.WithPrefix(a.Prefix), client.WithTimeout(a.Timeout), client.WithUser(string(a.user)))
		if err != nil {
			return err
		}
		err = run(cmd.Context(), c, args)
		if errors.Is(err, client.ErrUnavailable) {
			return &cli.Error{Err: err, Hint: "is a worker running? pawl worker ls"}
		}
		return err
	}
}

// scheduleRow is a schedule for programs.
type scheduleRow struct {
	schedule.Schedule
	Run    string              `json:"run"` // that it is
	Status statemachine.Status `json:"status"`
	Next   *time.Time          `json:"next,omitempty"`
}

// schedules returns the ids of the runs that are schedules, of a name if one is
// given: those that have not ended, and all.
func (a *app) schedules(ctx context.Context, c *client.Client, name string) (live, all []string, err error) {
	q := client.Query{Machine: schedule.MachineName}
	if name != "" {
		q.Where = map[string]string{"name": name}
	}
	for page, err := range c.List(ctx, q) {
		if err != nil {
			return nil, nil, err
		}
		if !page.Complete {
			fmt.Fprintf(a.Stderr, "the list is incomplete: %d%% of the runs are found again after a loss of Redis\n", int(page.Rebuilt*100))
		}
		for _, r := range page.Runs {
			all = append(all, r.ID)
			if !r.Status.Ended() {
				live = append(live, r.ID)
			}
		}
	}
	slices.Sort(live)
	return live, all, nil
}

// schedule returns the schedule that has a name now.
func (a *app) schedule(ctx context.Context, c *client.Client, name string) (*scheduleRow, error) {
	ids, _, err := a.schedules(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, &cli.Error{Err: fmt.Errorf("there is no schedule %s", name), Hint: "pawl schedule ls has those there are"}
	}
	return scheduleOf(ctx, c, ids[0])
}

func scheduleOf(ctx context.Context, c *client.Client, id string) (*scheduleRow, error) {
	r, err := c.Get(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	row := &scheduleRow{Run: id, Status: r.Status}
	if err := json.Unmarshal(r.Data, &row.Schedule); err != nil {
		return nil, fmt.Errorf("run %s is no schedule that this build can read: %w", id, err)
	}
	for _, w := range r.Waits {
		if w.Due != nil && r.Status == statemachine.StatusRunning {
			row.Next = w.Due
		}
	}
	return row, nil
}

// when is a schedule's rule in words.
func (r *scheduleRow) when() string {
	if r.Every > 0 {
		return "every " + time.Duration(r.Every).String()
	}
	return r.Cron + " " + cmp.Or(r.Zone, "UTC")
}

func (r *scheduleRow) next() string {
	if r.Next == nil {
		return "-"
	}
	return cli.Time(*r.Next)
}

func (a *app) scheduleList(ctx context.Context, c *client.Client) error {
	ids, _, err := a.schedules(ctx, c, "")
	if err != nil {
		return err
	}
	rows := []*scheduleRow{}
	for _, id := range ids {
		r, err := scheduleOf(ctx, c, id)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	if a.JSON() {
		return a.PrintJSON(rows)
	}
	t := a.PrintTable("NAME", "WHEN", "MACHINE", "STATUS", "NEXT", "STARTED", "SKIPPED", "MISSED", "FAILED")
	for _, r := range rows {
		s := r.State
		if err := t.Row(r.Name, r.when(), r.Spec.Machine, r.Status, r.next(), s.Started, s.Skipped, s.Missed, s.Failed); err != nil {
			return err
		}
	}
	_, err = t.End()
	return err
}

func (a *app) scheduleShow(ctx context.Context, c *client.Client, name string) error {
	r, err := a.schedule(ctx, c, name)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(r)
	}
	catchUp := "1h0m0s"
	if r.CatchUp != nil {
		catchUp = time.Duration(*r.CatchUp).String()
	}
	s := r.State
	lines := [][2]string{
		{"schedule", r.Name}, {"run", r.Run}, {"status", string(r.Status)}, {"when", r.when()},
		{"overlap", string(cmp.Or(r.Overlap, schedule.Skip))}, {"catch-up", catchUp}, {"starts", r.Spec.Machine},
		{"next", r.next()}, {"last", cmp.Or(s.Last, "-")},
		{"counts", fmt.Sprintf("%d started, %d skipped, %d missed, %d failed, %d waiting", s.Started, s.Skipped, s.Missed, s.Failed, len(s.Waiting))},
	}
	if s.Error != "" {
		lines = append(lines, [2]string{"failed", s.Error})
	}
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%-10s%s\n", l[0], cli.Clean(l[1]))
	}
	_, err = fmt.Fprint(a.Stdout, b.String())
	return err
}

// scheduleOrder tells a schedule what to do.
func (a *app) scheduleOrder(ctx context.Context, c *client.Client, name string, o schedule.Order) error {
	r, err := a.schedule(ctx, c, name)
	if err != nil {
		return err
	}
	told, err := c.Signal(ctx, r.Run, schedule.SignalName, "", o)
	return a.scheduleTold(name, told, err)
}

func (a *app) scheduleTold(name string, told client.Told, err error) error {
	switch {
	case err != nil:
		return err
	case a.JSON():
		return a.PrintJSON(told)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s %s\n", name, told.Outcome)
	return err
}

func (a *app) scheduleSteerCommand(verb, short string, tell func(*client.Client, context.Context, string, client.CommandOptions) (client.Told, error)) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: verb + " <name>", Short: short, Long: short + ".",
		Example: "  pawl schedule " + verb + " nightly --reason 'the printer is being moved'",
		Args:    cli.Exactly("name"),
	}
	c.RunE = a.scheduling(verb, func(ctx context.Context, c *client.Client, args []string) error {
		r, err := a.schedule(ctx, c, args[0])
		if err != nil {
			return err
		}
		told, err := tell(c, ctx, r.Run, client.CommandOptions{By: a.User(), Reason: reason})
		return a.scheduleTold(args[0], told, err)
	})
	c.Flags().StringVar(&reason, "reason", "", "why; it is recorded")
	return c
}

func (a *app) scheduleBackfillCommand() *cobra.Command {
	var from, to string
	c := &cobra.Command{
		Use: "backfill <name> --from <time> --to <time>", Short: "Start the runs of times that have passed",
		Long: `Start a run for each time of a span, both ends included, 500 at most. What was started
for a time before is not started again. Unless runs may overlap, they start one after
the other.`,
		Example: "  pawl schedule backfill nightly --from 2026-06-01T00:00:00Z --to 2026-06-07T00:00:00Z",
		Args:    cli.Exactly("name"),
	}
	c.RunE = a.scheduling("backfill", func(ctx context.Context, c *client.Client, args []string) error {
		var span schedule.Span
		for _, at := range []struct {
			flag, text string
			to         *time.Time
		}{{"--from", from, &span.From}, {"--to", to, &span.To}} {
			t, err := time.Parse(time.RFC3339, at.text)
			if err != nil {
				return cli.UsageErrorf("times are as in 2026-06-01T00:00:00Z", "%s is %.64q, no time", at.flag, at.text)
			}
			*at.to = t
		}
		r, err := a.schedule(ctx, c, args[0])
		if err != nil {
			return err
		}
		switch n := r.Count(span); {
		case n == 0:
			return cli.UsageErrorf("pawl schedule show "+args[0]+" tells when it starts runs", "schedule %s has no time from %s to %s", args[0], from, to)
		case n > schedule.MostBackfill:
			return cli.UsageErrorf("take a shorter span", "schedule %s has more than %d times from %s to %s", args[0], schedule.MostBackfill, from, to)
		}
		told, err := c.Signal(ctx, r.Run, schedule.SignalName, "", schedule.Order{Backfill: &span})
		return a.scheduleTold(args[0], told, err)
	})
	c.Flags().StringVar(&from, "from", "", "first time (required)")
	c.Flags().StringVar(&to, "to", "", "last time (required)")
	return c
}

// scheduleCreateCommand makes a schedule.
func (a *app) scheduleCreateCommand() *cobra.Command {
	var s schedule.Spec
	var every, catchUp time.Duration
	var overlap, priority, input, file string
	c := &cobra.Command{
		Use: "create <name> <machine> --cron <line> | --every <time>", Short: "Make a schedule",
		Long: `Make a schedule that starts runs of a machine. The run of a time is <name>@<time>, in UTC,
and starts once, whatever crashes.

A cron line has five fields (minute, hour, day of month, month, day of week), or is @hourly,
@daily, @weekly, @monthly or @yearly; it is read in --zone. An hour that the clocks leave
out does not come, one that they repeat comes twice. --every counts from the year one: 1h
is every full hour.

The input of the runs is JSON, from --input or --file; without one it is {}.`,
		Example: `  pawl schedule create nightly report --cron '30 2 * * *' --zone Europe/Berlin -f report.json
  pawl schedule create poll kitchensink --every 5m --overlap queue --input '{"steps":[]}'`,
		Args: cli.Exactly("name", "machine"),
	}
	c.RunE = a.scheduling("create", func(ctx context.Context, cl *client.Client, args []string) error {
		s.Name, s.Machine, s.Every = args[0], args[1], statemachine.Duration(every)
		s.Overlap, s.Priority = schedule.Overlap(overlap), queue.Priority(priority)
		if c.Flags().Changed("catch-up") {
			d := statemachine.Duration(catchUp)
			s.CatchUp = &d
		}
		body, err := a.body(input, file, "--input", "{}")
		if err != nil {
			return err
		}
		s.Input = body
		if err := s.Check(); err != nil {
			return cli.UsageErrorf("pawl schedule create --help", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		return a.scheduleCreate(ctx, cl, &s)
	})
	f := c.Flags()
	f.StringVar(&s.Cron, "cron", "", "when, as a cron line")
	f.StringVar(&s.Zone, "zone", "", "time zone of the cron line, such as Europe/Berlin (default: UTC)")
	f.DurationVar(&every, "every", 0, "interval, such as 90s")
	f.StringVar(&overlap, "overlap", "", "while the run before has not ended: skip, queue (one), or allow (default: skip)")
	f.DurationVar(&catchUp, "catch-up", time.Hour, "how late a run may be started; what is older is missed")
	f.StringVar(&input, "input", "", "input of the runs as JSON")
	f.StringVarP(&file, "file", "f", "", "file with the input; - is standard input")
	f.IntVar(&s.Version, "version", 0, "version of the machine (default: the highest)")
	f.StringVar(&priority, "priority", "", "high, normal or low (default: normal)")
	f.StringVar(&s.Tenant, "tenant", "", "whose runs they are")
	return c
}

// scheduleCreate starts the run that is the schedule. A name is used again once
// its schedule was removed, an id never is.
func (a *app) scheduleCreate(ctx context.Context, c *client.Client, s *schedule.Spec) error {
	live, ids, err := a.schedules(ctx, c, s.Name)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		return &cli.Error{Err: fmt.Errorf("schedule %s exists, as run %s", s.Name, live[0]), Hint: "pawl schedule rm " + s.Name + " removes it"}
	}
	prefix, n := "schedule-"+s.Name+"-", 0
	for _, id := range ids {
		if k, err := strconv.Atoi(strings.TrimPrefix(id, prefix)); err == nil {
			n = max(n, k)
		}
	}
	started, err := c.Start(ctx, schedule.MachineName, s, client.StartOptions{ID: prefix + strconv.Itoa(n+1)})
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(started)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s is run %s\n", s.Name, started.ID)
	return err
}
