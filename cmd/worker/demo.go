package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/client"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/transitions"
)

// demoLimit is how long the samples may take.
const demoLimit = time.Minute

// runDemo starts an embedded fleet in a temporary directory, publishes the
// shipped samples as any producer would, and prints each transition until all
// runs have ended. It returns 0 only if every run succeeded.
func runDemo(ctx context.Context, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "pawl-demo-")
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	cfg := pawl.Default()
	cfg.DataDir, cfg.NATS.Listen, cfg.Redis.Listen, cfg.HTTP.Addr = dir, "127.0.0.1:0", "127.0.0.1:0", ""
	cfg.Effects.File.Dir = filepath.Join(dir, "files")
	cfg.Log.Level = slog.LevelWarn
	log := pawl.NewLogger(stderr, cfg)
	catalog, err := catalogue(cfg, log, io.Discard)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	p, err := pawl.Open(ctx, cfg, catalog, pawl.WithLogger(log))
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return 1
	}
	fleet, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(fleet) }()

	select {
	case <-p.Up():
	case err := <-ended:
		fmt.Fprintln(stderr, "worker:", err)
		return 1
	}
	d := &demo{out: stdout, began: time.Now(), open: map[string]bool{}}
	err = d.play(ctx, p.NATSURL(), cfg.Prefix, catalog)
	stop()
	if e := <-ended; err == nil {
		err = e
	}
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return 1
	}
	fmt.Fprintf(stdout, "\n%d of %d runs succeeded, %d effects performed, %s\n", d.succeeded, d.started, d.effects, time.Since(d.began).Round(time.Millisecond))
	if d.succeeded != d.started {
		return 1
	}
	return 0
}

// demo is a producer, and somebody who watches.
type demo struct {
	out                         io.Writer
	began                       time.Time
	open                        map[string]bool // runs that have not ended
	started, succeeded, effects int
	coordinator                 *client.Client // who decides what runs ask people
}

func (d *demo) play(ctx context.Context, url, prefix string, catalog *statemachine.Catalog) error {
	nc, err := nats.Connect(url, nats.Name("pawl demo"))
	if err != nil {
		return fmt.Errorf("connect as a producer: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if d.coordinator, err = client.Connect(url, client.WithPrefix(prefix), client.WithUser("coordinator")); err != nil {
		return fmt.Errorf("connect as one who decides: %w", err)
	}
	defer d.coordinator.Close()
	fmt.Fprintf(d.out, "an embedded fleet, NATS at %s; publishing the samples:\n", url)
	for _, def := range catalog.Definitions() {
		input, ok := transitions.Sample(def.Name)
		if !ok || d.open["demo-"+def.Name] { // the versions of a machine begin with one name
			continue
		}
		m := nats.NewMsg(prefix + ".start." + def.Name)
		m.Header.Set("Pawl-Run-Id", "demo-"+def.Name)
		m.Data = input
		if _, err := js.PublishMsg(ctx, m); err != nil {
			return fmt.Errorf("start %s: %w", def.Name, err)
		}
		d.started++
		d.open["demo-"+def.Name] = true
		fmt.Fprintf(d.out, "  %s  Pawl-Run-Id: demo-%s  (%d bytes)\n", m.Subject, def.Name, len(input))
	}
	fmt.Fprintln(d.out)
	return d.watch(ctx, js, prefix)
}

// watch prints every record of HISTORY as it is committed.
func (d *demo) watch(ctx context.Context, js jetstream.JetStream, prefix string) error {
	consumer, err := js.OrderedConsumer(ctx, strings.ToUpper(prefix)+"_HISTORY", jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	records, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer records.Stop()
	for len(d.open) > 0 {
		m, err := records.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("watch: %w (%d runs have not ended)", err, len(d.open))
		}
		r, err := statemachine.Decode(m.Data())
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		d.show(r)
		if err := d.decide(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// decide approves what a run asks people, once.
func (d *demo) decide(ctx context.Context, r *statemachine.Record) error {
	for _, w := range r.Waits {
		if w.Kind != statemachine.WaitApproval || r.From == r.To {
			continue
		}
		if _, err := d.coordinator.Decide(ctx, r.Run, client.Approve, client.DecisionOptions{Approval: w.ID, RequestID: w.ID, Reason: "the papers are in order"}); err != nil {
			return fmt.Errorf("approve what %s asks: %w", r.Run, err)
		}
	}
	return nil
}

// show prints one transition.
func (d *demo) show(r *statemachine.Record) {
	var what []string
	for _, e := range r.Events {
		s := string(e.Kind)
		if e.Kind == statemachine.EventResult {
			d.effects++
			s = e.Name + " done"
		}
		if e.Cause != nil {
			s += ": " + e.Cause.Message
		}
		what = append(what, s)
	}
	to := r.To
	if r.Status.Ended() {
		to += " (" + string(r.Status) + ")"
		delete(d.open, r.Run)
		if r.Status == statemachine.StatusSucceeded {
			d.succeeded++
		}
	}
	from := r.From
	if from == "" {
		from = "·"
	}
	next := ""
	for _, p := range r.Pending {
		next += fmt.Sprintf("  → %s (%s)", p.Effect, p.Place)
	}
	fmt.Fprintf(d.out, "%7s  %-17s %2d  %-28s %s → %s%s\n", time.Since(d.began).Round(time.Millisecond), r.Run, r.Rev, strings.Join(what, ", "), from, to, next)
}
