// Command worker is one process of a fleet: it drives runs until it is told
// to stop.
//
//	worker                     serve; with no servers given, embedded ones in ./pawl-data
//	worker --demo              run the shipped samples on an embedded fleet, and exit
//	worker --config fleet.yaml serve as the file says
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawlrun/pawl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run returns the exit code: 0 after an orderly end, 1 after a failure, 2 if
// the command line or the configuration is wrong.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("worker", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	path := f.String("config", "", "")
	demo := f.Bool("demo", false, "")
	version := f.Bool("version", false, "")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, usage)
			return 0
		}
		fmt.Fprintf(stderr, "worker: %v; see worker --help\n", err)
		return 2
	}
	switch {
	case f.NArg() > 0:
		fmt.Fprintf(stderr, "worker: unexpected argument %q; see worker --help\n", f.Arg(0))
		return 2
	case *version:
		fmt.Fprintln(stdout, pawl.Build())
		return 0
	case *demo:
		return runDemo(ctx, stdout, stderr)
	}
	return serve(ctx, *path, env, stderr)
}
