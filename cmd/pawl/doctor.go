package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/internal/config"
	"github.com/pawlrun/pawl/internal/doctor"
	"github.com/pawlrun/pawl/redisstore"
)

// checkup is the command line of doctor.
type checkup struct {
	*app
	path    string
	redis   string
	monitor []string
	strict  bool
}

func (a *app) doctorCommand() *cobra.Command {
	d := &checkup{app: a}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look at what is set in NATS and Redis, and whether it is enough",
		Long: `Look at what is set in NATS and Redis, and whether it is enough for a fleet:
versions, streams and consumers, copies, sync, room, clocks, Redis' memory and
persistence, permissions; and what is there that people look after: letters, and
what is paused or closed. It changes nothing.

It reads the configuration that the fleet's workers read, and should be run with
their credentials: then it names what they may not do.

Each finding is ok, unknown (it cannot be seen from here), warn (the fleet works
until something happens) or fail (it does not work, or loses what it accepted).

Exit codes:
  0  nothing failed
  1  something failed, or with --strict there is a warning
  2  the command line or the configuration is wrong`,
		Example: `  pawl doctor
  pawl doctor -c fleet.yaml --monitor http://nats-0:8222,http://nats-1:8222
  pawl doctor -s nats://nats.example.com:4222 --redis redis.example.com:6379 --strict -o json`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.configuration(cmd, d.path)
			if err != nil {
				return err
			}
			return d.run(cmd.Context(), cfg)
		},
	}
	configFlag(c, &d.path)
	f := c.Flags()
	f.StringVar(&d.redis, "redis", "", "address of Redis, or several of a cluster divided by commas (default: $PAWL_REDIS_ADDR)")
	f.StringSliceVar(&d.monitor, "monitor", nil, "monitoring of the nats-servers, http://host:8222: says when writes are synced")
	f.BoolVar(&d.strict, "strict", false, "exit with 1 if there is a warning")
	return c
}

func (d *checkup) run(ctx context.Context, cfg config.Config) error {
	t, err := topology(cfg)
	if err != nil {
		return &cli.Error{Err: err, Code: cli.Usage}
	}
	t.Prefix = d.Prefix
	server, err := d.Server()
	if err != nil {
		return err
	}
	p := doctor.Patient{Topology: t, Redis: redisConfig(cfg), Monitor: d.monitor, Timeout: d.Timeout}
	switch {
	case d.redis != "":
		p.Redis.Addrs = addresses(d.redis)
	case len(p.Redis.Addrs) == 0 && server.From == "":
		// Nobody named a server: it is the fleet on this machine.
		p.Embedded, p.Redis.Addrs = true, []string{cfg.Redis.Listen}
		d.URL = "nats://" + cfg.NATS.Listen
	}
	d.Tolerate()
	redis.SetLogger(silent{}) // what matters comes back as errors
	if p.NATS, err = d.Connect("pawl doctor"); err != nil {
		p.Unreached = doctor.Finding{Found: err.Error(), Fix: "start it, or name another with -s URL"}
		if e, ok := errors.AsType[*cli.Error](err); ok && e.Hint != "" {
			p.Unreached = doctor.Finding{Found: e.Err.Error(), Fix: e.Hint}
		}
	} else {
		defer p.NATS.Close()
	}
	all := doctor.Examine(ctx, p)
	if len(p.Redis.Addrs) == 0 {
		f := doctor.Finding{Status: doctor.Unknown, Check: "redis", Found: "its address is not given", Fix: "--redis host:port"}
		if cfg.NATS.URL != "" {
			f = doctor.Finding{Status: doctor.Fail, Check: "redis", Found: "redis.addr is not set, and nats.url is: no worker starts so", Fix: "PAWL_REDIS_ADDR, or --redis"}
		}
		all = append(all, f)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return d.print(all)
}

// silent hears what the client of Redis says of its own accord.
type silent struct{}

// Printf implements the client's logger.
func (silent) Printf(context.Context, string, ...any) {}

// redisConfig says how to reach Redis, as workers do.
func redisConfig(cfg config.Config) redisstore.Config {
	r := cfg.Redis
	return redisstore.Config{
		Addrs: addresses(r.Addr), Username: r.Username, Password: r.Password.Reveal(), PasswordFile: r.PasswordFile,
		TLS: r.TLS.On(), CAFile: r.TLS.CAFile, CertFile: r.TLS.CertFile, KeyFile: r.TLS.KeyFile,
	}
}

func addresses(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func (d *checkup) print(all []doctor.Finding) error {
	count := map[doctor.Status]int{}
	for _, f := range all {
		count[f.Status]++
	}
	if d.JSON() {
		err := d.PrintJSON(struct {
			Worst    doctor.Status         `json:"worst"`
			Counts   map[doctor.Status]int `json:"counts"`
			Findings []doctor.Finding      `json:"findings"`
		}{doctor.Worst(all), count, all})
		if err != nil {
			return err
		}
	} else if err := d.table(all); err != nil {
		return err
	}
	if worst := doctor.Worst(all); worst == doctor.Fail || worst == doctor.Warn && d.strict {
		warned := "1 warning"
		if n := count[doctor.Warn]; n != 1 {
			warned = fmt.Sprintf("%d warnings", n)
		}
		return &cli.Error{Err: fmt.Errorf("%d failed, %s", count[doctor.Fail], warned)}
	}
	return nil
}

// table prints findings, each with its fix below it: a table would shorten
// what is to be copied.
func (d *checkup) table(all []doctor.Finding) error {
	wide := 0
	for _, f := range all {
		wide = max(wide, utf8.RuneCountInString(f.Check))
	}
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%-7s  %-*s  %s\n", f.Status, wide, cli.Clean(f.Check), cli.Clean(f.Found))
		if f.Fix != "" {
			fmt.Fprintf(&b, "%*s  → %s\n", len("unknown"), "", cli.Clean(f.Fix))
		}
	}
	_, err := io.WriteString(d.Stdout, b.String())
	return err
}
