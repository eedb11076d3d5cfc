package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/internal/cli"
)

func (a *app) auditCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Show who changed letters and runs in bulk, and why",
		Long: `Show who changed letters and runs in bulk, when and why, oldest first: with -o
json, all lines, also those that name what is changed next. The record is kept
for 400 days, and has at most 64 MB.`,
		Example: `  dlq-replayer audit
  dlq-replayer audit -o json | jq 'select(.items) | .items[]'`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.audit(cmd.Context()) },
	}
}

func (a *app) audit(ctx context.Context) error {
	f, err := a.Open(ctx, "dlq-replayer audit")
	if err != nil {
		return err
	}
	defer f.Close()
	t, lines := a.PrintTable("AT", "ID", "STEP", "WHAT", "BY", "REASON", "SELECTED", "CHANGED", "REFUSED"), &stream{a}
	n := 0
	for e, err := range f.Queue.Audit.All(ctx) {
		if err != nil {
			return err
		}
		n++
		if a.JSON() {
			if err := lines.print(e); err != nil {
				return err
			}
			continue
		}
		if e.Step == bulk.StepItems {
			continue
		}
		selected, changed, refused := "", "", ""
		switch {
		case e.Report != nil:
			selected, changed, refused = fmt.Sprint(e.Report.Selected), fmt.Sprint(e.Report.Changed), fmt.Sprint(e.Report.Refused)
		default:
			selected = string(e.Selection)
		}
		if err := t.Row(cli.Time(e.At), e.ID, e.Step, e.What, e.By, e.Reason, selected, changed, refused); err != nil {
			return err
		}
	}
	if _, err := t.End(); err != nil {
		return err
	}
	if n == 0 {
		fmt.Fprintln(a.Stderr, "nothing was changed")
	}
	return nil
}
