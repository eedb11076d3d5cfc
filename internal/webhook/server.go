package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/serve"
	"github.com/pawlrun/pawl/statemachine"
)

// Machines knows what the fleet can run.
type Machines interface {
	// Known reports whether any version of a machine is registered, or the
	// given one if version is not 0.
	Known(ctx context.Context, name string, version int) (bool, error)
}

// Runs answers what a run is like.
type Runs interface {
	Run(ctx context.Context, id string, items int) (*api.Run, error)
}

// Log is where a run's last record is looked at; nil if it has none.
type Log interface {
	Look(ctx context.Context, run string) (*statemachine.Stored, error)
}

// Options say what is taken, from whom, and where it goes.
type Options struct {
	Addr     string   // host:port; port 0 takes a free one
	Tokens   []string // any of them is good; at least one is needed
	Sender   api.Sender
	Machines Machines
	Runs     Runs
	Results  api.Results
	Log      Log
	InFlight int           // requests at once; default 64
	Timeout  time.Duration // of storing one message, or reading one run; default 5 s
	Logger   *slog.Logger  // nil drops what the server says
	// Served is told of each request: the pattern it matched, "" if none, and
	// the code of the answer. May be nil.
	Served func(path string, code int)
}

func (o Options) withDefaults() Options {
	if o.InFlight <= 0 {
		o.InFlight = 64
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Served == nil {
		o.Served = func(string, int) {}
	}
	return o
}

const (
	// maxBody is what the streams of starts and signals take, headers included.
	maxBody = 900 << 10
	// maxHeader bounds what a client without a token can make us hold.
	maxHeader = 16 << 10

	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second // of a header, and of a body that is not read
	piece         = 32 << 10         // bytes of a body …
	pieceTimeout  = 2 * time.Second  // … that have to come in this time
	slowest       = (maxBody/piece + 1) * pieceTimeout
	idleTimeout   = time.Minute
	grace         = 2 * time.Second // beyond Timeout, for what is in hand at a stop
)

// Server takes requests over HTTP.
type Server struct {
	*serve.Server
	o      Options
	mux    *http.ServeMux
	tokens [][sha256.Size]byte
	places chan struct{}
}

// Listen binds the address. Then either Run or Close must be called.
func Listen(o Options) (*Server, error) {
	o = o.withDefaults()
	if len(o.Tokens) == 0 {
		return nil, errors.New("http.starts: no token: nobody could be let in")
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("http.starts.addr: %w", err)
	}
	s := &Server{o: o, mux: http.NewServeMux(), places: make(chan struct{}, o.InFlight)}
	for _, t := range o.Tokens {
		s.tokens = append(s.tokens, sha256.Sum256([]byte(t)))
	}
	s.mux.HandleFunc("POST /start/{machine}", s.start)
	s.mux.HandleFunc("POST /signal/{run}/{name}", s.signal)
	s.mux.HandleFunc("GET /runs/{run}", s.run)
	s.mux.HandleFunc("POST "+results+"{token}", s.result)
	s.mux.HandleFunc("POST "+results+"{token}/failure", s.failure)
	s.mux.HandleFunc("POST "+results+"{token}/heartbeat", s.heartbeat)
	s.Server = &serve.Server{What: "starts over HTTP", Listener: l, Grace: o.Timeout + grace, HTTP: &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      max(readTimeout, headerTimeout+slowest) + o.Timeout + grace,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), // what strangers send is no news
	}}
	return s, nil
}

// results is where the results of effects are taken. Their own tokens let them
// in: who brings one may be no one whom the fleet gave another.
const results = "/result/"

// ServeHTTP lets in who has a token, while there is a place.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, pattern := s.mux.Handler(req)
	_, path, _ := strings.Cut(pattern, " ")
	c := serve.Remember(w)
	defer func() { s.o.Served(path, c.Code) }()
	if !strings.HasPrefix(path, results) && !s.knows(req) {
		c.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
		fail(c, &api.Error{Code: http.StatusUnauthorized, Class: "unauthorised", Message: "a token is needed: Authorization: Bearer …"})
		return
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		fail(c, &api.Error{Code: http.StatusServiceUnavailable, Class: api.ClassBusy, Message: "too many requests at once: send it again"})
		return
	}
	if pattern == "" { // the mux says so in plain text
		n := &nowhere{header: http.Header{}}
		s.mux.ServeHTTP(n, req)
		e := &api.Error{Code: n.code, Class: api.ClassNotFound, Message: "nothing is at this path"}
		if allow := n.header.Get("Allow"); allow != "" {
			c.Header().Set("Allow", allow)
			e.Class, e.Message = api.ClassBadRequest, "this path takes "+allow
		}
		fail(c, e)
		return
	}
	s.mux.ServeHTTP(c, req)
}

// nowhere is told what the mux says of a request that no handler takes.
type nowhere struct {
	header http.Header
	code   int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(code int)        { n.code = code }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }

// knows reports whether a request has one of the tokens. How long that takes
// tells nothing about them.
func (s *Server) knows(req *http.Request) bool {
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	good := 0
	for _, t := range s.tokens {
		good |= subtle.ConstantTimeCompare(t[:], given[:])
	}
	return good == 1 && strings.EqualFold(scheme, "Bearer")
}

// retryAfter is how long, in seconds, who got a 503 is asked to wait.
func retryAfter(e *api.Error) int {
	if e.Class == api.ClassBusy {
		return 1
	}
	return 5
}

func fail(w http.ResponseWriter, e *api.Error) {
	if e.Code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter(e)))
	}
	answer(w, e.Code, e)
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // if it fails, whoever asked has gone, and sends it again
}
