// Package cli is what the command-line tools have in common: which server they
// ask, how they connect, how they print, and what their errors and exit codes
// look like.
//
// A tool asks HISTORY and DLQ itself, over one connection to NATS. It needs no
// worker, no Redis and no configuration file.
package cli
