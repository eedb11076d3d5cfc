// Command pawl starts runs, and shows what became of them.
//
//	pawl run start report --input '{"source":{"text":"…"},"to":"customer-17@example.com"}' --wait
//	pawl run show report-4412
//	pawl run history report-4412
//	pawl run ls --status parked
//	pawl run graph report-4412
//
// It reads HISTORY itself: it works when no worker does.
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
