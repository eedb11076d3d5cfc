package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// approvalCommand is the commands of approvers.
func (a *app) approvalCommand() *cobra.Command {
	c := &cobra.Command{Use: "approval", Short: "Look at what runs ask people, and decide it"}
	c.AddCommand(a.approvalListCommand(), a.approvalShowCommand(),
		a.decideCommand("approve", statemachine.Approved, "Approve what a run asks"),
		a.decideCommand("reject", statemachine.Rejected, "Reject what a run asks"),
		a.delegateCommand())
	return c
}

func (a *app) approvalListCommand() *cobra.Command {
	l := &list{app: a, approvals: true}
	var who, machine, from string
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the approvals that runs wait for",
		Long: `List the approvals that runs wait for, of all approvers or of one who has not
answered yet. A worker is asked, which has an index in Redis; if none answers, the
last record of every run of the fleet is read.`,
		Example: `  pawl approval ls
  pawl approval ls --for ann
  pawl approval ls --for ann --machine onboarding -o json`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case who == "":
				return cli.UsageErrorf("leave it off for all approvers", "--for is empty")
			case machine != "" && !queue.IsName(machine):
				return cli.UsageErrorf("pawl machine ls", "--machine %q is no name of a machine", machine)
			case from != "" && from != string(api.SourceIndex) && from != string(api.SourceHistory):
				return cli.UsageErrorf("it is one of "+strings.Join(sources(), ", "), "--from %q is no source", from)
			case l.limit < 0:
				return cli.UsageErrorf("0 is all of them", "--limit is %d", l.limit)
			}
			l.query.Approver, l.query.Machine, l.query.Source = who, machine, api.Source(from)
			return l.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&who, "for", api.Anybody, "only those that this approver may decide and has not answered")
	f.StringVar(&machine, "machine", "", "only of runs of this machine")
	f.StringVar(&from, "from", "", "where from: index, or history, which is complete and slow (default: the index if a worker answers)")
	f.IntVar(&l.limit, "limit", 50, "of at most so many runs; 0: all")
	// A completion that cannot be registered is only not offered.
	_ = c.RegisterFlagCompletionFunc("machine", a.completeMachine)
	return c
}

// approvalArgs are a run, and the approval if it waits for several.
func approvalArgs(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 1, 2:
		return checkRun(args[0])
	}
	return errors.New("the id of a run is needed, and that of the approval if the run waits for several")
}

func second(args []string) string {
	if len(args) < 2 {
		return ""
	}
	return args[1]
}

func (a *app) approvalShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show <run> [<approval>]",
		Short: "Show what a run asks, or what became of it",
		Long: `Show what a run asks: whom, until when, what they are shown, and who has answered.
An approval that is over is found by its id. Values over 8 KB are shown as
references.`,
		Example: `  pawl approval show site-4412
  pawl approval show site-4412 ITmg9zNjsrxC-K2_pRBUBw -o json`,
		Args: approvalArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.Open(cmd.Context(), "pawl approval show")
			if err != nil {
				return err
			}
			defer f.Close()
			found, err := f.Answers.Approval(cmd.Context(), args[0], second(args))
			if err != nil {
				return advise(err)
			}
			if a.JSON() {
				return a.PrintJSON(found)
			}
			return a.printApproval(found)
		},
	}
}

func (a *app) printApproval(p *api.Approval) error {
	now := a.Now()
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.Stdout, "%-10s%s\n", name, cli.Clean(value))
		}
	}
	line("Approval", p.ID)
	line("Run", fmt.Sprintf("%s, %s, state %s, visit %d", p.Run, p.Machine, p.State, p.Visit))
	line("Since", moment(now, p.Since))
	line("By", strings.Join(p.By, ", ")+pinned(p.Pinned))
	line("Quorum", fmt.Sprintf("%d of %d", p.Quorum, len(p.By)))
	if p.Deadline != nil {
		line("Deadline", moment(now, *p.Deadline)+byDefault(p.Default))
	}
	for _, e := range p.Escalates {
		line("Escalates", moment(now, p.Since.Add(time.Duration(e.After)))+" to "+strings.Join(e.By, ", "))
	}
	for _, d := range p.Delegated {
		line("Delegated", fmt.Sprintf("by %s to %s, %s%s", d.From, d.To, moment(now, d.At), because(d.Reason)))
	}
	for _, s := range p.Answers {
		line("Answer", fmt.Sprintf("%s: %s, %s%s", s.By, s.Verdict, moment(now, s.At), because(s.Reason)))
	}
	if p.Over != nil {
		line("Over", fmt.Sprintf("%s, by %s: the run went to state %s", moment(now, p.Over.At), p.Over.Kind, p.Over.To))
	}
	line("Hash", p.Hash)
	_, err := fmt.Fprintf(a.Stdout, "\nShown:\n%s\n", block(p.Shown))
	return err
}

func pinned(is bool) string {
	if is {
		return " (only as users whom the server's permissions pin)"
	}
	return ""
}

func byDefault(verdict string) string {
	if verdict == "" {
		return ""
	}
	return ": then " + verdict + " by default"
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// approver is the command line of those who decide, or hand that on.
type approver struct {
	*app
	name string // of the command
	verb api.Verb
	q    api.ApprovalRequest
}

func (p *approver) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.q.Reason, "reason", "", "why, for the record: at most 2 KB")
	f.StringVar(&p.q.By, "by", "", "who says so, recorded as unverified:<by> unless --as is given (default: the user of this machine)")
	f.StringVar(&p.q.RequestID, "id", "", "id of the request: the same is applied once (default: one is made)")
}

func (a *app) decideCommand(name string, v statemachine.Verdict, short string) *cobra.Command {
	p := &approver{app: a, name: name, verb: api.ApprovalsDecide, q: api.ApprovalRequest{Verdict: v}}
	c := &cobra.Command{
		Use:   name + " <run> [<approval>]",
		Short: short,
		Long: short + `, once for each approver: --as, where the server's permissions
pin users to their subjects, else --by. What may not be said is refused with its
cause. The id of the approval may be left out where the run waits for only one.`,
		Example: fmt.Sprintf(`  pawl approval %[1]s site-4412 --reason 'as agreed on the phone'
  pawl --as ann approval %[1]s site-4412 ITmg9zNjsrxC-K2_pRBUBw --hash mvkkgJxVkPqVZMUTGDvPRA`, name),
		Args: approvalArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args) },
	}
	p.flags(c)
	c.Flags().StringVar(&p.q.Hash, "hash", "", "hash of what you were shown: if something else is shown by now, nothing is decided")
	return c
}

func (a *app) delegateCommand() *cobra.Command {
	p := &approver{app: a, name: "delegate", verb: api.ApprovalsDelegate}
	c := &cobra.Command{
		Use:   "delegate <run> [<approval>] --to <user>",
		Short: "Have somebody else decide in an approver's place",
		Long: `Have somebody else decide in an approver's place: they are told, and the approver
decides no more.`,
		Example: `  pawl approval delegate site-4412 --to bob --reason 'on leave'`,
		Args:    approvalArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.q.To == "" {
				return cli.UsageErrorf("name who decides instead", "--to is needed")
			}
			return p.run(cmd, args)
		},
	}
	p.flags(c)
	c.Flags().StringVar(&p.q.To, "to", "", "who decides instead")
	return c
}

func (p *approver) run(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("id") && p.q.RequestID == "" {
		return cli.UsageErrorf("leave it off to have an id made", "--id is empty")
	}
	q := p.q
	q.ID, q.Approval = args[0], second(args)
	q.RequestID, q.By, q.Timeout = cmp.Or(q.RequestID, queue.NewID()), cmp.Or(q.By, p.User()), p.patience()
	return p.send(cmd.Context(), q)
}

func (p *approver) send(ctx context.Context, q api.ApprovalRequest) error {
	f, err := p.Open(ctx, "pawl approval "+p.name)
	if err != nil {
		return err
	}
	defer f.Close()
	alone := q
	alone.Timeout = new(statemachine.Duration)
	var told api.Told
	nobody, err := p.change(ctx, f, p.verb, q, alone, &told)
	if err != nil {
		return named(err, p.name+" for run "+q.ID, q.ID)
	}
	p.sayNobody(nobody)
	if p.JSON() {
		return p.PrintJSON(told)
	}
	_, err = fmt.Fprintln(p.Stdout, cli.Clean(fmt.Sprintf("%s %s %s%s", q.ID, p.name, told.Outcome, standing(told))))
	return err
}
