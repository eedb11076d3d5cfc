package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
)

// sources are where a list may come from; "" is the index if somebody answers.
func sources() []string { return []string{string(api.SourceHistory), string(api.SourceIndex)} }

// list is the command line of run ls.
type list struct {
	*app
	query api.RunsQuery
	limit int // 0: all

	approvals bool // of the runs, their approvals are shown
}

func (a *app) listCommand() *cobra.Command {
	l := &list{app: a}
	var which runSelection
	var from string
	var all bool
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List runs, those that moved last first",
		Long: `List runs, those that moved last first. A worker is asked, which has an index in
Redis; after a loss of Redis it may not have found all runs again, and then says
so. If no worker answers, the last record of every run of the fleet is read.

A long list is read page by page: a run that moves before its page is read may be
missing from it. Ask again for those that moved since, with --since.`,
		Example: `  pawl run ls
  pawl run ls --machine invoice --status parked --since 2h
  pawl run ls --where customer=customer-17 --all -o json
  pawl run ls --from history --since 2026-10-30 --until 2026-10-31`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := &l.query
			filter, err := which.filter(a)
			switch {
			case err != nil:
				return err
			case from != "" && !slices.Contains(sources(), from):
				return cli.UsageErrorf("it is one of "+strings.Join(sources(), ", "), "--from %q is no source", from)
			case l.limit < 0:
				return cli.UsageErrorf("0 is all of them", "--limit is %d", l.limit)
			case all && cmd.Flags().Changed("limit"):
				return cli.UsageErrorf("leave one off", "--all and --limit are both given")
			}
			if all {
				l.limit = 0
			}
			q.Machine, q.State, q.Status, q.Where = filter.Machine, filter.State, filter.Status, filter.Where
			q.Since, q.Until, q.Source = filter.Since, filter.Until, api.Source(from)
			return l.run(cmd.Context())
		},
	}
	which.flags(a, c)
	f := c.Flags()
	f.IntVar(&l.limit, "limit", 50, "at most so many; 0: all")
	f.BoolVar(&all, "all", false, "all of them, as --limit 0")
	f.StringVar(&from, "from", "", "where from: index, or history, which is complete and slow (default: the index if a worker answers)")
	// A completion that cannot be registered is only not offered.
	_ = c.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(sources(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (l *list) run(ctx context.Context) error {
	f, err := l.Open(ctx, "pawl run ls")
	if err != nil {
		return err
	}
	defer f.Close()
	p := l.printer()
	if l.query.Source == api.SourceHistory {
		return l.history(ctx, f, p)
	}
	err = l.index(ctx, f, p)
	why := ""
	refused, isRefused := errors.AsType[*cli.Error](err)
	answer, isAnswer := errors.AsType[*api.Error](err)
	switch {
	case err == nil || ctx.Err() != nil || p.count > 0:
		return err
	case errors.Is(err, errNobody):
		why = err.Error()
	case isAnswer && answer.Code == 503:
		why = "the worker's stores are away: " + answer.Message
	case isRefused && l.query.Source == api.SourceAny:
		why = "the workers may not be asked: " + refused.Error()
	default:
		return advise(err)
	}
	if l.query.Source == api.SourceIndex {
		return &cli.Error{Err: errors.New(why), Hint: "only workers read the index; --from history needs none"}
	}
	fmt.Fprintln(l.Stderr, cli.Clean(why+"; reading the last record of every run instead"))
	return l.history(ctx, f, p)
}

// index prints pages of a worker's answers.
func (l *list) index(ctx context.Context, f *cli.Fleet, p *listPrinter) error {
	q, share, incomplete, unreadable := l.query, 1.0, false, 0
	for {
		q.Limit = api.MaxPage
		if l.limit > 0 {
			q.Limit = min(l.limit-p.count, api.MaxPage)
		}
		var page api.Listing
		if err := l.ask(ctx, f, api.RunsList, q, &page); err != nil {
			return err
		}
		if !page.Complete {
			share, incomplete = min(share, page.Rebuilt), true
		}
		unreadable += page.Unreadable
		if err := p.add(page.Runs); err != nil {
			return err
		}
		q.Cursor = page.Next
		if q.Cursor == "" || l.limit > 0 && p.count >= l.limit {
			break
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	l.sayUnreadable(unreadable)
	if incomplete {
		fmt.Fprintf(l.Stderr, "the list is incomplete: %d%% of the runs are found again after a loss of Redis; --from history is complete\n", int(share*100))
	}
	switch {
	case p.count == 0:
		fmt.Fprintln(l.Stderr, "no "+l.what())
	case q.Cursor != "":
		fmt.Fprintf(l.Stderr, "the first %d; --all shows all\n", p.count)
	}
	return nil
}

// history prints what the last records of all runs say.
func (l *list) history(ctx context.Context, f *cli.Fleet, p *listPrinter) error {
	q := l.query
	found, err := f.Answers.Runs(ctx, api.Filter{
		Machine: q.Machine, State: q.State, Status: q.Status, Where: q.Where, Since: q.Since, Until: q.Until, Approver: q.Approver, Limit: l.limit,
	})
	if err != nil {
		return err
	}
	if err := p.add(found.Runs); err != nil {
		return err
	}
	if err := p.end(); err != nil {
		return err
	}
	l.sayUnreadable(found.Unreadable)
	switch {
	case found.Matched == 0:
		fmt.Fprintln(l.Stderr, "no "+l.what())
	case len(found.Runs) < found.Matched:
		fmt.Fprintf(l.Stderr, "%d of %d runs; --all shows all\n", len(found.Runs), found.Matched)
	}
	return nil
}

// what is what is listed.
func (l *list) what() string {
	if l.approvals {
		return "approvals"
	}
	return "runs"
}

func (l *list) sayUnreadable(n int) {
	if n > 0 {
		fmt.Fprintf(l.Stderr, "%d runs have a last record that this build cannot read: a newer build wrote it, or it is damaged\n", n)
	}
}

// listPrinter prints rows as they come.
type listPrinter struct {
	*list
	array *cli.Array // nil: a table
	table *cli.Table
	now   time.Time
	count int
}

func (l *list) printer() *listPrinter {
	p := &listPrinter{list: l, now: l.Now()}
	if l.JSON() {
		p.array = l.PrintArray()
	} else if l.approvals {
		p.table = l.PrintTable("RUN", "STATE", "BY", "ANSWERS", "SINCE", "DEADLINE", "APPROVAL")
	} else {
		p.table = l.PrintTable("RUN", "MACHINE", "STATE", "STATUS", "REV", "UPDATED", "ERROR")
	}
	return p
}

func (p *listPrinter) add(rows []api.Row) error {
	for _, r := range rows {
		p.count++
		var err error
		if p.approvals {
			err = p.addApprovals(r.Approvals)
		} else if p.array != nil {
			err = p.array.Add(r)
		} else {
			machine := fmt.Sprintf("%s@%d", r.Machine, r.Version)
			err = p.table.Row(r.ID, machine, r.State, r.Status, r.Revision, cli.Age(p.now, r.Updated), cli.Clip(causeText(r.Error), 60))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *listPrinter) addApprovals(all []api.Approval) error {
	for _, a := range all {
		var err error
		if p.array != nil {
			err = p.array.Add(a)
		} else {
			due := ""
			if a.Deadline != nil {
				due = "in " + max(0, a.Deadline.Sub(p.now)).Round(time.Second).String()
			}
			answers := fmt.Sprintf("%d of %d", len(a.Answers), a.Quorum)
			err = p.table.Row(a.Run, a.State, cli.Clip(strings.Join(a.Missing, ", "), 40), answers, cli.Age(p.now, a.Since), due, a.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *listPrinter) end() error {
	if p.array != nil {
		return p.array.End()
	}
	_, err := p.table.End()
	return err
}
