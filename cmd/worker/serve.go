package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/config"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/transitions"
)

// serve works until ctx ends.
func serve(ctx context.Context, path string, env []string, stderr io.Writer) int {
	if path == "" {
		if _, err := os.Stat("config.yaml"); err == nil {
			path = "config.yaml"
		}
	}
	cfg, warnings, err := pawl.Load(path, env)
	if err != nil {
		for _, w := range warnings { // a misspelt variable may be the reason
			fmt.Fprintln(stderr, w)
		}
		fmt.Fprintln(stderr, err)
		return 2
	}
	if os.Getenv("GOGC") == "" {
		// What is alive at a time is small, what is made of it is not: a heap a
		// few times larger costs some megabytes and halves the collector's work.
		debug.SetGCPercent(400)
	}
	log := pawl.NewLogger(stderr, cfg)
	for _, w := range warnings {
		log.Warn(w)
	}
	catalog, err := catalogue(cfg, log, io.Discard)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	p, err := pawl.Open(ctx, cfg, catalog, pawl.WithLogger(log))
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return 1
	}
	log.Info("serving", "mode", string(cfg.Mode), "nats", p.NATSURL(), "redis", p.RedisAddr(), "http", p.HTTPAddr(), "build", pawl.Build())
	if err := p.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("worker failed", logkey.Error, err)
		return 1
	}
	return 0
}

// catalogue is what this binary can do, given what it is configured for.
func catalogue(cfg pawl.Config, log *slog.Logger, out io.Writer) (*statemachine.Catalog, error) {
	c, err := transitions.Catalog(transitionsConfig(cfg, log, out))
	if err != nil {
		return nil, err
	}
	return pawl.Schedules(c), nil
}

func transitionsConfig(cfg config.Config, log *slog.Logger, out io.Writer) transitions.Config {
	bound := make(map[string]transitions.Bound, len(cfg.Effects.Bound))
	for name, b := range cfg.Effects.Bound {
		bound[name] = transitions.Bound{URL: b.URL, Call: pawl.HandlerOf(b), Timeout: b.Timeout, Verify: b.Verify, Within: b.Within, Heartbeat: b.Heartbeat,
			Tool: transitions.Tool{Description: b.Tool.Description, Parameters: json.RawMessage(b.Tool.Parameters), Risky: b.Tool.Risky}}
	}
	m := cfg.Effects.Model
	return transitions.Config{
		AllowHosts: cfg.Effects.HTTP.AllowHosts, HTTPTimeout: cfg.Effects.HTTP.Timeout,
		FileDir: cfg.Effects.File.Dir, Bound: bound, Logger: log, Out: out,
		Model: transitions.Model{URL: m.URL, Name: m.Name, Key: m.Key.Reveal(), Timeout: m.Timeout},
	}
}
