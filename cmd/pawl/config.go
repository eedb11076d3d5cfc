package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/internal/config"
)

// configFlag adds the flag that names the configuration of the fleet's workers.
func configFlag(c *cobra.Command, path *string) {
	c.Flags().StringVarP(path, "config", "c", "", "configuration of the fleet's workers (default: config.yaml, if it is there, and $PAWL_…)")
}

// configuration reads what the fleet's workers read, and has the command line
// reach NATS as they do. One of the two addresses is enough here.
func (a *app) configuration(cmd *cobra.Command, path string) (config.Config, error) {
	const usual = "config.yaml"
	if _, err := os.Stat(usual); path == "" && err == nil {
		path = usual
	}
	cfg, warnings, err := config.LoadTool(path, a.Environ())
	for _, w := range warnings {
		fmt.Fprintln(a.Stderr, "pawl:", w)
	}
	if err != nil {
		return cfg, &cli.Error{Err: err, Code: cli.Usage}
	}
	a.Configure(cfg.NATS)
	if !cmd.Flags().Changed("prefix") {
		a.Prefix = cfg.Prefix
	}
	return cfg, nil
}
