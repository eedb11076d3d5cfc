package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/internal/natsapi"
	"github.com/pawlrun/pawl/redisstore"
)

// why is the command line of run explain.
type why struct {
	*app
	path  string
	redis string
}

func (a *app) explainCommand() *cobra.Command {
	y := &why{app: a}
	c := &cobra.Command{
		Use:   "explain <id>",
		Short: "Say why a run does not move",
		Long: `Say why a run does not move: what it waits for and since when, who holds it, when
it goes on, and the command that would help.

A worker answers, if there is one. With none alive the answer is made of what NATS
has, and of Redis if its address is known; what could not be seen is said. With
-o json each reason has a code that does not change.`,
		Example: `  pawl run explain report-4412
  pawl run explain report-4412 -o json | jq -r .cause
  pawl run explain report-4412 --redis redis.example.com:6379`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error { return y.run(cmd, args[0]) },
	}
	configFlag(c, &y.path)
	c.Flags().StringVar(&y.redis, "redis", "", "address of Redis, or several of a cluster divided by commas; asked if no worker answers (default: $PAWL_REDIS_ADDR)")
	return c
}

func (y *why) run(cmd *cobra.Command, id string) error {
	cfg, err := y.configuration(cmd, y.path)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	f, err := y.Open(ctx, "pawl run explain")
	if err != nil {
		return err
	}
	defer f.Close()
	x := new(api.Explanation)
	switch err = y.ask(ctx, f, api.RunsExplain, api.ExplainQuery{ID: id}, x); {
	case errors.Is(err, errNobody):
		if !strings.EqualFold(err.Error(), errNobody.Error()) {
			fmt.Fprintln(y.Stderr, err.Error()+"; looking at NATS instead")
		}
		at := redisConfig(cfg)
		if y.redis != "" {
			at.Addrs = addresses(y.redis)
		}
		if x, err = y.alone(ctx, f, at, id); err != nil {
			return err
		}
	case err != nil:
		return advise(err)
	}
	if y.JSON() {
		return y.PrintJSON(x)
	}
	return y.print(x)
}

// alone explains without a worker.
func (y *why) alone(ctx context.Context, f *cli.Fleet, at redisstore.Config, id string) (*api.Explanation, error) {
	redis.SetLogger(silent{}) // what matters comes back as errors
	f.Answers.Observers = append(f.Answers.Observers,
		api.Observer{What: "redis", See: func(ctx context.Context, facts *explain.Facts) error {
			return y.holders(ctx, f, at, facts)
		}},
		api.Observer{What: "workers", See: func(ctx context.Context, facts *explain.Facts) (err error) {
			optional, cancel := y.Optional(ctx)
			defer cancel()
			facts.Workers, err = natsapi.Workers(optional, f.Conn, y.Prefix)
			return err
		}})
	return f.Answers.Explain(ctx, id)
}

// holders sees in Redis who performs effects.
func (y *why) holders(ctx context.Context, f *cli.Fleet, at redisstore.Config, facts *explain.Facts) error {
	if len(facts.Due()) == 0 {
		return nil // nobody can perform anything of it
	}
	if len(at.Addrs) == 0 {
		return errors.New("its address is not known (--redis host:port), so neither is who performs an effect")
	}
	incarnation, err := f.Incarnation(ctx)
	if err != nil {
		return err
	}
	at.Timeout = time.Second
	client, err := redisstore.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	facts.Claims, err = redisstore.Holders(ctx, client, y.Prefix, incarnation, facts.Run, facts.Due())
	return err
}

// print says it in a few lines.
func (y *why) print(x *api.Explanation) error {
	var b strings.Builder
	now := y.Now()
	fmt.Fprintf(&b, "Run %s", cli.Clean(x.Run))
	if x.Machine != "" {
		fmt.Fprintf(&b, ", %s version %d: %s in state %s since %s, revision %d", x.Machine, x.Version, x.Status, x.State, moment(now, x.Since), x.Revision)
	}
	b.WriteString("\n")
	for _, r := range x.Because {
		fmt.Fprintf(&b, "\n  %s [%s]\n", cli.Clean(r.Text), r.Code)
		for _, line := range details(&r, now) {
			fmt.Fprintf(&b, "    %s\n", cli.Clean(line))
		}
		if r.Help != "" {
			fmt.Fprintf(&b, "    → %s\n", cli.Clean(r.Help))
		}
	}
	if x.More > 0 {
		fmt.Fprintf(&b, "\n  and %d more\n", x.More)
	}
	if len(x.Unseen) > 0 {
		b.WriteString("\n")
	}
	for _, u := range x.Unseen {
		fmt.Fprintf(&b, "Not seen: %s: %s\n", u.What, cli.Clean(u.Why))
	}
	_, err := y.Stdout.Write([]byte(b.String()))
	return err
}

// details are what a reason has beside its text, a line each.
func details(r *explain.Reason, now time.Time) []string {
	var all, when []string
	if !r.Since.IsZero() {
		when = append(when, "since "+cli.Age(now, r.Since))
	}
	if !r.Until.IsZero() {
		when = append(when, "until "+cli.Time(r.Until)+in(now, r.Until))
	}
	if len(when) > 0 {
		all = append(all, strings.Join(when, ", "))
	}
	if !r.Lease.IsZero() && !r.Lease.Equal(r.Until) {
		all = append(all, "lease of "+r.Holder+" until "+cli.Time(r.Lease)+in(now, r.Lease))
	}
	if m := r.Message; m != nil && m.Stream != "" {
		line := fmt.Sprintf("message %d of %s", m.Seq, m.Stream)
		if m.Tries > 0 {
			line += fmt.Sprintf(", put off %d times", m.Tries)
		}
		all = append(all, line)
	}
	return all
}

// in is how long it is until then.
func in(now, then time.Time) string {
	const day = 24 * time.Hour
	d := then.Sub(now).Round(time.Second)
	switch {
	case d <= 0:
		return ""
	case d >= 2*day:
		return fmt.Sprintf(" (in %dd%dh)", d/day, d%day/time.Hour)
	}
	return " (in " + d.String() + ")"
}
