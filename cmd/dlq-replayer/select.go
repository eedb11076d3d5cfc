package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/cli"
)

// selection is which letters a command is about.
type selection struct {
	*app
	filter       deadletter.Filter
	kind         string
	since, until string
	seqs         []uint64 // named one by one; then there is no filter
	strict       bool     // leave out what cannot be read and so may not be meant
}

// flags adds the flags that select letters.
func (s *selection) flags(c *cobra.Command) {
	var kinds []string
	for _, k := range deadletter.Kinds() {
		kinds = append(kinds, string(k))
	}
	f := c.Flags()
	f.StringVar(&s.kind, "kind", "", "only letters of this kind: "+strings.Join(kinds, ", "))
	f.StringVar(&s.filter.Machine, "machine", "", "only letters of this machine")
	f.StringVar(&s.filter.State, "state", "", "only letters of runs in this state")
	f.StringVar(&s.filter.Class, "class", "", "only letters of this class of failure")
	f.StringVar(&s.filter.Effect, "effect", "", "only letters of this effect type")
	f.StringVar(&s.filter.Run, "run", "", "only letters of this run")
	f.StringVar(&s.filter.Print, "fingerprint", "", "only letters of this fault")
	f.StringVar(&s.filter.Build, "build", "", "only letters that this build gave up")
	f.StringVar(&s.filter.Tenant, "tenant", "", "only letters of this tenant")
	f.StringVar(&s.since, "since", "", "only letters that failed last at or after a point in time, "+cli.Moments)
	f.StringVar(&s.until, "until", "", "only letters that failed last before a point in time")
	// A completion that cannot be registered is only not offered.
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
}

// check reads the flags, and the sequences that were named.
func (s *selection) check(command string, args []string) (err error) {
	s.filter.Kind = deadletter.Kind(s.kind)
	for _, m := range []struct {
		flag, value string
		at          *time.Time
	}{{"since", s.since, &s.filter.Since}, {"until", s.until, &s.filter.Until}} {
		if m.value == "" {
			continue
		}
		if *m.at, err = cli.ParseMoment(s.Now(), m.value); err != nil {
			return cli.UsageErrorf(cli.Moments, "--%s %w", m.flag, err)
		}
		*m.at = m.at.UTC()
	}
	hint := "see " + command + " --help"
	if err := s.filter.Validate(); err != nil {
		return cli.UsageErrorf(hint, "%w", err)
	}
	for _, a := range args {
		seq, err := sequence(a)
		if err != nil {
			return err
		}
		s.seqs = append(s.seqs, seq)
	}
	if len(s.seqs) > 0 && !s.all() {
		return cli.UsageErrorf(hint, "letters are named one by one, or selected, not both")
	}
	return nil
}

// sequence reads the number of a letter.
func sequence(arg string) (uint64, error) {
	seq, err := strconv.ParseUint(arg, 10, 64)
	if err != nil || seq == 0 {
		return 0, cli.UsageErrorf("dlq-replayer ls shows them", "%q is no sequence of a letter", arg)
	}
	return seq, nil
}

// all reports whether the filter selects every letter.
func (s *selection) all() bool { return s.filter == deadletter.Filter{} }

// said is the selection as it is recorded.
func (s *selection) said() any {
	if len(s.seqs) > 0 {
		return map[string]any{"letters": s.seqs}
	}
	return s.filter
}

// cases yields the letters that are selected, as of now: those that come
// meanwhile are not among them.
func (s *selection) cases(ctx context.Context, f *cli.Fleet) iter.Seq2[*deadletter.Case, error] {
	return func(yield func(*deadletter.Case, error) bool) {
		for _, seq := range s.seqs {
			l, ok, err := f.Answers.Letters.Get(ctx, seq)
			switch {
			case !ok && err == nil:
				err = fmt.Errorf("letter %d: %w", seq, api.ErrNotFound)
				fallthrough
			case !ok:
				yield(nil, err)
				return
			}
			if !yield(&deadletter.Case{Letter: l, Err: err}, nil) {
				return
			}
		}
		if len(s.seqs) > 0 {
			return
		}
		last, err := f.Queue.Letters.Last(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for l, err := range f.Answers.Mail(ctx, s.filter, 0) {
			switch {
			case err != nil && l.Seq == 0:
				yield(nil, err)
				return
			case l.Seq > last:
				return
			case err != nil && s.strict && !s.filter.Matches(&l):
				continue
			}
			if !yield(&deadletter.Case{Letter: l, Err: err}, nil) {
				return
			}
		}
	}
}
