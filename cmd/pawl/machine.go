package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/transitions"
)

// catalog is the machines of this build.
func (a *app) catalog() (*statemachine.Catalog, error) {
	c, err := transitions.Catalog(transitions.Config{})
	if err != nil {
		return nil, err
	}
	return pawl.Schedules(c), nil
}

func (a *app) machine(name string, version int) (*statemachine.Definition, bool) {
	c, err := a.catalog()
	if err != nil {
		return nil, false
	}
	return c.Definition(name, version)
}

func (a *app) machineListCommand() *cobra.Command {
	var build bool
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the machines that workers have registered",
		Long: `List the machines that workers have registered, with their versions and, where a
worker answers, how many runs they have. With --build it lists the machines of
this build instead, and needs no fleet.`,
		Example: `  pawl machine ls
  pawl machine ls -o json | jq -r '.[].name'
  pawl machine ls --build`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if build {
				return a.machineBuild()
			}
			return a.machineList(cmd.Context())
		},
	}
	c.Flags().BoolVar(&build, "build", false, "the machines of this build")
	return c
}

// machines are those of the fleet, by name: from a worker, which may know how
// many runs there are, or else from the registry.
func (a *app) machines(ctx context.Context, command string) ([]api.Machine, error) {
	f, err := a.Open(ctx, command)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var l api.MachineList
	err = a.ask(ctx, f, api.MachinesList, struct{}{}, &l)
	if err == nil || ctx.Err() != nil {
		return l.Machines, err
	}
	return f.Answers.Registry.Machines(ctx)
}

func (a *app) machineList(ctx context.Context) error {
	machines, err := a.machines(ctx, "pawl machine ls")
	if err != nil {
		return err
	}
	if a.JSON() {
		if machines == nil {
			machines = []api.Machine{}
		}
		return a.PrintJSON(machines)
	}
	t := a.PrintTable("MACHINE", "VERSIONS", "HASH", "REGISTERED", "RUNS")
	for _, m := range machines {
		versions, hash, registered := []string{}, "", ""
		for _, v := range m.Versions {
			versions, hash, registered = append(versions, fmt.Sprint(v.Version)), v.Hash, cli.Age(a.Now(), v.Registered)
		}
		if err := t.Row(m.Name, strings.Join(versions, " "), hash, registered, counts(m.Runs)); err != nil {
			return err
		}
	}
	n, err := t.End()
	if err == nil && n == 0 {
		fmt.Fprintln(a.Stderr, "no machines: no worker has registered any yet; pawl machine ls --build lists those of this build")
	}
	return err
}

// counts are the runs of a machine by status, on one line.
func counts(runs map[statemachine.Status]int) string {
	var all []string
	for _, s := range statuses() {
		if n := runs[statemachine.Status(s)]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(all, ", ")
}

// machineDetail is a machine of the fleet, and what this build knows of it.
type machineDetail struct {
	api.Machine
	Build []machineRow `json:"build"` // its versions in this build
}

func (a *app) machineShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show <machine>",
		Short: "Show a machine: its versions, runs, states and effects",
		Long: `Show a machine that workers have registered: its versions, and, where a worker
answers, how many runs it has, and of the versions that this worker has the policies
of the effects: attempts, time-out, waits, what is done in doubt, and limits. States
and effects are shown of versions that this build has, too.`,
		Example: `  pawl machine show invoice
  pawl machine show invoice -o json | jq .runs`,
		Args:              machineArg,
		ValidArgsFunction: a.completeMachine,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.machineShow(cmd.Context(), args[0]) },
	}
}

func machineArg(cmd *cobra.Command, args []string) error {
	if err := cli.Exactly("machine")(cmd, args); err != nil {
		return err
	}
	if !queue.IsName(args[0]) {
		return fmt.Errorf("%q is no name of a machine", args[0])
	}
	return nil
}

func (a *app) machineShow(ctx context.Context, name string) error {
	m, err := a.registered(ctx, name)
	if err != nil {
		return err
	}
	d := machineDetail{Machine: *m, Build: []machineRow{}}
	rows, err := a.machineRows()
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Name == name {
			d.Build = append(d.Build, r)
		}
	}
	if a.JSON() {
		return a.PrintJSON(d)
	}
	fmt.Fprintf(a.Stdout, "Machine  %s\nRuns     %s\n\n", d.Name, cmp.Or(counts(d.Runs), "-"))
	t := a.PrintTable("VERSION", "HASH", "REGISTERED", "HERE", "STATES", "EFFECTS")
	for _, v := range d.Versions {
		here, states, effects := "no", "", ""
		if i := slices.IndexFunc(d.Build, func(r machineRow) bool { return r.Version == v.Version }); i >= 0 {
			here, states, effects = "yes", strings.Join(d.Build[i].States, " "), strings.Join(d.Build[i].Effects, " ")
			if d.Build[i].Hash != v.Hash {
				here = "another"
			}
		}
		if err := t.Row(v.Version, v.Hash, cli.Time(v.Registered), here, states, effects); err != nil {
			return err
		}
	}
	if _, err = t.End(); err != nil {
		return err
	}
	return a.policies(d.Versions)
}

// registered is a machine of the fleet, as a worker knows it, or else the
// registry.
func (a *app) registered(ctx context.Context, name string) (*api.Machine, error) {
	f, err := a.Open(ctx, "pawl machine show")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := new(api.Machine)
	if err := a.ask(ctx, f, api.MachinesGet, api.MachineQuery{Name: name}, m); err == nil || ctx.Err() != nil {
		return m, err
	}
	all, err := f.Answers.Registry.Machines(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(m api.Machine) bool { return m.Name == name })
	if i < 0 {
		return nil, &cli.Error{Err: fmt.Errorf("machine %q: %w: no worker has registered it", name, api.ErrNotFound), Hint: "see pawl machine ls"}
	}
	return &all[i], nil
}

// policies prints those of the effects of versions, each effect type once.
func (a *app) policies(versions []api.MachineVersion) error {
	var all []api.EffectPolicy
	for _, v := range versions {
		for _, p := range v.Effects {
			if !slices.ContainsFunc(all, func(q api.EffectPolicy) bool { return q.Effect == p.Effect }) {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(a.Stderr, "the policies of its effects are not known: no worker that has it answered")
		return nil
	}
	fmt.Fprintln(a.Stdout)
	t := a.PrintTable("EFFECT", "ATTEMPTS", "TIMEOUT", "WAITS", "IN DOUBT", "LIMITS")
	for _, p := range all {
		var limits []string
		add := func(is bool, format string, v any) {
			if is {
				limits = append(limits, fmt.Sprintf(format, v))
			}
		}
		add(p.Concurrency > 0, "%d at once", p.Concurrency)
		add(p.PerKey > 0, "%d at once of a key", p.PerKey)
		add(p.Rate.N > 0, "%s", p.Rate)
		add(p.RatePerKey.N > 0, "%s of a key", p.RatePerKey)
		add(p.Queued, "%s", "never inline")
		waits := fmt.Sprintf("%s ×%g to %s", short(p.FirstWait), p.WaitFactor, short(p.LongestWait))
		if err := t.Row(p.Effect, p.Attempts, short(p.Timeout), waits, p.InDoubt, strings.Join(limits, ", ")); err != nil {
			return err
		}
	}
	_, err := t.End()
	return err
}

// short is a duration without the zeros at its end.
func short(d statemachine.Duration) string {
	s := time.Duration(d).String()
	s = strings.TrimSuffix(s, "m0s")
	if s != time.Duration(d).String() {
		s += "m"
	}
	return strings.Replace(s, "h0m", "h", 1)
}

// machineRow is a machine of this build in a list.
type machineRow struct {
	Name    string   `json:"name"`
	Version int      `json:"version"`
	Hash    string   `json:"hash"` // of its graph
	States  []string `json:"states"`
	Effects []string `json:"effects"`
	Updates []string `json:"updates,omitempty"`
}

func (a *app) machineRows() ([]machineRow, error) {
	c, err := a.catalog()
	if err != nil {
		return nil, err
	}
	var rows []machineRow
	for _, d := range c.Definitions() {
		row := machineRow{Name: d.Name, Version: d.Version, Hash: d.Hash, Updates: d.Updates()}
		for _, s := range d.States() {
			row.States = append(row.States, s.Name)
			row.Effects = append(append(row.Effects, s.Effects...), s.Undo...)
		}
		slices.Sort(row.Effects)
		row.Effects = slices.Compact(row.Effects)
		rows = append(rows, row)
	}
	return rows, nil
}

func (a *app) machineBuild() error {
	rows, err := a.machineRows()
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(rows)
	}
	t := a.PrintTable("MACHINE", "VERSION", "STATES", "EFFECTS")
	for _, r := range rows {
		if err := t.Row(r.Name, r.Version, len(r.States), strings.Join(r.Effects, " ")); err != nil {
			return err
		}
	}
	_, err = t.End()
	return err
}

func (a *app) machineGraphCommand() *cobra.Command {
	var version int
	c := &cobra.Command{
		Use:               "graph <machine>",
		Short:             "Draw a machine of this build, in Mermaid",
		Example:           `  pawl machine graph invoice > invoice.mmd`,
		Args:              machineArg,
		ValidArgsFunction: a.completeMachine,
		RunE: func(_ *cobra.Command, args []string) error {
			d, ok := a.machine(args[0], version)
			if !ok {
				return &cli.Error{Err: fmt.Errorf("this build has no such machine: %s", args[0]), Hint: "see pawl machine ls --build"}
			}
			return a.draw(d, "")
		},
	}
	c.Flags().IntVar(&version, "version", 0, "version of the machine (default: the highest)")
	return c
}
