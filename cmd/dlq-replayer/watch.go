package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/internal/cli"
)

// watchEvery is how often new letters are looked for.
const watchEvery = 500 * time.Millisecond

func (a *app) watchCommand() *cobra.Command {
	s := &selection{app: a}
	c := &cobra.Command{
		Use:   "watch",
		Short: "Print letters as they come, until it is interrupted",
		Long: `Print letters as they come, until it is interrupted. With -o json, a line of JSON
each, without what only show and export show.`,
		Example: `  dlq-replayer watch --machine invoice
  dlq-replayer watch -o json | jq -r .cause`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(cmd.CommandPath(), nil); err != nil {
				return err
			}
			return s.watch(cmd.Context())
		},
	}
	s.flags(c)
	return c
}

func (s *selection) watch(ctx context.Context) error {
	f, err := s.Open(ctx, "dlq-replayer watch")
	if err != nil {
		return err
	}
	defer f.Close()
	after, err := f.Queue.Letters.Last(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Stderr, "watching; interrupt to end")
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		var p printer = s.rows()
		if s.JSON() {
			p = &stream{s.app}
		}
		n := 0
		for l, err := range f.Answers.Mail(ctx, s.filter, after) {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil && l.Seq == 0:
				// It may be away for a moment; who watches does not want to be gone by then.
				cli.Report(s.Stderr, "dlq-replayer", err)
			case err != nil:
				after = l.Seq
				cli.Report(s.Stderr, "dlq-replayer", err)
			default:
				after, n = l.Seq, n+1
				if err := p.letter(l); err != nil {
					return err
				}
			}
		}
		if n > 0 {
			if err := p.end(); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
