// Package serve runs an HTTP server from its listener to its orderly end.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server is what answers at an address that is bound. Either Run or Close must
// be called.
type Server struct {
	What     string // it serves, for errors
	Listener net.Listener
	HTTP     *http.Server
	Grace    time.Duration // for requests in hand at the end; then they are cut off
}

// Addr is the address that was bound.
func (s *Server) Addr() string { return s.Listener.Addr().String() }

// Run serves until ctx ends; then it takes nothing new and lets requests in
// hand finish within Grace. It returns nil if it ended because of ctx.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.HTTP.Serve(s.Listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", s.What, err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Grace)
	defer cancel()
	if err := s.HTTP.Shutdown(stop); err != nil {
		_ = s.HTTP.Close() // who is still at it asks again
	}
	<-served
	return nil
}

// Close gives the address back, whether or not Run was called; requests in hand
// are cut off. It may be called again.
func (s *Server) Close() error {
	if err := errors.Join(s.Listener.Close(), s.HTTP.Close()); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Answer is a ResponseWriter that remembers the code of the answer.
type Answer struct {
	http.ResponseWriter
	Code int // 200 until WriteHeader
}

// Remember wraps a ResponseWriter.
func Remember(w http.ResponseWriter) *Answer {
	return &Answer{ResponseWriter: w, Code: http.StatusOK}
}

// WriteHeader notes the code.
func (a *Answer) WriteHeader(code int) {
	a.Code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap lets answers be flushed, deadlines set and the connection reached.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
