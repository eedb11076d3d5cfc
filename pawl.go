// Package pawl wires one process of a fleet: servers if it brings its own,
// connections, worker, health. It is what a fleet's owner calls from a main of
// their own:
//
//	cfg, warnings, err := pawl.Load("config.yaml", os.Environ())
//	…
//	catalog := new(statemachine.Catalog).Add(myMachine())
//	statemachine.Handle(catalog, myEffect, myHandler)
//	err = pawl.Run(ctx, cfg, catalog)
//
// With real servers, the streams and the consumers of the effects are made
// once, with natsqueue.Provision(ctx, nc, pawl.Topology(cfg, catalog)).
//
// The parts, from the bottom up: statemachine is what a machine is and how it
// moves; worker drives runs, over interfaces; natsqueue and redisstore are
// those interfaces over JetStream and Redis.
package pawl

import (
	"context"

	"github.com/pawlrun/pawl/internal/config"
	"github.com/pawlrun/pawl/statemachine"
)

// Config is everything a process is told from outside. Its fields are the keys
// of config.yaml, which has a comment, the unit and the default of each.
type Config = config.Config

// Load reads a configuration file, and the environment over it. Path "" means
// the defaults. It reports every fault at once; warnings are for the log.
func Load(path string, env []string) (cfg Config, warnings []string, err error) {
	return config.Load(path, env)
}

// Default is the configuration without file and environment: an embedded
// fleet on the loopback.
func Default() Config { return config.Default() }

// Run works until ctx ends, and returns when everything it started has ended:
// nil after an orderly stop.
func Run(ctx context.Context, cfg Config, catalog *statemachine.Catalog, opts ...Option) error {
	p, err := Open(ctx, cfg, catalog, opts...)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}
