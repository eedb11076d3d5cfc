// Package ops serves what operators and their machines ask a process: is it
// alive, is it ready, what does it count.
//
//	/livez        200 as long as the process answers; it looks at nothing else,
//	              since a restart repairs no dependency
//	/readyz       200, or 503 with the reasons, as JSON; with ?text one line for
//	              each failing check
//	/metrics      what the registry has gathered
//	/debug/pprof  profiles, if switched on
package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/internal/serve"
)

// Options say what is served, and where.
type Options struct {
	Addr     string              // host:port; port 0 takes a free one
	AnyPort  bool                // if the port is taken, take a free one and warn
	Pprof    bool                // serve /debug/pprof
	Ready    *Ready              // shared with whoever sets the checks
	Gatherer prometheus.Gatherer // nil serves no /metrics
	// Served is told of each request: the pattern that served it, "" if none
	// did, and the code. May be nil.
	Served func(path string, code int)
	Logger *slog.Logger // nil drops what the server says
}

// Server answers over HTTP.
type Server struct{ *serve.Server }

// The server faces probes and scrapers, which are quick; a profile may take as
// long as its reader asked for, so nothing bounds the writing.
const (
	readTimeout = 5 * time.Second
	idleTimeout = 2 * time.Minute
	stopTimeout = 2 * time.Second
)

// Listen binds the address, so that a taken one is an error at start. Then
// either Run or Close must be called.
func Listen(c Options) (*Server, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	l, err := net.Listen("tcp", c.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("http.addr: %s is in use by another program: stop that, or set PAWL_HTTP_ADDR (127.0.0.1:0 takes a free port)", c.Addr)
		if host, _, e := net.SplitHostPort(c.Addr); e == nil && c.AnyPort {
			if l, e = net.Listen("tcp", net.JoinHostPort(host, "0")); e == nil {
				c.Logger.Warn("took another port for health and metrics", logkey.Addr, l.Addr().String(), logkey.Error, err)
				err = nil
			}
		}
	} else if err != nil {
		err = fmt.Errorf("http.addr: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return &Server{&serve.Server{What: "health and metrics", Listener: l, Grace: stopTimeout, HTTP: &http.Server{
		Handler:           counted(handler(c), c.Served),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn),
	}}}, nil
}

func handler(c Options) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "alive\n") })
	mux.HandleFunc("GET /readyz", c.Ready.serve)
	if c.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(c.Gatherer, promhttp.HandlerOpts{
			ErrorLog:      slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn),
			ErrorHandling: promhttp.ContinueOnError, // what one collector lacks must not hide the others
		}))
	}
	if c.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// counted tells served of each request that h was given.
func counted(h *http.ServeMux, served func(string, int)) http.Handler {
	if served == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c := serve.Remember(w)
		h.ServeHTTP(c, req)
		_, path, ok := strings.Cut(req.Pattern, " ")
		if !ok {
			path = req.Pattern
		}
		served(path, c.Code)
	})
}

func (r *Ready) serve(w http.ResponseWriter, req *http.Request) {
	s := r.status()
	code := http.StatusOK
	if !s.Ready {
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	if req.URL.Query().Has("text") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, s.String())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(s.json()) // if it fails, whoever asked has gone
}

// json writes one check to a line, so that a person at a terminal and grep can
// read it too.
func (s Status) json() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"ready\": %t, \"checks\": [", s.Ready)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i, c := range s.Checks {
		if i > 0 {
			b.Truncate(b.Len() - 1) // the line end that Encode wrote
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		_ = enc.Encode(c) // strings and a bool: cannot fail
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

// String is "ready", or one line for each failing check.
func (s Status) String() string {
	if s.Ready {
		return "ready\n"
	}
	if len(s.Checks) == 0 {
		return "not ready: starting\n"
	}
	var b strings.Builder
	for _, c := range s.Checks {
		if !c.OK {
			fmt.Fprintf(&b, "not ready: %s: %s\n", c.Name, c.Reason)
		}
	}
	return b.String()
}

// text is an error as one line.
func text(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
