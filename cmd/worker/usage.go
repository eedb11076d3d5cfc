package main

const usage = `worker is one process of a fleet: it drives runs until it is told to stop.

Usage:
  worker [flags]

Examples:
  worker                       serve; with no servers given, embedded ones in ./pawl-data
  worker --demo                run the shipped samples on an embedded fleet, and exit
  worker --config fleet.yaml   serve as the file says

  PAWL_NATS_URL=nats://nats:4222 PAWL_REDIS_ADDR=redis:6379 worker
                               serve with real servers, which pawl provision has made ready

Flags:
  --config FILE   configuration (default: config.yaml, if it is there). Every value of it
                  may be set by PAWL_<PATH>, such as PAWL_WORKER_ACK_WAIT
  --demo          run the shipped samples on an embedded fleet in a temporary directory, and exit
  --version       print the build and exit

SIGTERM and Ctrl-C stop it in order; a second one ends it at once, which loses nothing.

Exit codes: 0 stopped in order, 1 a failure, 2 the command line or the configuration is wrong.
`
