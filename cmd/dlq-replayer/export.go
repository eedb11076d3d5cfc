package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
)

func (a *app) exportCommand() *cobra.Command {
	s := &selection{app: a}
	c := &cobra.Command{
		Use:   "export [<seq>...]",
		Short: "Write whole letters, a line of JSON each",
		Long: `Write whole letters to standard output, a line of JSON each, with headers and
bodies. They stay where they are.`,
		Example: `  dlq-replayer export > letters.jsonl
  dlq-replayer export --kind start --machine invoice | jq -c .body`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(cmd.CommandPath(), args); err != nil {
				return err
			}
			return s.export(cmd.Context())
		},
	}
	s.flags(c)
	return c
}

func (s *selection) export(ctx context.Context) error {
	f, err := s.Open(ctx, "dlq-replayer export")
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(s.Stdout)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	n, unreadable := 0, 0
	for c, err := range s.cases(ctx, f) {
		if err != nil {
			return err
		}
		if c.Err != nil { // as much of it as can be read
			unreadable++
			cli.Report(s.Stderr, "dlq-replayer", c.Err)
		}
		if err := enc.Encode(api.LetterOf(c.Letter)); err != nil {
			return err
		}
		n++
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(s.Stderr, "%d letters\n", n)
	if unreadable > 0 {
		return cli.ErrSilent
	}
	return nil
}
