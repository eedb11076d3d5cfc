package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

// fewItems is how many items of a log people are shown unasked.
const fewItems = 10

func (a *app) showCommand() *cobra.Command {
	var items int
	c := &cobra.Command{
		Use:   "show <id>",
		Short: "Show a run as it is now",
		Long: `Show a run as it is now: its state, what it waits for, why it failed or is
parked, its data and its logs. Values over 8 KB are shown as references.`,
		Example: `  pawl run show report-4412
  pawl run show report-4412 -o json | jq .data
  pawl run show kitchensink-7 --items 100`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.JSON() && !cmd.Flags().Changed("items") {
				items = api.AllItems
			}
			return a.show(cmd.Context(), args[0], items)
		},
	}
	c.Flags().IntVar(&items, "items", fewItems, "show at most so many items of each log, the last ones; -1: all (default of -o json)")
	return c
}

func (a *app) show(ctx context.Context, id string, items int) error {
	f, err := a.Open(ctx, "pawl run show")
	if err != nil {
		return err
	}
	defer f.Close()
	run, err := f.Answers.Run(ctx, id, items)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(run)
	}
	return a.printRun(run)
}

func (a *app) printRun(r *api.Run) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	now := a.Now()
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, cli.Clean(value))
		}
	}
	field("Run", r.ID)
	field("Machine", fmt.Sprintf("%s version %d", r.Machine, r.Version))
	if p := r.Parent; p != nil {
		field("Child of", p.ID)
	}
	field("State", r.State)
	field("Status", string(r.Status))
	field("Fork of", originText(r.Origin))
	field("Tenant", r.Tenant)
	field("Error", causeText(r.Error))
	field("Ending", endingText(r.Ending))
	field("At once", fanText(r.Fan))
	field("Revision", fmt.Sprint(r.Revision))
	if e := r.Epoch; e != nil {
		field("Epoch", fmt.Sprintf("%d, from revision %d", e.Number, e.Revision))
	}
	field("Started", moment(now, r.Started))
	field("Updated", moment(now, r.Updated))
	field("Fields", pairs(r.Index))
	field("Budgets", budgets(r.Budgets))
	field("Build", r.Build)
	field("Worker", r.By)
	if r.Removed != nil {
		field("Removed", "its records, "+moment(now, *r.Removed))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := a.printPending(r.Pending, r.Waits, now); err != nil {
		return err
	}
	if err := a.printUndos(r); err != nil {
		return err
	}
	for _, s := range r.Inbox {
		fmt.Fprintf(a.Stdout, "\nSignal %s, %s, id %s:\n%s\n", s.Name, cli.Age(now, s.At), cli.Clean(s.ID), block(s.Body))
	}
	if len(r.Data) > 0 {
		fmt.Fprintf(a.Stdout, "\nData:\n%s\n", block(r.Data))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Logs)) {
		fmt.Fprintf(a.Stdout, "\nLog %s, the last %d of %d:\n", name, len(r.Logs[name]), r.Counts[name])
		for _, item := range r.Logs[name] {
			fmt.Fprintf(a.Stdout, "  %s\n", cli.Clip(cli.Clean(string(item)), 200))
		}
	}
	return nil
}

// fanText is how far a state has come that does many at once.
func fanText(f *api.Fan) string {
	if f == nil {
		return ""
	}
	text := fmt.Sprintf("%d of %d done, %d under way", f.Taken+f.Held, f.Size, f.UnderWay)
	if f.Held > 0 {
		text += fmt.Sprintf("; the data does not have %d of them yet, whose turn has not come", f.Held)
	}
	if f.Failed > 0 {
		text += fmt.Sprintf("; %d given up", f.Failed)
	}
	return text
}

// numbered is what is waited for, with the item or branch it is for.
func numbered(what string, item int, branch string) string {
	switch {
	case item == 0:
		return what
	case branch != "":
		return what + ", branch " + branch
	}
	return fmt.Sprintf("%s, item %d", what, item)
}

func (a *app) printPending(pending []api.Pending, waits []api.Wait, now time.Time) error {
	if len(pending)+len(waits) == 0 {
		return nil
	}
	if _, err := io.WriteString(a.Stdout, "\nWaits for:\n"); err != nil {
		return err
	}
	t := a.PrintTable("EFFECT", "PLACE", "ATTEMPT", "SINCE", "NEXT", "KEY", "LAST ERROR")
	for _, p := range pending {
		next := ""
		if p.RetryAt != nil {
			next = "in " + max(0, p.RetryAt.Sub(now)).Round(time.Second).String()
		}
		what, key := numbered(p.Effect, p.Item, p.Branch), p.Key
		if c := p.Child; c != nil {
			what, key = what+" "+c.Machine, c.ID
		}
		if p.Tells != "" {
			what += " (to tell approvers)"
		}
		if err := t.Row(what, p.Place, p.Attempt, cli.Age(now, p.Since), next, key, causeText(p.Error)); err != nil {
			return err
		}
	}
	for _, w := range waits {
		what, next := string(w.Kind), ""
		if w.Signal != "" {
			what += " " + w.Signal
		}
		if a := w.Approval; a != nil {
			what += " by " + strings.Join(a.Missing, ", ")
		}
		if w.Due != nil {
			next = "in " + max(0, w.Due.Sub(now)).Round(time.Second).String()
		}
		if err := t.Row(numbered(what, w.Item, w.Branch), "", "", cli.Age(now, w.Since), next, "", causeText(w.Error)); err != nil {
			return err
		}
	}
	_, err := t.End()
	return err
}

// printUndos lists what is undone if the run fails or is cancelled, in the order
// in which that happens.
func (a *app) printUndos(r *api.Run) error {
	if len(r.Undos) == 0 {
		return nil
	}
	heading := "\nIs undone if it fails or is cancelled:\n"
	if r.Ending != nil {
		heading = "\nIs being undone:\n"
	}
	if _, err := io.WriteString(a.Stdout, heading); err != nil {
		return err
	}
	t := a.PrintTable("STATE", "BY EFFECT", "KEY", "INPUT")
	for _, u := range slices.Backward(r.Undos) {
		if err := t.Row(u.State, u.Effect, u.Key, string(u.Input)); err != nil {
			return err
		}
	}
	_, err := t.End()
	return err
}

// endingText says how a run is going to end.
func endingText(e *statemachine.Ending) string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("it will be %s, once it is unwound: %s", e.Status, causeText(e.Cause))
}

// causeText is a cause on one line.
func causeText(c *statemachine.Cause) string {
	if c == nil {
		return ""
	}
	text := c.Class
	if c.Message != "" {
		text += ": " + c.Message
	}
	if c.By != "" {
		text += " (by " + c.By + ")"
	}
	return text
}

func moment(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	if at.After(now) {
		return cli.Time(at) + in(now, at)
	}
	return cli.Time(at) + " (" + cli.Age(now, at) + ")"
}

// pairs are fields and their values on one line.
func pairs(m map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+"="+m[k])
	}
	return strings.Join(all, " ")
}

// budgets are what a run has used of what it may, on one line.
func budgets(all map[string]statemachine.Spent) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b := all[name]
		words = append(words, fmt.Sprintf("%s %d of %d", name, b.Used, b.Most))
	}
	return strings.Join(words, ", ")
}

// block is JSON on indented lines.
func block(raw []byte) string {
	lines := strings.Split(cli.Pretty(raw), "\n")
	for i, l := range lines {
		lines[i] = "  " + cli.CleanKeepingBlanks(l)
	}
	return strings.Join(lines, "\n")
}
