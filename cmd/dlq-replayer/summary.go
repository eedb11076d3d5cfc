package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/cli"
)

// mostGroups bounds what a summary holds.
const mostGroups = 10_000

// summaryCommand counts letters that have something in common.
func (a *app) summaryCommand() *cobra.Command {
	s := &summary{selection: selection{app: a}}
	c := &cobra.Command{
		Use:   "summary",
		Short: "Count letters that have something in common",
		Long: `Count letters that have something in common, the most first, with one of each to
show. By fingerprint, a group is one fault. Letters are read once and not kept;
beyond 10,000 groups the rest are counted together.`,
		Example: `  dlq-replayer summary
  dlq-replayer summary --by machine,state,effect
  dlq-replayer summary --by build --since 2h -o json`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, by := range s.by {
				if !slices.Contains(deadletter.Features(), by) {
					return cli.UsageErrorf("it is one or more of "+strings.Join(deadletter.Features(), ", "), "--by %q is nothing that letters have", by)
				}
			}
			if len(s.by) == 0 {
				return cli.UsageErrorf("it is one or more of "+strings.Join(deadletter.Features(), ", "), "--by is empty")
			}
			if err := s.check(cmd.CommandPath(), nil); err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	s.flags(c)
	c.Flags().StringSliceVar(&s.by, "by", []string{"fingerprint"}, "what they have in common: "+strings.Join(deadletter.Features(), ", "))
	return c
}

type summary struct {
	selection
	by []string
}

// group is letters that have something in common.
type group struct {
	Count    int               `json:"count"`
	Features map[string]string `json:"of"`
	Seq      uint64            `json:"seq"` // of one of them
	Oldest   time.Time         `json:"oldest"`
	Newest   time.Time         `json:"newest"`
	Class    string            `json:"class"` // of that one
	Cause    string            `json:"cause"`
}

func (s *summary) run(ctx context.Context) error {
	f, err := s.Open(ctx, "dlq-replayer summary")
	if err != nil {
		return err
	}
	defer f.Close()
	groups, now, unreadable, total := map[string]*group{}, s.Now(), 0, 0
	told := now
	for c, err := range s.cases(ctx, f) {
		if err != nil {
			return err
		}
		if c.Err != nil {
			unreadable++
		}
		total++
		if at := s.Now(); at.Sub(told) > 5*time.Second {
			told = at
			fmt.Fprintf(s.Stderr, "%d letters read\n", total)
		}
		s.count(groups, now, &c.Letter)
	}
	all := make([]*group, 0, len(groups))
	for _, g := range groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Seq, b.Seq)) })
	if err := s.print(all, now); err != nil {
		return err
	}
	switch {
	case unreadable > 0:
		return fmt.Errorf("%d letters cannot be read in full: dlq-replayer ls says why", unreadable)
	case total == 0:
		fmt.Fprintln(s.Stderr, "no letters")
	}
	return nil
}

func (s *summary) count(groups map[string]*group, now time.Time, l *deadletter.Letter) {
	values := make([]string, len(s.by))
	for i, by := range s.by {
		values[i] = l.Feature(by, now)
	}
	key := strings.Join(values, "\x00")
	g := groups[key]
	if g == nil && len(groups) >= mostGroups {
		key, values = "\x00others", []string{"(others)"}
		g = groups[key]
	}
	if g == nil {
		g = &group{Features: map[string]string{}, Seq: l.Seq, Oldest: l.Last, Class: l.Class, Cause: cli.Clip(cli.Clean(l.Cause), 500)}
		for i, v := range values {
			g.Features[s.by[i]] = v
		}
		groups[key] = g
	}
	g.Count++
	if l.Last.Before(g.Oldest) {
		g.Oldest = l.Last
	}
	if l.Last.After(g.Newest) {
		g.Newest = l.Last
	}
}

func (s *summary) print(all []*group, now time.Time) error {
	if s.JSON() {
		array := s.PrintArray()
		for _, g := range all {
			if err := array.Add(g); err != nil {
				return err
			}
		}
		return array.End()
	}
	head := []string{"COUNT"}
	for _, by := range s.by {
		head = append(head, strings.ToUpper(by))
	}
	t := s.PrintTable(append(head, "OLDEST", "LAST", "SUCH AS", "CAUSE")...)
	for _, g := range all {
		row := []any{g.Count}
		for _, by := range s.by {
			row = append(row, g.Features[by])
		}
		row = append(row, cli.Age(now, g.Oldest), cli.Age(now, g.Newest), g.Seq, cli.Clip(g.Cause, 80))
		if err := t.Row(row...); err != nil {
			return err
		}
	}
	_, err := t.End()
	return err
}
