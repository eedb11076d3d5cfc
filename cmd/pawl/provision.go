package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/transitions"
)

func (a *app) provisionCommand() *cobra.Command {
	var path string
	var dry, shrink bool
	c := &cobra.Command{
		Use:   "provision",
		Short: "Create the streams and consumers of a fleet, or bring them up to date",
		Long: `Create the streams and consumers that a fleet needs, or change those that differ
from what the configuration says: it prints each difference, then makes it. It
may be called any number of times. An embedded fleet does this by itself;
workers with real servers never do.

What cannot be changed, and what would make a limit or the number of replicas
smaller, is left; then the exit code is 1.`,
		Example: `  pawl provision --config fleet.yaml --dry-run
  pawl provision --config fleet.yaml -s nats://nats.example.com:4222`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.configuration(cmd, path)
			if err != nil {
				return err
			}
			t, err := topology(cfg)
			if err != nil {
				return &cli.Error{Err: err, Code: cli.Usage}
			}
			t.Prefix, t.Shrink = a.Prefix, shrink
			return a.provision(cmd.Context(), t, dry)
		},
	}
	configFlag(c, &path)
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	c.Flags().BoolVar(&shrink, "shrink", false, "also make limits and the number of replicas smaller")
	return c
}

// topology is what the fleet of a configuration needs.
func topology(cfg pawl.Config) (natsqueue.Topology, error) {
	bound := make(map[string]transitions.Bound, len(cfg.Effects.Bound))
	for name, b := range cfg.Effects.Bound {
		bound[name] = transitions.Bound{URL: b.URL, Call: pawl.HandlerOf(b), Timeout: b.Timeout, Verify: b.Verify, Within: b.Within, Heartbeat: b.Heartbeat}
	}
	catalog, err := transitions.Catalog(transitions.Config{
		AllowHosts: cfg.Effects.HTTP.AllowHosts, Bound: bound, Model: transitions.Model{URL: cfg.Effects.Model.URL, Name: cfg.Effects.Model.Name},
	})
	if err != nil {
		return natsqueue.Topology{}, err
	}
	return pawl.Topology(cfg, pawl.Schedules(catalog)), nil
}

// changeRow is a change for programs.
type changeRow struct {
	Object string `json:"object"`
	Field  string `json:"field,omitempty"` // absent: it is created
	Have   string `json:"have,omitempty"`
	Want   string `json:"want,omitempty"`
	Held   string `json:"held,omitempty"` // why it is not made
	Vital  bool   `json:"vital"`          // the fleet does not work with what is there
}

// provision shows what it will do, then does it.
func (a *app) provision(ctx context.Context, t natsqueue.Topology, dry bool) error {
	nc, err := a.Connect("pawl provision")
	if err != nil {
		return err
	}
	defer nc.Close()
	changes, err := natsqueue.Plan(ctx, nc, t)
	if !a.JSON() {
		for _, c := range changes {
			fmt.Fprintln(a.Stdout, c)
		}
	}
	if err != nil {
		return err
	}
	if !dry && len(changes) > 0 {
		if changes, err = natsqueue.Provision(ctx, nc, t); err != nil {
			return a.whyNot(err)
		}
	}
	held := 0
	for _, c := range changes {
		if c.Held != "" {
			held++
		}
	}
	switch {
	case a.JSON():
		rows := make([]changeRow, 0, len(changes))
		for _, c := range changes {
			rows = append(rows, changeRow(c))
		}
		if err := a.PrintJSON(rows); err != nil {
			return err
		}
	case len(changes) == 0:
		fmt.Fprintln(a.Stdout, "nothing to do")
	case dry:
		fmt.Fprintln(a.Stderr, "nothing was done: --dry-run")
	default:
		fmt.Fprintf(a.Stderr, "done: %d of %d\n", len(changes)-held, len(changes))
	}
	if held > 0 {
		return &cli.Error{Err: fmt.Errorf("%d differences are left", held), Hint: "--shrink allows what would shrink"}
	}
	return nil
}

// whyNot says what to do about what the server refused.
func (a *app) whyNot(err error) error {
	switch {
	case strings.Contains(err.Error(), "no suitable peers"), strings.Contains(err.Error(), "replicas > 1 not supported"):
		return &cli.Error{Err: err, Hint: "there are fewer servers with JetStream than nats.replicas"}
	case strings.Contains(err.Error(), "insufficient storage"):
		return &cli.Error{Err: err, Hint: "the limits of all streams together are more than the server's max_file_store, or the account's"}
	}
	return err
}
