// Package freeport finds ports of the loopback for the servers of tests that are
// told where to listen.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports that are tried. Systems take ports from 32768 on for connections, so
// one of those may be gone at any moment; a Redis of a cluster has another port
// 10,000 above its own.
const (
	first = 10_000
	last  = 22_000
	tries = 200
)

// Find returns a port nobody listens on. Another process may take it before it
// is used, if it happens to try the same.
func Find() (int, error) {
	var err error
	for range tries {
		port := first + rand.IntN(last-first)
		l, failed := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if failed != nil {
			err = failed
			continue
		}
		return port, l.Close()
	}
	return 0, errors.Join(errors.New("no free port was found"), err)
}
