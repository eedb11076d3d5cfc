// Command dlq-replayer shows what the fleet has given up on, and tries it anew.
//
//	dlq-replayer summary
//	dlq-replayer ls --kind effect --machine invoice --class http_4xx
//	dlq-replayer show 17
//	dlq-replayer plan --machine invoice
//	dlq-replayer redrive --machine invoice --reason INC-4412 --yes --canary 3
//
// It reads DLQ itself: it works when no worker does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawlrun/pawl/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	t := &cli.Tool{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ, Width: cli.TerminalWidth(os.Stdout)}
	os.Exit(t.Main(ctx, root(t), os.Args[1:]))
}
