package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/client"
	"github.com/pawlrun/pawl/internal/cli"
)

// mostSilence is how long workers may be silent before there are none.
const mostSilence = 2 * time.Second

func (a *app) workerListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the workers that answer",
		Long: `List the workers that answer: their build, where they run, since when, and what
they do now. It waits a moment for those that are slow.`,
		Example: `  pawl worker ls
  pawl worker ls -o json | jq -r '.[] | select(.data.ready == false) | .metadata.host'`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.workerList(cmd.Context()) },
	}
}

func (a *app) workerList(ctx context.Context) error {
	nc, err := a.Connect("pawl worker ls")
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := client.New(nc, client.WithPrefix(a.Prefix), client.WithTimeout(min(a.Timeout, mostSilence)))
	if err != nil {
		return err
	}
	workers, err := c.Workers(ctx)
	if err != nil {
		return &cli.Error{Err: err, Hint: "is one running? is it the right fleet? -s URL, --prefix"}
	}
	slices.SortFunc(workers, func(x, y client.Worker) int {
		return cmp.Or(cmp.Compare(x.Metadata["worker"], y.Metadata["worker"]), cmp.Compare(x.ID, y.ID))
	})
	if a.JSON() {
		return a.PrintJSON(workers)
	}
	t := a.PrintTable("WORKER", "BUILD", "HOST", "PID", "STARTED", "DOING", "REQUESTS")
	for _, w := range workers {
		m := w.Metadata
		started := m["started"]
		if at, err := time.Parse(time.RFC3339, started); err == nil {
			started = cli.Age(a.Now(), at)
		}
		if err := t.Row(cmp.Or(m["worker"], w.ID), cmp.Or(m["build"], w.Build), m["host"], m["pid"], started, doing(w.Data), w.Requests); err != nil {
			return err
		}
	}
	_, err = t.End()
	return err
}

// doing is a worker's own statistics on one line.
func doing(data json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(data, &fields) != nil {
		return ""
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch v := fields[name].(type) {
		case bool:
			if v {
				all = append(all, name)
			} else {
				all = append(all, "not "+name)
			}
		case float64, string:
			all = append(all, fmt.Sprintf("%s %v", name, v))
		}
	}
	return strings.Join(all, ", ")
}
