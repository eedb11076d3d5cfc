package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

// hold is the command line of what holds effects up, and lets them go on.
type hold struct {
	*app
	verb   api.Verb
	key    string
	keyed  bool
	period time.Duration
	reason string
	by     string
}

func (a *app) effectCommand() *cobra.Command {
	c := &cobra.Command{Use: "effect", Short: "Hold effect types up, and let them go on"}
	ls := &cobra.Command{
		Use:   "ls",
		Short: "List what is held up",
		Long: `List what is held up for the whole fleet: effect types and states of machines that
were paused, and flow keys that a provider, or somebody here, has closed until a
time.`,
		Example: "  pawl effect ls\n  pawl effect ls -o json | jq -r '.held[].effect'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.held(cmd.Context()) },
	}
	c.AddCommand(ls,
		a.holdCommand(api.FlowHold, "pause <type>", "Begin no more effects of a type",
			`Begin no more effects of a type, anywhere, until it is resumed. Those under way end
as they do; the others wait in their queue, and no attempt is spent. With --key
and --for, effects with that flow key alone wait, for that long.`,
			`  pawl effect pause email.send --reason 'the provider is being changed'
  pawl effect pause http.post --key api.example.com --for 10m`, 1),
		a.holdCommand(api.FlowRelease, "resume <type>", "Let effects of a type go on",
			`Let effects of a type go on. With --key, a flow key that is closed is open again,
whoever closed it; what waits for it is looked at again within 66 s.`,
			`  pawl effect resume email.send
  pawl effect resume http.post --key api.example.com`, 1))
	return c
}

func (a *app) stateCommand() *cobra.Command {
	c := &cobra.Command{Use: "state", Short: "Hold states of machines up, and let them go on"}
	c.AddCommand(
		a.holdCommand(api.FlowHold, "pause <machine> <state>", "Begin no more effects of a state",
			`Begin no effects that runs of a machine ask in a state, anywhere, until it is
resumed. Those under way end as they do, and runs in other states go on.`,
			`  pawl state pause report email --reason 'a wrong address was sent to'`, 2),
		a.holdCommand(api.FlowRelease, "resume <machine> <state>", "Let effects of a state go on",
			`Let the effects that runs of a machine ask in a state go on: what waits is looked at
again after a quarter of the time that the pause took, and within 66 s.`,
			`  pawl state resume report email`, 2))
	return c
}

func (a *app) holdCommand(verb api.Verb, use, short, long, example string, args int) *cobra.Command {
	h := &hold{app: a, verb: verb}
	c := &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.ExactArgs(args),
		Long: long + `

It holds for every worker, those that start later as well, until it is said
otherwise; with no worker alive it can be said all the same.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			h.keyed = cmd.Flags().Changed("key")
			if cmd.Flags().Changed("for") && !h.keyed {
				return cli.UsageErrorf("give --key as well, or resume it when it is time", "--for is for a key")
			}
			return h.run(cmd.Context(), args)
		},
	}
	f := c.Flags()
	f.StringVar(&h.reason, "reason", "", "why, for others to see: at most 2 KB")
	f.StringVar(&h.by, "by", "", "who asks, shown as unverified:<by> unless --as is given (default: the user of this machine)")
	if args == 1 {
		f.StringVar(&h.key, "key", "", `one flow key of the type, "" being one`)
		if verb == api.FlowHold {
			f.DurationVar(&h.period, "for", 0, "how long the key is closed: at most 168h")
		}
	}
	return c
}

func (h *hold) run(ctx context.Context, args []string) error {
	q := api.FlowRequest{By: cmp.Or(h.by, h.User()), Reason: h.reason}
	switch {
	case len(args) == 2:
		q.Kind, q.Machine, q.State = flow.KindState, args[0], args[1]
	case h.keyed:
		q.Kind, q.Effect, q.Key = flow.KindKey, args[0], h.key
		if h.verb == api.FlowHold {
			q.For = new(statemachine.Duration(h.period))
		}
	default:
		q.Kind, q.Effect = flow.KindEffect, args[0]
	}
	f, err := h.Open(ctx, "pawl effect")
	if err != nil {
		return err
	}
	defer f.Close()
	var n flow.Notice
	nobody, err := h.change(ctx, f, h.verb, q, q, &n)
	if err != nil {
		return err
	}
	if nobody != nil {
		fmt.Fprintln(h.Stderr, "no worker answers: those that start will know")
	}
	if h.JSON() {
		return h.PrintJSON(n)
	}
	what := "goes on"
	if n.Held {
		what = "is held up"
		if n.Kind == flow.KindKey {
			what += " until " + n.Until.Format(time.RFC3339)
		}
	}
	_, err = fmt.Fprintln(h.Stdout, cli.Clean(n.Subject().String()+" "+what))
	return err
}

// held lists what is held up.
func (a *app) held(ctx context.Context) error {
	f, err := a.Open(ctx, "pawl effect ls")
	if err != nil {
		return err
	}
	defer f.Close()
	var l api.FlowList
	if _, err := a.change(ctx, f, api.FlowGet, struct{}{}, struct{}{}, &l); err != nil {
		return err
	}
	if !l.Complete {
		defer fmt.Fprintln(a.Stderr, "very many keys are closed: they are not listed")
	}
	if a.JSON() {
		return a.PrintJSON(l)
	}
	t := a.PrintTable("HELD UP", "SINCE", "UNTIL", "BY", "REASON")
	for _, n := range l.Held {
		until := "it is resumed"
		if n.Kind == flow.KindKey {
			until = "in " + max(0, n.Until.Sub(a.Now())).Round(time.Second).String()
		}
		if err := t.Row(n.Subject().String(), cli.Age(a.Now(), n.At), until, n.By, n.Reason); err != nil {
			return err
		}
	}
	n, err := t.End()
	if err == nil && n == 0 {
		_, err = fmt.Fprintln(a.Stderr, "nothing is held up")
	}
	return err
}
