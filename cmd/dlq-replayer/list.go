package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/cli"
)

func (a *app) listCommand() *cobra.Command {
	s := &selection{app: a}
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List dead letters, oldest first",
		Long: `List dead letters, oldest first, all of them: they are printed while they are
read. Letters with the same fingerprint are of the same fault.`,
		Example: `  dlq-replayer ls
  dlq-replayer ls --kind effect --class http_4xx
  dlq-replayer ls --since 2h -o json | jq -r .[].run`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(cmd.CommandPath(), nil); err != nil {
				return err
			}
			return s.list(cmd.Context())
		},
	}
	s.flags(c)
	return c
}

// printer prints letters one by one.
type printer interface {
	letter(l deadletter.Letter) error
	end() error
}

func (s *selection) list(ctx context.Context) error {
	f, err := s.Open(ctx, "dlq-replayer ls")
	if err != nil {
		return err
	}
	defer f.Close()
	var p printer = s.rows()
	if s.JSON() {
		p = &array{s.PrintArray()}
	}
	damaged := false
	for c, err := range s.cases(ctx, f) {
		switch {
		case err != nil:
			return err
		case c.Err != nil:
			damaged = true
			cli.Report(s.Stderr, "dlq-replayer", c.Err)
		default:
			if err := p.letter(c.Letter); err != nil {
				return err
			}
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	if damaged {
		return cli.ErrSilent
	}
	return nil
}

// rows prints letters for people.
type rows struct {
	*app
	t   *cli.Table
	now time.Time
}

// rows begins a table of letters.
func (a *app) rows() *rows {
	return &rows{app: a, t: a.PrintTable("SEQ", "KIND", "MACHINE", "RUN", "STATE", "EFFECT", "CLASS", "ATTEMPTS", "REDRIVES", "LAST", "CAUSE"), now: a.Now()}
}

func (r *rows) letter(l deadletter.Letter) error {
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	return r.t.Row(l.Seq, l.Kind, l.Machine, l.Run, l.State, l.Effect, l.Class, number(l.Attempts), number(l.Redrives), cli.Age(r.now, l.Last), cli.Clip(cli.Clean(l.Cause), 100))
}

func (r *rows) end() error {
	n, err := r.t.End()
	if err == nil && n == 0 {
		fmt.Fprintln(r.Stderr, "no letters")
	}
	return err
}

// array prints letters for programs, without what only show shows.
type array struct{ *cli.Array }

func (a *array) letter(l deadletter.Letter) error {
	l.Headers, l.Body = nil, nil
	return a.Add(l)
}

func (a *array) end() error { return a.End() }

// stream prints letters for programs that read them as they come: a line each.
type stream struct{ *app }

func (s *stream) letter(l deadletter.Letter) error {
	l.Headers, l.Body = nil, nil
	return s.print(l)
}

func (s *stream) end() error { return nil }

func (s *stream) print(v any) error {
	enc := json.NewEncoder(s.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
